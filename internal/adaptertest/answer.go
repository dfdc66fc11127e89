package adaptertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/internal/mustrun"
	"github.com/auth19/idem/internal/upstream"
)

// ways are the ways in which a handler of any framework can answer.
func ways(t testing.TB, a Adapter) map[string]Handler {
	file := filepath.Join(t.TempDir(), "receipt.txt")
	require.NoError(t, os.WriteFile(file, []byte("receipt no. 1"), 0o600))
	type writer = http.ResponseWriter
	large := func() io.Reader { return strings.NewReader(strings.Repeat("x", 100<<10)) }
	header := func(w writer, _ *http.Request) { w.Header().Set("Location", "/v1/payments/1") }
	object := map[string]any{"id": 1, "html": "<&>"}
	handlers := map[string]Handler{
		"JSON":         a.Handler(func(c Context) error { return c.JSON(http.StatusCreated, object) }),
		"string":       a.Handler(func(c Context) error { return c.String(http.StatusCreated, "paid") }),
		"status alone": a.Handler(func(c Context) error { return c.NoContent(http.StatusAccepted) }),
		"no content":   a.Handler(func(c Context) error { return c.NoContent(http.StatusNoContent) }),
		"not modified": a.Handler(func(c Context) error { return c.NoContent(http.StatusNotModified) }),
		"header alone": a.Handler(func(c Context) error { header(c.Writer(), nil); return c.NoContent(http.StatusCreated) }),
		"written twice": a.Handler(func(c Context) error {
			return errors.Join(c.JSON(http.StatusCreated, 1), c.JSON(http.StatusAccepted, 2))
		}),
	}
	for name, answer := range map[string]http.HandlerFunc{
		"no write":       func(writer, *http.Request) {},
		"sniffed":        func(w writer, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"written string": func(w writer, _ *http.Request) { _, _ = io.WriteString(w, "paid") },
		"copied":         func(w writer, _ *http.Request) { _, _ = io.Copy(w, large()) },
		"copied in part": func(w writer, _ *http.Request) { _, _ = io.CopyN(w, large(), 9000) },
		"http error":     func(w writer, _ *http.Request) { http.Error(w, "gone", http.StatusGone) },
		"not found": func(w writer, r *http.Request) {
			w.Header().Set("Content-Length", "3") // http.Error takes it away
			http.NotFound(w, r)
		},
		"redirected":    func(w writer, r *http.Request) { http.Redirect(w, r, "/v1/payments/1", http.StatusSeeOther) },
		"served":        func(w writer, r *http.Request) { http.ServeFile(w, r, file) },
		"served not":    func(w writer, r *http.Request) { http.ServeFile(w, r, file+".not") },
		"served partly": func(w writer, r *http.Request) { r.Header.Set("Range", "bytes=0-3"); http.ServeFile(w, r, file) },
		"served content": func(w writer, r *http.Request) {
			http.ServeContent(w, r, "a.pdf", time.Unix(0, 0), strings.NewReader("content"))
		},
		"body with 204": func(w writer, _ *http.Request) {
			w.WriteHeader(http.StatusNoContent)
			_, err := w.Write([]byte("x"))
			assert.ErrorIs(t, err, http.ErrBodyNotAllowed)
		},
		"two statuses": func(w writer, _ *http.Request) {
			w.WriteHeader(http.StatusCreated)
			w.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(w, "paid")
		},
		"status after the body": func(w writer, _ *http.Request) {
			_, _ = io.WriteString(w, "paid")
			w.WriteHeader(http.StatusAccepted)
		},
		"flushed": func(w writer, _ *http.Request) {
			for step := range 3 {
				_, _ = fmt.Fprintf(w, "step %d\n", step)
				assert.NoError(t, http.NewResponseController(w).Flush())
			}
		},
		"headers": func(w writer, _ *http.Request) {
			h := w.Header()
			h["Link"] = []string{"</a>; rel=next", "</b>; rel=prev"}
			h.Set("ETag", `"1"`)
			h.Set("Content-Language", "de")
			w.WriteHeader(http.StatusCreated)
		},
	} {
		handlers[name] = a.Handler(func(c Context) error { answer(c.Writer(), c.Request()); return nil })
	}
	if a.Answers != nil {
		maps.Copy(handlers, a.Answers(t))
	}
	return handlers
}

// failures are the ways in which a handler can fail that has somebody who renders its error.
func failures(a Adapter) map[string]Handler {
	failing := func(answer func(c Context) error) Handler {
		return a.Handler(func(c Context) error { return errors.Join(answer(c), errDeclined) })
	}
	return map[string]Handler{
		"declined":                    failing(func(Context) error { return nil }),
		"answered, then declined":     failing(func(c Context) error { return c.JSON(http.StatusCreated, 1) }),
		"empty, then declined":        failing(func(c Context) error { return c.NoContent(http.StatusNoContent) }),
		"not modified, then declined": failing(func(c Context) error { return c.NoContent(http.StatusNotModified) }),
	}
}

// What the client sees is what it would see without the guards, in all the ways in which handlers answer, and what it sees
// again. A careless app without guards writes an error behind an answer that is there, and must not with guards.
//
// CONTRACT R-1, M-3
func answers(t *testing.T, a Adapter) {
	t.Run("by default", func(t *testing.T) {
		testAnswers(t, func() (App, Adapter) { return a.New(), a }, ways(t, a))
	})
	if a.Rendering != nil {
		handlers := ways(t, a)
		maps.Copy(handlers, failures(a))
		t.Run("careless", func(t *testing.T) {
			testAnswers(t, func() (App, Adapter) { return Careless(a, http.StatusPaymentRequired) }, handlers)
		})
	}
}

func testAnswers(t *testing.T, newApp func() (App, Adapter), handlers map[string]Handler) {
	for recovery, cfg := range map[string]core.Config{
		"Park":     {},
		"Rollback": NewSQLite(t).Config(),
	} {
		t.Run(recovery, func(t *testing.T) {
			app, a := newApp()
			bare, v1 := app.Group("/bare"), Guarded(t, a, app, cfg)
			for name, handler := range handlers {
				bare.Handle(http.MethodPost, pathOf(name), handler)
				v1.Handle(http.MethodPost, pathOf(name), handler)
			}
			client := Serve(t, app)
			for name := range handlers {
				t.Run(name, func(t *testing.T) {
					client := client.With(t)
					body := map[string]string{"Content-Type": "application/json"}
					want := client.Do(Call{Path: "/bare" + pathOf(name), Body: "{", Token: "-", Headers: body})
					got := client.RequireReplay(Call{Path: "/v1" + pathOf(name), Key: pathOf(name), Body: "{", Headers: body})
					require.Equal(t, want.Status, got.Status)
					if double, ok := strings.CutPrefix(want.Body, got.Body); ok && got.Body != "" && double != "" {
						require.True(t, strings.HasPrefix(double, Behind), double)
						return
					}
					require.Equal(t, want.Body, got.Body)
					require.Equal(t, unframed(want.Header), unframed(got.Header))
				})
			}
		})
	}
}

func pathOf(name string) string {
	return "/" + strings.NewReplacer(" ", "-", ",", "", "'", "").Replace(name)
}

// unframed takes out of a first answer what the library adds, and how it is framed.
func unframed(h http.Header) http.Header {
	h = maps.Clone(h)
	for _, name := range []string{"Date", "Content-Length", "Idempotency-Key", "Idempotency-Result"} {
		h.Del(name)
	}
	return h
}

// Nothing leaves around the capture, through the framework's writer or around it.
//
// CONTRACT R-4
func noWayAround(t *testing.T, a Adapter) {
	sqlite, looked := NewSQLite(t), mustrun.New(t)
	client := paying(t, a, sqlite.Config(), func(c Context) error {
		controller := http.NewResponseController(c.Writer())
		_, _, err := controller.Hijack()
		assert.ErrorIs(t, err, http.ErrNotSupported)
		_, _, err = c.Writer().(http.Hijacker).Hijack()
		assert.ErrorIs(t, err, http.ErrNotSupported)
		_, unwraps := c.Inner().(interface{ Unwrap() http.ResponseWriter })
		assert.False(t, unwraps)
		_, reads := c.Inner().(io.ReaderFrom)
		assert.False(t, reads)
		_, pushes := c.Inner().(http.Pusher)
		assert.False(t, pushes)
		assert.NoError(t, c.String(http.StatusCreated, "not yet paid"))
		assert.NoError(t, controller.Flush())
		c.Writer().(http.Flusher).Flush()
		Pay(t, c.Request().Context())
		looked()
		panic("after a flush")
	})
	require.Error(t, client.Do(Call{Key: "key-1"}).Err, "no byte has left")
	require.Zero(t, sqlite.Payments(t))
}

// A route that allows streaming flushes before it is recorded; a repeat is told where the answer is.
//
// CONTRACT R-4
func streaming(t *testing.T, a Adapter) {
	proceed := make(chan struct{})
	var runs atomic.Int64
	app, a := Careless(a, http.StatusPaymentRequired)
	v1 := Guarded(t, a, app, core.Config{Routes: core.Routes{
		"POST /v1/pay":   {Recovery: core.Park, Streaming: true},
		"POST /v1/large": {Recovery: core.Park, MaxAnswer: 10},
	}})
	v1.Handle(http.MethodPost, "/pay", a.Handler(func(c Context) error {
		runs.Add(1)
		w := c.Writer()
		w.Header().Set("Location", "/v1/payments/1")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "first ")
		w.(http.Flusher).Flush()
		<-proceed // until the client has it
		_, _ = io.WriteString(w, "second")
		return errors.New("too late for the app's error handling")
	}))
	v1.Handle(http.MethodPost, "/large", text(a, func(Context) string { return strings.Repeat("x", 11) }))
	client := Serve(t, app)

	res, err := client.HTTP.Do(client.Request(Call{Key: "key-1"}))
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	part := make([]byte, len("first "))
	_, err = io.ReadFull(res.Body, part)
	require.NoError(t, err)
	close(proceed)
	rest := read(res)
	require.NoError(t, rest.Err)
	require.Equal(t, "first second", string(part)+rest.Body)
	require.Equal(t, http.StatusCreated, rest.Status)
	require.Equal(t, "key-1", rest.Header.Get("Idempotency-Key"))

	again := client.Do(Call{Key: "key-1"})
	RequireProblem(t, http.StatusConflict, "response_not_replayable", again)
	require.Contains(t, again.Body, `"answer_status":201,"answer_location":"/v1/payments/1"`)
	require.EqualValues(t, 1, runs.Load())

	require.Equal(t, strings.Repeat("x", 11), client.Do(Call{Path: "/v1/large", Key: "key-2"}).Body)
	RequireProblem(t, http.StatusConflict, "response_not_replayable", client.Do(Call{Path: "/v1/large", Key: "key-2"}))
}

