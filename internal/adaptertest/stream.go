package adaptertest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/store"
)

// forgetful is a store that loses every answer.
type forgetful struct{ store.Operations }

func (forgetful) End(context.Context, store.Ticket, store.Ending) error { return core.ErrStale }

// opaque hides what is behind it: nothing can be reached through it.
type opaque struct{ w http.ResponseWriter }

func (o opaque) Header() http.Header         { return o.w.Header() }
func (o opaque) WriteHeader(status int)      { o.w.WriteHeader(status) }
func (o opaque) Write(p []byte) (int, error) { return o.w.Write(p) }

// promising is opaque, and its deadlines fail, as they do behind http.TimeoutHandler.
type promising struct{ opaque }

func (promising) SetWriteDeadline(time.Time) error { return http.ErrNotSupported }

// embedding embeds what is behind it, and can flush.
type embedding struct{ http.ResponseWriter }

func (e embedding) Flush() { _ = http.NewResponseController(e.ResponseWriter).Flush() }

// inFront are writers of middleware in front of the guards.
func inFront(a Adapter) map[string]Middleware {
	return map[string]Middleware{
		"nothing": a.Middleware(func(_ Context, next func() error) error { return next() }),
		"gzip":    a.Middleware(zip),
		"embeds": a.Middleware(func(c Context, next func() error) error {
			c.SetWriter(embedding{c.Inner()})
			return next()
		}),
		"announces": a.Middleware(func(c Context, next func() error) error {
			c.Writer().Header().Set("Transfer-Encoding", "identity")
			return next()
		}),
	}
}

// streams answers with a body of size bytes, and with its length.
func streams(a Adapter, size int) Handler {
	return a.Handler(func(c Context) error {
		w := c.Writer()
		w.Header().Set("Location", "/v1/payments/1")
		w.Header().Set("Content-Length", strconv.Itoa(size))
		w.WriteHeader(http.StatusCreated)
		for range size / 100 {
			_, _ = io.WriteString(w, strings.Repeat("x", 100))
			w.(http.Flusher).Flush()
		}
		return nil
	})
}

// An answer that leaves before it is recorded does not look whole before it is: where its recording fails, it breaks off,
// whatever writer stands in front.
//
// CONTRACT
func streamsThatAreNotRecorded(t *testing.T, a Adapter) {
	for kind, policy := range map[string]core.Policy{
		"flushed": {Recovery: core.Park, Streaming: true},
		"large":   {Recovery: core.Park, MaxAnswer: 200},
	} {
		for name, outer := range inFront(a) {
			for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
				t.Run(kind+" "+name+" "+protocol, func(t *testing.T) {
					app := a.New()
					app.Use(outer)
					Guarded(t, a, app, core.Config{Store: forgetful{memstore.New()}, Policy: policy}).
						Handle(http.MethodPost, "/pay", streams(a, 1000))
					client := serveBy(t, app, protocol)
					got := client.Do(Call{Key: "key-1", Headers: map[string]string{"Accept-Encoding": "gzip"}})
					require.Error(t, got.Err, "%+v", got)
					require.Empty(t, got.Header["Content-Length"])
					require.Empty(t, got.Result())
				})
			}
		}
	}
}

// serveBy is Serve for one version of HTTP.
func serveBy(t *testing.T, app http.Handler, protocol string) *Client {
	t.Helper()
	client := Serve(t, app)
	if protocol != "HTTP/2.0" {
		return client
	}
	server := httptest.NewUnstartedServer(app)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	client.URL, client.HTTP = server.URL, server.Client()
	client.HTTP.Transport.(*http.Transport).DisableCompression = true
	return client
}

// A status that has no body is a whole answer as soon as it leaves: a flush does not send it.
//
// CONTRACT
func flushedWithoutABody(t *testing.T, a Adapter) {
	streaming := core.Policy{Recovery: core.Park, Streaming: true}
	client := paying(t, a, core.Config{Store: forgetful{memstore.New()}, Policy: streaming},
		func(c Context) error {
			c.Writer().WriteHeader(http.StatusNoContent)
			_ = http.NewResponseController(c.Writer()).Flush()
			return nil
		})
	got := client.Do(Call{Key: "key-1"})
	require.NotEqual(t, http.StatusNoContent, got.Status)
}

