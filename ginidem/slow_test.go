package ginidem_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/ginidem"
)

// A client that sends its body byte by byte holds neither a connection of the database nor its key: another client with
// the same key and command overtakes it.
//
// CONTRACT H-5, O-1
func TestSlowBodyHoldsNothing(t *testing.T) {
	d := newSQLite(t)
	pool, err := d.db.DB()
	require.NoError(t, err)
	r := gin.New()
	reads := make(chan struct{})
	v1 := r.Group("/v1", func(c *gin.Context) {
		if c.GetHeader("X-Slow") != "" {
			c.Request.Body = slowBody{c.Request.Body, reads}
		}
	}, ginidem.JWTGuard(newVerifier(t)), ginidem.Idempotent(newModule(t, d.config())))
	v1.POST("/pay", func(c *gin.Context) { c.String(http.StatusCreated, "paid") })
	a := serve(t, r)
	idle := pool.Stats().InUse

	const body = "amount=12"
	slow := dial(t, a.server.Listener.Addr())
	slow.send("X-Slow: yes\r\nAuthorization: Bearer " + a.token + "\r\nIdempotency-Key: key-1\r\nContent-Length: 9\r\n\r\n")
	for i := range len(body) {
		<-reads // the guard asks for the next byte
		require.Equal(t, idle, pool.Stats().InUse)
		if i == 5 {
			require.Equal(t, "created", a.do(call{key: "key-1", body: body}).header.Get("Idempotency-Result"))
		} else if i < 5 {
			_, err := d.store.Find(t.Context(), core.RecordID(core.Principal{Issuer: issuer, Subject: "customer-1"}, "key-1"))
			require.ErrorIs(t, err, core.ErrNotFound)
		}
		slow.send(body[i : i+1])
	}
	got := slow.answer()
	require.Equal(t, http.StatusCreated, got.status)
	require.Equal(t, "reused", got.header.Get("Idempotency-Result"))
}

// What bounds a slow client is the server's ReadTimeout: nothing is recorded and nothing has run.
//
// CONTRACT H-5
func TestSlowBodyIsCut(t *testing.T) {
	d := newSQLite(t)
	r := gin.New()
	guarded(t, r, d.config()).POST("/pay", func(*gin.Context) { t.Error("the handler of half a command has run") })
	server := httptest.NewUnstartedServer(r)
	server.Config.ReadTimeout = 100 * time.Millisecond
	server.Start()
	t.Cleanup(server.Close)

	slow := dial(t, server.Listener.Addr())
	slow.send("Authorization: Bearer " + sign(t, claimsOf("customer-1")) + "\r\nIdempotency-Key: key-1\r\n" +
		"Content-Length: 9\r\n\r\namou")
	requireProblem(t, http.StatusBadRequest, "body_unreadable", slow.answer())
	_, err := d.store.Find(t.Context(), core.RecordID(core.Principal{Issuer: issuer, Subject: "customer-1"}, "key-1"))
	require.ErrorIs(t, err, core.ErrNotFound)
}

// slowBody tells of every read before it is made.
type slowBody struct {
	io.ReadCloser
	reads chan<- struct{}
}

func (b slowBody) Read(p []byte) (int, error) {
	b.reads <- struct{}{}
	return b.ReadCloser.Read(p[:1])
}

// client writes a request by hand.
type client struct {
	t    *testing.T
	conn net.Conn
}

func dial(t *testing.T, address net.Addr) client {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address.String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	c := client{t, conn}
	c.send("POST /v1/pay HTTP/1.1\r\nHost: example\r\nConnection: close\r\n")
	return c
}

func (c client) send(text string) {
	c.t.Helper()
	_, err := fmt.Fprint(c.conn, text)
	require.NoError(c.t, err)
}

func (c client) answer() answer {
	c.t.Helper()
	require.NoError(c.t, c.conn.SetReadDeadline(time.Now().Add(30*time.Second)))
	res, err := http.ReadResponse(bufio.NewReader(c.conn), nil)
	require.NoError(c.t, err)
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	return answer{status: res.StatusCode, header: res.Header, body: string(body), err: err}
}