// A Resume handler that writes inside a step: no byte leaves before the step is durable. A write that is refused for that
// leaves a hole, and nobody takes what is left for the answer. A flush that is refused leaves none.
//
// CONTRACT
func writesInsideSteps(t *testing.T, a Adapter) {
	write := func(c Context, text string) { _, _ = io.WriteString(c.Writer(), text) } // careless: it ignores the error
	flush := func(c Context) { c.Writer().(http.Flusher).Flush() }
	step := func(c Context, fail error, texts ...string) {
		_, err := core.Step(c.Request().Context(), "a", func(context.Context) (int, error) {
			for _, text := range texts {
				write(c, text)
			}
			flush(c)
			return 0, fail
		})
		assert.ErrorIs(t, err, fail)
	}
	const whole, hole, cutOff = "whole", "hole", "broken"
	for name, test := range map[string]struct {
		flushable bool
		pay       func(c Context)
		want      string
		body      string // what has left, or the whole
	}{
		"flushed before, the step fails": {true, func(c Context) {
			write(c, "0")
			flush(c)
			step(c, errDeclined, "row")
		}, cutOff, "0"},
		"flushed before": {true, func(c Context) {
			write(c, "0")
			flush(c)
			step(c, nil, "row")
			write(c, "C")
		}, cutOff, "0"},
		"flushed in the first step": {true, func(c Context) { step(c, nil, "row"); flush(c); write(c, "C") }, whole, "rowC"},
		"flushed in a later step":   {true, func(c Context) { write(c, "0"); flush(c); step(c, nil); write(c, "C") }, whole, "0C"},
		"above the cap": {false, func(c Context) {
			step(c, nil, strings.Repeat("A", 40), strings.Repeat("B", 40))
			write(c, "C")
		}, hole, ""},
		"above the cap, then flushed": {true, func(c Context) {
			step(c, nil, strings.Repeat("A", 40), strings.Repeat("B", 40))
			flush(c)
		}, hole, ""},
		"above the cap, nothing written behind": {false, func(c Context) {
			step(c, nil, strings.Repeat("A", 40), strings.Repeat("B", 40))
		}, hole, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var completed atomic.Int64
			client := paying(t, a, core.Config{
				Policy: core.Policy{Recovery: core.Resume, Streaming: test.flushable, MaxAnswer: 60},
				Observer: core.ObserverFunc(func(_ context.Context, e core.Event) {
					if e.Kind == core.EventCompleted {
						completed.Add(1)
					}
				}),
			}, func(c Context) error { test.pay(c); return nil })
			got := client.Do(Call{Key: "key-1"})
			switch test.want {
			case whole:
				require.NoError(t, got.Err)
				require.Equal(t, http.StatusOK, got.Status)
			case hole:
				RequireProblem(t, http.StatusInternalServerError, "answer_incomplete", got)
			case cutOff:
				require.Error(t, got.Err)
			}
			if test.body != "" {
				require.Equal(t, test.body, got.Body)
			}
			require.Equal(t, test.want == whole, completed.Load() == 1)
		})
	}
}

