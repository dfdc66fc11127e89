package adaptertest

import (
	"context"
	"encoding/binary"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/operations"
)

// watched is a writer that keeps the last deadline.
type watched struct {
	http.ResponseWriter
	mu       sync.Mutex
	deadline time.Time
}

func (w *watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *watched) SetWriteDeadline(deadline time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deadline = deadline
	return http.NewResponseController(w.ResponseWriter).SetWriteDeadline(deadline)
}

// Every answer has a write deadline: first ones, replays, problems, and what handlers of operations say. It is the route's,
// unless the server's own is shorter. A request that is not guarded has none.
//
// CONTRACT R-4
func answersHaveADeadline(t *testing.T, a Adapter) {
	const within = 7 * time.Second
	for name, test := range map[string]struct{ server, want time.Duration }{
		"no WriteTimeout":     {0, within},
		"a long WriteTimeout": {time.Hour, within},
		"a short one":         {within - time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			idem := NewModule(t, core.Config{Policy: core.Policy{Recovery: core.Park, Deadline: within, Lease: within}})
			app := a.New()
			v1 := app.Group("/v1", a.JWTGuard(NewVerifier(t)), a.Idempotent(idem))
			v1.Handle(http.MethodPost, "/pay", text(a, func(Context) string { return "paid" }))
			v1.Handle(http.MethodPost, "/panic", a.Handler(func(Context) error { panic("paid") }))
			v1.Handle(http.MethodGet, "/operation", a.Operations(idem, operations.Own))
			v1.Handle(http.MethodGet, "/operations", a.Operations(idem, operations.List))
			v1.Handle(http.MethodGet, "/plain", text(a, func(Context) string { return "plain" }))
			var last *watched
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				last = &watched{ResponseWriter: w}
				defer func() { // as recovery middleware does, where the framework has none
					if recover() != nil {
						w.WriteHeader(http.StatusInternalServerError)
					}
				}()
				app.ServeHTTP(last, r)
			}))
			server.Config.WriteTimeout = test.server
			server.Start()
			defer server.Close()
			client := &Client{t: t, ctx: t.Context(), URL: server.URL, HTTP: server.Client(),
				Token: Sign(t, ClaimsOf("customer-1", "customer"))}
			for _, c := range []struct {
				call   Call
				status int
				want   time.Duration
			}{
				{Call{Key: "key-1"}, http.StatusCreated, within},
				{Call{Key: "key-1"}, http.StatusCreated, within},
				{Call{Key: "key-1", Body: "other"}, http.StatusConflict, within},
				{Call{}, http.StatusBadRequest, within},
				{Call{Path: "/v1/panic", Key: "key-3"}, http.StatusInternalServerError, within},
				{Call{Key: "key-2", Token: "-"}, http.StatusUnauthorized, time.Minute},
				{Call{Path: "/v1/operation", Method: http.MethodGet, Key: "key-1"}, http.StatusOK, time.Minute},
				{Call{Path: "/v1/operation", Method: http.MethodGet, Key: "key-2"}, http.StatusNotFound, time.Minute},
				{Call{Path: "/v1/operations", Method: http.MethodGet}, http.StatusForbidden, time.Minute},
				{Call{Path: "/v1/plain", Method: http.MethodGet}, http.StatusCreated, 0},
			} {
				sent := time.Now()
				require.Equal(t, c.status, client.Do(c.call).Status)
				if c.want == 0 || test.want == 0 {
					require.Zero(t, last.deadline)
					continue
				}
				require.WithinRange(t, last.deadline, sent.Add(c.want), time.Now().Add(c.want))
			}
		})
	}
}