// Where nobody can tell an end from a break, nothing leaves before it is recorded: up to the cap the answer is recorded and
// replayed, and above it the client gets status and Location, as a repeat does.
//
// CONTRACT
func answersThatCannotBreakOff(t *testing.T, a Adapter) {
	same := func(w http.ResponseWriter) http.ResponseWriter { return w }
	for name, test := range map[string]struct {
		version string
		front   func(w http.ResponseWriter) http.ResponseWriter
	}{
		"HTTP/1.0":               {"HTTP/1.0", same},
		"behind a hidden writer": {"HTTP/1.1", func(w http.ResponseWriter) http.ResponseWriter { return opaque{w} }},
		"deadlines that fail":    {"HTTP/1.1", func(w http.ResponseWriter) http.ResponseWriter { return promising{opaque{w}} }},
	} {
		t.Run(name, func(t *testing.T) {
			serve := func(st core.Store) *Client {
				app := a.New()
				v1 := Guarded(t, a, app, core.Config{Store: st, Policy: core.Policy{Recovery: core.Park, Streaming: true,
					MaxAnswer: 600}})
				v1.Handle(http.MethodPost, "/small", streams(a, 500))
				v1.Handle(http.MethodPost, "/large", streams(a, 1000))
				return Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { app.ServeHTTP(test.front(w), r) }))
			}
			version := test.version
			client, forgets := serve(memstore.New()), serve(forgetful{memstore.New()})

			first, again := client.by(version, "/v1/small"), client.by(version, "/v1/small")
			require.Equal(t, strings.Repeat("x", 500), first.Body)
			require.Equal(t, "created", first.Result())
			require.Equal(t, "reused", again.Result())
			require.Equal(t, first.Body, again.Body)

			first, again = client.by(version, "/v1/large"), client.by(version, "/v1/large")
			require.NoError(t, first.Err)
			require.Equal(t, http.StatusCreated, first.Status)
			require.Equal(t, "created", first.Result())
			require.Equal(t, "/v1/payments/1", first.Header.Get("Location"))
			require.Empty(t, first.Body)
			require.Equal(t, "yes", first.Header.Get("Closed"))
			RequireProblem(t, http.StatusConflict, "response_not_replayable", again)

			for _, path := range []string{"/v1/small", "/v1/large"} {
				RequireProblem(t, http.StatusConflict, "outcome_unknown", forgets.by(version, path))
			}
		})
	}
}

// by sends a request by hand, in a version of HTTP. The header Closed tells of the connection behind the answer.
func (c *Client) by(version, path string) Answer {
	c.t.Helper()
	slow := slowClient{c.t, connect(c.t, strings.TrimPrefix(c.URL, "http://"))}
	slow.send("POST " + path + " " + version + "\r\nHost: example\r\nAuthorization: Bearer " + c.Token +
		"\r\nIdempotency-Key: " + path[4:] + "\r\nContent-Length: 0\r\n\r\n")
	got := slow.answer()
	if got.Body == "" {
		if _, err := slow.conn.Read(make([]byte, 1)); errors.Is(err, io.EOF) {
			got.Header.Set("Closed", "yes")
		}
	}
	return got
}