// What outer middleware sets is each answer's own. What the handler sets reaches the first client whole, and a repeat
// as far as it may be recorded.
//
// CONTRACT R-3
func headers(t *testing.T, a Adapter) {
	var requests atomic.Int64
	outer := a.Middleware(func(c Context, next func() error) error {
		h := c.Writer().Header()
		h.Set("X-Request-Id", strconv.FormatInt(requests.Add(1), 10))
		h.Set("X-Removed", "outer")
		h.Set("X-Replaced", "outer")
		http.SetCookie(c.Writer(), &http.Cookie{Name: "session", Value: "outer"})
		return next()
	})
	client := paying(t, a, core.Config{}, func(c Context) error {
		h := c.Writer().Header()
		assert.Equal(t, "outer", h.Get("X-Removed"), "the handler sees them")
		h.Del("X-Removed")
		h.Set("X-Replaced", "handler")
		h.Set("X-Handler", "1")
		h.Set("Location", "/v1/payments/1")
		h.Set("Retry-After", "7")
		http.SetCookie(c.Writer(), &http.Cookie{Name: "card", Value: "handler"})
		h.Set("Trailer", "X-Sum")
		err := c.JSON(http.StatusCreated, 1)
		h.Set("X-Sum", "7")
		h.Set(http.TrailerPrefix+"X-Late", "8")
		return err
	}, outer)
	first, again := client.Do(Call{Key: "key-1"}), client.Do(Call{Key: "key-1"})
	require.Equal(t, "1", first.Header.Get("X-Request-Id"))
	require.Empty(t, first.Header.Get("X-Removed"))
	require.Equal(t, []string{"handler"}, first.Header["X-Replaced"])
	require.Equal(t, "1", first.Header.Get("X-Handler"))
	require.Len(t, first.Header["Set-Cookie"], 2)
	require.Equal(t, "7", first.Header.Get("Retry-After"))
	require.Equal(t, http.Header{"X-Sum": {"7"}, "X-Late": {"8"}}, first.Trailer)
	require.NotContains(t, first.Header, "Trailer")

	require.Equal(t, "/v1/payments/1", again.Header.Get("Location"))
	require.Equal(t, "2", again.Header.Get("X-Request-Id"))
	require.Equal(t, "outer", again.Header.Get("X-Removed"))
	require.Equal(t, []string{"outer"}, again.Header["X-Replaced"])
	require.Empty(t, again.Header.Get("X-Handler"))
	require.Empty(t, again.Header.Get("Retry-After"))
	require.Len(t, again.Header["Set-Cookie"], 1)
	require.Contains(t, again.Header.Get("Set-Cookie"), "session=outer")
	require.Empty(t, again.Trailer)
	require.NotContains(t, again.Header, "Trailer")
}