// A client of HTTP/2 with a window of 0 gets no byte of an answer. What holds it ends with the route's deadline: a first
// answer, a replay and a problem.
//
// CONTRACT R-4
func clientWithoutAWindow(t *testing.T, a Adapter) {
	recorded, left := make(chan struct{}), make(chan struct{}, 3)
	app := a.New()
	Guarded(t, a, app, core.Config{
		Policy: core.Policy{Recovery: core.Park, Deadline: time.Second, Lease: time.Second},
		Observer: core.ObserverFunc(func(_ context.Context, e core.Event) {
			if e.Kind == core.EventCompleted {
				close(recorded)
			}
		}),
	}).Handle(http.MethodPost, "/pay", text(a, func(Context) string { return strings.Repeat("x", 100<<10) }))
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		app.ServeHTTP(w, r)
		left <- struct{}{}
	}))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	defer server.Close()

	h2 := dialHTTP2(t, server.Listener.Addr().String())
	defer func() { _ = h2.conn.Close() }() // before the server waits for its handlers
	post := func(stream uint32, path string) {
		h2.headers(stream, ":method", "POST", ":scheme", "http", ":authority", "example", ":path", path,
			"authorization", "Bearer "+Sign(t, ClaimsOf("customer-1", "customer")), "idempotency-key", "key-1")
	}
	post(1, "/v1/pay")
	<-recorded
	post(3, "/v1/pay")
	post(5, "/v1/pay?other=1")
	h2.requireReset(1, 3, 5)
	for range 3 {
		<-left
	}
}

// The deadline of an answer does not outlive it: the next answer on the connection has its own time.
//
// CONTRACT R-4
func deadlineEndsWithItsAnswer(t *testing.T, a Adapter) {
	const within = time.Second
	app := a.New()
	Guarded(t, a, app, core.Config{Policy: core.Policy{Recovery: core.Park, Deadline: within, Lease: within}}).
		Handle(http.MethodPost, "/pay", text(a, func(Context) string { return "paid" }))
	app.Handle(http.MethodGet, "/late", a.Handler(func(c Context) error {
		time.Sleep(within + 100*time.Millisecond) // the first answer's deadline is over then
		return c.String(http.StatusOK, strings.Repeat("x", 100<<10))
	}))
	client := Serve(t, app)
	require.Equal(t, "created", client.Do(Call{Key: "key-1"}).Result())
	got := client.Do(Call{Method: http.MethodGet, Path: "/late"})
	require.NoError(t, got.Err)
	require.Len(t, got.Body, 100<<10)
}

// http2 is a connection of HTTP/2 by hand, with a window of 0 for every stream.
type http2 struct{ slowClient }

func dialHTTP2(t *testing.T, address string) http2 {
	t.Helper()
	c := http2{slowClient{t, connect(t, address)}}
	c.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	c.frame(4, 0, 0, "\x00\x04\x00\x00\x00\x00") // SETTINGS_INITIAL_WINDOW_SIZE
	return c
}

func (c http2) frame(kind, flags byte, stream uint32, payload string) {
	c.t.Helper()
	head := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	c.send(string(binary.BigEndian.AppendUint32(append(head, flags), stream)) + payload)
}

// headers sends a request without a body: names and values, not compressed.
func (c http2) headers(stream uint32, fields ...string) {
	c.t.Helper()
	var block strings.Builder
	for i, text := range fields {
		if i%2 == 0 {
			block.WriteByte(0)
		}
		length := len(text)
		if length < 127 {
			block.WriteByte(byte(length))
		} else {
			block.WriteByte(127)
			for length -= 127; length >= 128; length /= 128 {
				block.WriteByte(byte(length%128 + 128))
			}
			block.WriteByte(byte(length))
		}
		block.WriteString(text)
	}
	c.frame(1, 5, stream, block.String()) // the end of the headers, and of the stream
}

// requireReset reads frames until these streams are reset.
func (c http2) requireReset(streams ...uint32) {
	c.t.Helper()
	require.NoError(c.t, c.conn.SetReadDeadline(time.Now().Add(30*time.Second)))
	open := map[uint32]bool{}
	for _, stream := range streams {
		open[stream] = true
	}
	for len(open) > 0 {
		head := make([]byte, 9)
		_, err := io.ReadFull(c.conn, head)
		require.NoError(c.t, err)
		payload := make([]byte, binary.BigEndian.Uint32(head)>>8)
		_, err = io.ReadFull(c.conn, payload)
		require.NoError(c.t, err)
		if stream := binary.BigEndian.Uint32(head[5:]); head[3] == 3 {
			delete(open, stream)
		} else {
			require.NotEqual(c.t, byte(0), head[3], "data")
		}
	}
}