// A handler that runs another chain itself (Gin's HandleContext) has no answer that tells of rows which are not there: it
// is recorded, or it does not leave, on every repeat. A byte that has left is broken off.
//
// CONTRACT
func secondChain(t *testing.T, a Adapter) {
	for _, recovery := range []core.Recovery{core.Rollback, core.Resume, core.Park} {
		for _, streaming := range []bool{false, true} {
			if streaming && recovery == core.Rollback {
				continue
			}
			t.Run(recovery.String()+" "+strconv.FormatBool(streaming), func(t *testing.T) {
				sqlite, app := NewSQLite(t), a.New()
				app.Use(a.Middleware(zip))
				Guarded(t, a, app, core.Config{Store: sqlite.Store, Policy: core.Policy{Recovery: recovery, Streaming: streaming}}).
					Handle(http.MethodPost, "/pay", a.Handler(func(c Context) error {
						if recovery == core.Rollback {
							Pay(t, c.Request().Context())
						}
						if streaming {
							c.Writer().WriteHeader(http.StatusOK)
							_, _ = io.WriteString(c.Writer(), "first ")
							c.Writer().(http.Flusher).Flush()
						}
						a.Redispatch(app, c, "/other")
						return nil
					}))
				app.Handle(http.MethodPost, "/other", a.Handler(func(c Context) error {
					c.Writer().Header().Set("Location", "/v1/payments/1")
					return c.String(http.StatusOK, "paid")
				}))
				client := Serve(t, app)
				told := func(got Answer) bool { return got.Err == nil && got.Status < http.StatusBadRequest }
				first, again := client.Do(Call{Key: "key-1"}), client.Do(Call{Key: "key-1"})
				if recovery == core.Rollback {
					require.Equal(t, told(first), sqlite.Payments(t) == 1, "%+v", first)
				}
				if told(first) {
					require.True(t, again.Result() == "reused" || strings.Contains(again.Body, "response_not_replayable"), "%+v", again)
					return
				}
				require.False(t, told(again), "%+v", again)
				require.NotContains(t, first.Body, "paid")
				require.Empty(t, first.Header.Get("Location"))
				if !streaming {
					RequireProblem(t, http.StatusInternalServerError, "misconfigured", first)
					require.Contains(t, first.Body, "HandleContext")
					require.Equal(t, recovery == core.Park, first.Result() == "unknown")
				}
			})
		}
	}
}

// What a writer offers beside writing, and what changes no byte, is there behind the guards too: for the handler, and for
// middleware after an answer that was rendered from an error. A deadline of the handler does not outlive the attempt's.
//
// CONTRACT R-4
func besideWriting(t *testing.T, a Adapter) {
	offers := func(t *testing.T, w http.ResponseWriter) {
		controller, soon := http.NewResponseController(w), time.Now().Add(time.Minute)
		assert.NoError(t, controller.SetReadDeadline(soon))
		assert.NoError(t, controller.SetWriteDeadline(soon))
		assert.NoError(t, controller.SetWriteDeadline(time.Time{}))
		assert.NoError(t, controller.EnableFullDuplex())
	}
	app, a := Careless(a, http.StatusPaymentRequired)
	app.Use(a.Middleware(func(c Context, next func() error) error {
		offers(t, c.Writer())
		err := next()
		offers(t, c.Writer())
		return err
	}))
	sqlite := NewSQLite(t)
	v1 := Guarded(t, a, app, core.Config{Store: sqlite.Store, Routes: core.Routes{
		"POST /v1/pay":  {Recovery: core.Rollback},
		"POST /v1/park": {Recovery: core.Park},
	}})
	answers := a.Handler(func(c Context) error {
		offers(t, c.Writer())
		return errors.Join(c.String(http.StatusCreated, "paid"), errDeclined)
	})
	v1.Handle(http.MethodPost, "/pay", answers)
	v1.Handle(http.MethodPost, "/park", answers)
	client := Serve(t, app)
	client.RequireReplay(Call{Key: "key-1"})
	client.RequireReplay(Call{Path: "/v1/park", Key: "key-2"})

	client = paying(t, a, core.Config{}, func(c Context) error {
		assert.NoError(t, http.NewResponseController(c.Writer()).SetWriteDeadline(time.Unix(1, 0)))
		return c.String(http.StatusCreated, "paid")
	})
	require.Error(t, client.Do(Call{Key: "key-1"}).Err, "its time is up")
	require.Equal(t, "reused", client.Do(Call{Key: "key-1"}).Result())
}