// A handler relays an upstream that breaks off: no client takes what came of it for the answer, and nothing replays it.
// The standard library's proxy panics then, with the header written.
//
// CONTRACT R-8
func relayBreaksOff(t *testing.T, a Adapter) {
	for framing, short := range map[string]string{"of a length": upstream.ShortLength, "in chunks": upstream.ShortChunks} {
		for recovers, recovered := range map[string]bool{"": false, ", recovered": true} {
			for name, policy := range map[string]core.Policy{
				"Park":            {Recovery: core.Park},
				"streaming":       {Recovery: core.Park, Streaming: true},
				"Resume":          {Recovery: core.Resume},
				"Resume, streams": {Recovery: core.Resume, Streaming: true},
				"Rollback":        {Recovery: core.Rollback},
			} {
				t.Run(framing+", "+name+recovers, func(t *testing.T) { testRelay(t, a, short, policy, recovered) })
			}
		}
	}
}

func testRelay(t *testing.T, a Adapter, short string, policy core.Policy, recovered bool) {
	sqlite, proxy := NewSQLite(t), upstream.Relay(t, short)
	var outer []Middleware
	if recovered {
		outer = append(outer, a.Recover())
	}
	var runs atomic.Int64
	client := paying(t, a, core.Config{Store: sqlite.Store, Policy: policy}, func(c Context) error {
		runs.Add(1)
		if policy.Recovery == core.Rollback {
			Pay(t, c.Request().Context())
		}
		proxy.ServeHTTP(c.Writer(), c.Request())
		return nil
	}, outer...)
	first, again := client.Do(Call{Key: "key-1"}), client.Do(Call{Key: "key-1"})
	requireFailure(t, first)
	require.Zero(t, sqlite.Payments(t))
	if policy.Recovery == core.Park {
		RequireProblem(t, http.StatusConflict, "outcome_unknown", again)
		require.EqualValues(t, 1, runs.Load())
		return
	}
	requireFailure(t, again)
	require.EqualValues(t, 2, runs.Load())
}

