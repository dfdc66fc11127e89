package adaptertest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
)

// A client that sends its body byte by byte holds neither a connection of the database nor its key: another client with
// the same key and command overtakes it.
//
// CONTRACT H-5, O-1
func slowBodyHoldsNothing(t *testing.T, a Adapter) {
	d := NewSQLite(t)
	pool, err := d.DB.DB()
	require.NoError(t, err)
	reads := make(chan struct{})
	outer := a.Middleware(func(c Context, next func() error) error {
		if r := c.Request(); r.Header.Get("X-Slow") != "" {
			r.Body = slowBody{r.Body, reads}
		}
		return next()
	})
	client := paying(t, a, d.Config(), func(c Context) error { return c.String(http.StatusCreated, "paid") }, outer)
	idle := pool.Stats().InUse

	const body = "amount=12"
	slow := dial(t, strings.TrimPrefix(client.URL, "http://"))
	slow.send("X-Slow: yes\r\nAuthorization: Bearer " + client.Token + "\r\nIdempotency-Key: key-1\r\n" +
		"Content-Length: 9\r\n\r\n")
	for i := range len(body) {
		<-reads // the guard asks for the next byte
		require.Equal(t, idle, pool.Stats().InUse)
		if i == 5 {
			require.Equal(t, "created", client.Do(Call{Key: "key-1", Body: body}).Result())
		} else if i < 5 {
			requireNothingRecorded(t, d)
		}
		slow.send(body[i : i+1])
	}
	got := slow.answer()
	require.Equal(t, http.StatusCreated, got.Status)
	require.Equal(t, "reused", got.Result())
}

// What bounds a slow client is the server's ReadTimeout: nothing is recorded and nothing has run.
//
// CONTRACT H-5
func slowBodyIsCut(t *testing.T, a Adapter) {
	d, app := NewSQLite(t), a.New()
	Guarded(t, a, app, d.Config()).Handle(http.MethodPost, "/pay", Never(t, a))
	server := httptest.NewUnstartedServer(app)
	server.Config.ReadTimeout = 100 * time.Millisecond // for the body
	server.Config.ReadHeaderTimeout = 30 * time.Second // the header may take its time on a busy machine
	server.Start()
	t.Cleanup(server.Close)

	slow := dial(t, server.Listener.Addr().String())
	slow.send("Authorization: Bearer " + Sign(t, ClaimsOf("customer-1")) + "\r\nIdempotency-Key: key-1\r\n" +
		"Content-Length: 9\r\n\r\namou")
	RequireProblem(t, http.StatusBadRequest, "body_unreadable", slow.answer())
	requireNothingRecorded(t, d)
}

// requireNothingRecorded requires that customer-1 has no record with the key key-1.
func requireNothingRecorded(t *testing.T, d Database) {
	t.Helper()
	id := core.Scoping{}.RecordID(core.Principal{Issuer: Issuer, Subject: "customer-1"}, "key-1")
	_, err := d.Store.Find(t.Context(), id, store.Viewer{All: true})
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

// slowClient writes a request by hand.
type slowClient struct {
	t    testing.TB
	conn net.Conn
}

func dial(t *testing.T, address string) slowClient {
	t.Helper()
	c := slowClient{t, connect(t, address)}
	c.send("POST /v1/pay HTTP/1.1\r\nHost: example\r\nConnection: close\r\n")
	return c
}

func connect(t testing.TB, address string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (c slowClient) send(text string) {
	c.t.Helper()
	_, err := fmt.Fprint(c.conn, text)
	require.NoError(c.t, err)
}

func (c slowClient) answer() Answer {
	c.t.Helper()
	require.NoError(c.t, c.conn.SetReadDeadline(time.Now().Add(30*time.Second)))
	res, err := http.ReadResponse(bufio.NewReader(c.conn), nil)
	require.NoError(c.t, err)
	defer func() { _ = res.Body.Close() }()
	return read(res)
}