// requireFailure requires an answer that nobody takes for a success: a failure, or one that breaks off.
func requireFailure(t testing.TB, got Answer) {
	t.Helper()
	require.True(t, got.Err != nil || got.Status >= http.StatusInternalServerError, "%+v", got)
	require.NotContains(t, []string{"created", "reused"}, got.Result())
}

// A client that does not read holds a streaming handler until the attempt's deadline, and no longer. That is an event, and
// what the handler has done is recorded.
//
// CONTRACT R-4
func clientThatDoesNotRead(t *testing.T, a Adapter) {
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		for name, flush := range map[string]bool{"flushed": true, "large": false, "large, behind a writer without Unwrap": false} {
			t.Run(protocol+" "+name, func(t *testing.T) {
				var overdue atomic.Int64
				ended, recorded := make(chan error, 1), make(chan struct{})
				app := a.New()
				if strings.HasSuffix(name, "Unwrap") {
					app.Use(inFront(a)["embeds"])
				}
				Guarded(t, a, app, core.Config{
					Policy: core.Policy{Recovery: core.Park, Streaming: flush, MaxAnswer: 1 << 10, Deadline: time.Second,
						Lease: time.Second},
					Observer: core.ObserverFunc(func(_ context.Context, e core.Event) {
						if e.Kind == core.EventOverdue && assert.Error(t, e.Err) {
							overdue.Add(1)
						}
						if e.Kind == core.EventCompleted {
							close(recorded)
						}
					}),
				}).Handle(http.MethodPost, "/pay", a.Handler(func(c Context) error {
					w, block := c.Writer(), []byte(strings.Repeat("x", 1<<20))
					w.WriteHeader(http.StatusCreated)
					for {
						if _, err := w.Write(block); err != nil {
							ended <- err
							return nil //nolint:nilerr // the handler does not care that its client is gone
						}
						if flush {
							w.(http.Flusher).Flush()
						}
					}
				}))
				server := httptest.NewUnstartedServer(app)
				server.Config.ErrorLog = log.New(io.Discard, "", 0)
				server.EnableHTTP2 = protocol == "HTTP/2.0"
				server.StartTLS()
				defer server.Close()
				client := &Client{t: t, ctx: t.Context(), URL: server.URL, Token: Sign(t, ClaimsOf("customer-1", "customer")),
					HTTP: server.Client()}
				res, err := client.HTTP.Do(client.Request(Call{Key: "key-1"})) //nolint:bodyclose // it is not read: that is the test
				require.NoError(t, err)
				require.Equal(t, protocol, res.Proto)
				require.Error(t, <-ended)
				<-recorded
				require.Error(t, read(res).Err, "it breaks off")
				RequireProblem(t, http.StatusConflict, "response_not_replayable", client.Do(Call{Key: "key-1"}))
				require.EqualValues(t, 1, overdue.Load())
				server.Client().CloseIdleConnections()
			})
		}
	}
}
