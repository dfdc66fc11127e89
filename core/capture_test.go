package core_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/internal/mustrun"
)

// The answer headers that are recorded, and some of those that never are.
var (
	recordedHeaders = []string{"Content-Type", "Content-Encoding", "Content-Language", "Content-Disposition", "Location", "ETag",
		"Link", "Last-Modified"}
	neverRecorded = []string{"Set-Cookie", "WWW-Authenticate", "Proxy-Authenticate", "Date", "Age", "Retry-After", "RateLimit-Limit",
		"RateLimit-Policy", "X-RateLimit-Remaining", "X-Rate-Limit-Reset", "Connection", "Keep-Alive", "Transfer-Encoding", "Upgrade",
		"Trailer", "Trailer:X-Sum", "TE", "Content-Length"}
)

// CONTRACT R-3, M-3, C-7
func TestHeadersOfAnAnswer(t *testing.T) {
	t.Run("recorded headers", func(t *testing.T) {
		a := newApp(t, core.Config{ReplayHeaders: []string{"x-receipt"}}, func(w http.ResponseWriter, _ *http.Request) {
			for _, name := range recordedHeaders {
				w.Header().Set(name, "recorded")
			}
			for _, name := range neverRecorded {
				w.Header().Set(name, "1")
			}
			w.Header().Add("X-Receipt", "1")
			w.Header().Add("X-Receipt", "2")
			w.Header().Set("X-Other", "only once")
			w.WriteHeader(http.StatusCreated)
			_, _ = w.Write([]byte("1")) // as announced
		})
		first, second := a.post("k-1", `{}`), a.post("k-1", `{}`)
		for _, name := range recordedHeaders {
			require.Equal(t, []string{"recorded"}, first.Header().Values(name))
			require.Equal(t, []string{"recorded"}, second.Header().Values(name))
		}
		for _, name := range neverRecorded {
			if name != "Content-Length" { // is counted anew
				require.Equal(t, []string{"1"}, first.Header().Values(name), name)
			}
			require.Empty(t, second.Header().Values(name), name)
		}
		require.Equal(t, []string{"1", "2"}, second.Header().Values("X-Receipt"))
		require.Equal(t, "only once", first.Header().Get("X-Other"))
		require.Empty(t, second.Header().Get("X-Other"))
	})
	t.Run("only the difference is recorded", func(t *testing.T) {
		a := newApp(t, core.Config{ReplayHeaders: []string{"X-Kept"}}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Language", "en") // as outer middleware has it
			w.Header().Set("ETag", `"mine"`)         // another value
			w.Header().Add("Link", "</mine>")
			w.Header().Del("X-Removed")
			w.Header().Set("Location", "/mine")
			w.WriteHeader(http.StatusCreated)
		})
		a.outer = func(h http.Header) {
			h.Set("Content-Language", "en")
			h.Set("ETag", `"outer"`)
			h.Set("Link", "</outer>")
			h.Set("X-Removed", "outer")
			h.Set("X-Kept", "first")
			h.Set("Set-Cookie", "outer=1")
		}
		first := a.post("k-1", `{}`)
		require.Equal(t, http.Header{
			"Content-Language": {"en"}, "Etag": {`"mine"`}, "Link": {"</outer>", "</mine>"}, "X-Kept": {"first"},
			"Location": {"/mine"}, "Set-Cookie": {"outer=1"}, "Idempotency-Key": {"k-1"}, "Idempotency-Result": {"created"},
		}, first.Header())

		a.outer = func(h http.Header) {
			h.Set("Content-Language", "de")
			h.Set("X-Kept", "second")
			h.Set("ETag", `"outer"`)
		}
		require.Equal(t, http.Header{
			"Content-Language": {"de"}, "Etag": {`"mine"`}, "Link": {"</outer>", "</mine>"}, "X-Kept": {"second"},
			"Location": {"/mine"}, "Idempotency-Key": {"k-1"}, "Idempotency-Result": {"reused"}, "Idempotent-Replayed": {"true"},
		}, a.post("k-1", `{}`).Header(), "what outer middleware says is its own")
	})
	t.Run("outer middleware that adds to a header of a replay must not write into the record", func(t *testing.T) {
		a := newApp(t, core.Config{}, created)
		a.post("k-1", `{}`)
		for range 2 {
			w := a.post("k-1", `{}`)
			require.Equal(t, []string{"/v1/payments/1"}, w.Header()["Location"])
			w.Header().Add("Location", "more")
			w.Header()["Content-Type"][0] = "changed"
		}
		require.JSONEq(t, `{"id":1}`, a.post("k-1", `{}`).Body.String())
	})
	// A handler that passes on what a provider has answered must not be taken for a replay, or for a refusal of the guards.
	// On the wire the case of a header's name does not count, and a map of headers holds any.
	t.Run("handlers cannot say what the library says", func(t *testing.T) {
		for _, test := range []struct {
			status int
			result []string
		}{{201, []string{"created"}}, {500, []string{"unknown"}}, {409, []string{"not_applied"}}} {
			a := newApp(t, core.Config{}, func(w http.ResponseWriter, r *http.Request) {
				if test.status == 409 {
					core.NotApplied(r.Context())
				}
				w.Header().Set("Idempotent-Replayed", "true")
				w.Header().Set("Idempotency-Result", "reused")
				w.Header().Set("Idempotency-Problem", "rolled_back")
				w.Header()["idempotency-result"] = []string{"reused"}
				w.Header()["IDEMPOTENCY-PROBLEM"] = []string{"rolled_back"}
				w.Header()["idempotent-Replayed"] = []string{"true"}
				w.Header().Set("Idempotency-Key", "the provider's")
				w.WriteHeader(test.status)
			})
			w := a.post("k-1", `{}`)
			require.Empty(t, w.Header().Values("Idempotent-Replayed"))
			require.Equal(t, test.result, w.Header().Values("Idempotency-Result"))
			require.Equal(t, []string{"k-1"}, w.Header().Values("Idempotency-Key"))
			for name := range w.Header() {
				require.Contains(t, []string{"Idempotency-Key", "Idempotency-Result"}, name)
			}
		}
	})
}

// CONTRACT
func TestStatusOfTheAnswer(t *testing.T) {
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		status  int
		body    string
	}{
		"none":           {func(http.ResponseWriter, *http.Request) {}, 200, ""},
		"a body alone":   {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "x") }, 200, "x"},
		"early hints":    {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(103); w.WriteHeader(202) }, 202, ""},
		"informal only":  {status(100), 200, ""},
		"the first wins": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(202); w.WriteHeader(500) }, 202, ""},
		"the body's wins": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("x"))
			w.WriteHeader(500)
		}, 200, "x"},
		"204 has no body": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(204)
			if n, err := w.Write([]byte("x")); n != 0 || !errors.Is(err, http.ErrBodyNotAllowed) {
				panic(err)
			}
		}, 204, ""},
		"304 has no body": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(304)
			if n, err := io.WriteString(w, "x"); n != 0 || !errors.Is(err, http.ErrBodyNotAllowed) {
				panic(err)
			}
		}, 304, ""},
		"999": {status(999), 999, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := newApp(t, core.Config{}, test.handler)
			first, second := a.post("k-1", `{}`), a.post("k-1", `{}`)
			require.Equal(t, test.status, first.Code)
			require.Equal(t, test.body, first.Body.String())
			if test.status < 500 {
				require.Equal(t, test.status, second.Code)
				require.Equal(t, test.body, second.Body.String())
			}
		})
	}
}

// CONTRACT
func TestWritesOfAHandler(t *testing.T) {
	t.Run("net/http panics at such a status, and would at every replay of it", func(t *testing.T) {
		for _, code := range []int{-1, 0, 99, 1000} {
			a := newApp(t, core.Config{}, status(code))
			_, panicked := a.serveOnce("k-1")
			require.Contains(t, panicked, "idem: invalid WriteHeader code", "in the handler, before anything is recorded")
			again, _ := a.serveOnce("k-1")
			requireProblem(t, again, http.StatusConflict, core.CodeOutcomeUnknown)
		}
	})
	t.Run("handlers may reuse their buffers", func(t *testing.T) {
		a := newApp(t, core.Config{}, func(w http.ResponseWriter, _ *http.Request) {
			buf := make([]byte, 3)
			for i := range 4 {
				for j := range buf {
					buf[j] = byte('0' + i)
				}
				if n, err := w.Write(buf); n != 3 || err != nil {
					panic(err)
				}
			}
			clear(buf)
			_, _ = io.Copy(w, strings.NewReader("end"))
		})
		for range 2 {
			require.Equal(t, "000111222333end", a.post("k-1", `{}`).Body.String())
		}
	})
	t.Run("what adapters ask of a capture", func(t *testing.T) {
		a := newApp(t, core.Config{}, func(w http.ResponseWriter, _ *http.Request) {
			c := w.(*core.Capture)
			if c.Written() || c.Status() != 0 || c.Size() != 0 {
				panic("nothing is written yet")
			}
			_, _ = c.WriteString("four")
			_, _ = c.Write([]byte("five5"))
			if !c.Written() || c.Status() != 200 || c.Size() != 9 {
				panic(fmt.Sprint(c.Written(), c.Status(), c.Size()))
			}
		})
		require.Equal(t, http.StatusOK, a.post("k-1", `{}`).Code)
	})
}

// CONTRACT R-4
func TestNothingLeavesBeforeItIsRecorded(t *testing.T) {
	var outer *httptest.ResponseRecorder
	left := func() bool { return outer.Flushed || outer.Body.Len() > 0 || len(outer.Header()) > 0 }
	handler := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/1")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte("body"))
		w.(http.Flusher).Flush()
		controller := http.NewResponseController(w)
		if err := controller.Flush(); err != nil || left() {
			panic("flushed")
		}
		if _, _, err := controller.Hijack(); !errors.Is(err, http.ErrNotSupported) {
			panic(err)
		}
		if _, _, err := w.(http.Hijacker).Hijack(); !errors.Is(err, http.ErrNotSupported) {
			panic(err)
		}
		if _, unwraps := w.(interface{ Unwrap() http.ResponseWriter }); unwraps {
			panic("there is a way around the capture")
		}
	}
	check := func(t *testing.T) func(context.Context) error {
		looked := mustrun.New(t)
		return func(context.Context) error {
			looked()
			require.False(t, left(), "bytes left before the answer was recorded")
			return nil
		}
	}
	serve := func(t *testing.T, a *app) {
		outer = httptest.NewRecorder()
		r := newCommand("k-1", "")
		a.serve(outer, r, alice)
		require.Equal(t, http.StatusCreated, outer.Code)
		require.Equal(t, "body", outer.Body.String())
	}
	t.Run("Park", func(t *testing.T) {
		store := newFaultStore(memstore.New()).on("after complete", check(t))
		serve(t, newApp(t, core.Config{Store: store}, handler))
	})
	t.Run("Rollback", func(t *testing.T) {
		a := newRowsApp(t, core.Config{}, books(handler))
		a.faults.on("after commit", check(t))
		serve(t, a.app)
		require.Equal(t, 1, a.rows())
	})
}

// large answers with a status, Location and more than 100 bytes.
func large(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/csv")
		w.Header().Set("Content-Length", "300")
		w.Header().Set("Location", "/reports/1")
		w.WriteHeader(code)
		for range 3 {
			if n, err := w.Write([]byte(strings.Repeat("x", 50))); n != 50 || err != nil {
				panic(err)
			}
		}
		w.Header().Set("Location", "/too/late")
		_, _ = w.Write([]byte(strings.Repeat("y", 150))) // above the cap by itself
	}
}

// CONTRACT R-4
func TestAnswerAboveTheCap(t *testing.T) {
	store := memstore.New()
	a := newApp(t, core.Config{Store: store, Policy: core.Policy{Recovery: core.Park, MaxAnswer: 100}}, large(201))
	a.outer = func(h http.Header) { h.Set("Content-Type", "text/html"); h.Set("X-Outer", "1") }
	first := a.post("k-1", `{}`)
	require.Equal(t, http.StatusCreated, first.Code)
	require.Equal(t, strings.Repeat("x", 150)+strings.Repeat("y", 150), first.Body.String(), "the client gets it whole")
	require.Equal(t, http.Header{"Content-Type": {"text/csv"}, "Location": {"/reports/1"},
		"X-Outer": {"1"}, "Idempotency-Key": {"k-1"}}, first.Header(), "nobody knows yet whether it will be recorded")

	rec := find(t, store, "k-1")
	require.Equal(t, core.Answer{Status: 201, Header: http.Header{"Location": {"/reports/1"}}, Partial: true}, rec.Answer)

	second := a.post("k-1", `{}`)
	requireProblem(t, second, http.StatusConflict, core.CodeResponseNotReplayable)
	require.Contains(t, second.Body.String(), `"answer_status":201,"answer_location":"/reports/1"`)
	require.Contains(t, second.Body.String(), `"operation":"`+core.Scoping{}.RecordID(alice, "k-1").String())
	require.Empty(t, second.Header().Get("Retry-After"))
	require.Equal(t, 1, a.ran())

	t.Run("exactly at the cap", func(t *testing.T) {
		a := newApp(t, core.Config{Policy: core.Policy{Recovery: core.Park, MaxAnswer: 300 + 52}}, large(201)) // and headers
		for range 2 {
			require.Equal(t, strings.Repeat("x", 150)+strings.Repeat("y", 150), a.post("k-1", `{}`).Body.String())
		}
	})
	t.Run("a string", func(t *testing.T) {
		a := newApp(t, core.Config{Policy: core.Policy{Recovery: core.Park, MaxAnswer: 3}},
			func(w http.ResponseWriter, _ *http.Request) {
				for _, s := range []string{"ab", "cd", "ef"} {
					_, _ = io.WriteString(w, s)
				}
			})
		require.Equal(t, "abcdef", a.post("k-1", `{}`).Body.String())
		requireProblem(t, a.post("k-1", `{}`), http.StatusConflict, core.CodeResponseNotReplayable)
	})
}

// CONTRACT R-4
func TestFlushedAnswer(t *testing.T) {
	policy := core.Policy{Recovery: core.Park, Streaming: true}
	flushes := func(w http.ResponseWriter) {
		if err := http.NewResponseController(w).Flush(); err != nil {
			panic(err)
		}
	}
	t.Run("leaves at once", func(t *testing.T) {
		var a *app
		outer := httptest.NewRecorder()
		a = newApp(t, core.Config{Policy: policy}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "/1")
			w.WriteHeader(http.StatusAccepted)
			_, _ = w.Write([]byte("one "))
			require.Zero(t, outer.Body.Len(), "not before it is flushed")
			flushes(w)
			require.Equal(t, "1", w.Header().Get("X-Outer"), "the handler's headers stay as they are")
			require.Equal(t, "one ", outer.Body.String())
			require.True(t, outer.Flushed)
			require.Equal(t, "k-1", outer.Header().Get("Idempotency-Key"))
			w.Header().Set("Location", "/too/late")
			_, _ = io.WriteString(w, "two ")
			_, _ = w.Write([]byte("three"))
			flushes(w)
			require.Equal(t, "one two three", outer.Body.String())
			requireProblem(t, a.post("k-1", ``), http.StatusConflict, core.CodeInFlight) // it is not recorded yet
		})
		a.outer = func(h http.Header) { h.Set("X-Outer", "1") }
		r := newCommand("k-1", "")
		r.Header.Set("Content-Type", "application/json")
		a.serve(outer, r, alice)
		require.Equal(t, http.StatusAccepted, outer.Code)
		require.Equal(t, "one two three", outer.Body.String(), "nothing comes twice")
		w := a.post("k-1", ``)
		requireProblem(t, w, http.StatusConflict, core.CodeResponseNotReplayable)
		require.Contains(t, w.Body.String(), `"answer_status":202,"answer_location":"/1"`)
	})
	says := func(code int, then func()) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code); flushes(w); then() }
	}
	nothing := func() {}
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		first   int
		repeat  core.Code
		result  string // of a repeat that is answered
	}{
		"empty, and 502 too late": {func(w http.ResponseWriter, _ *http.Request) { flushes(w); w.WriteHeader(502) }, 200,
			core.CodeResponseNotReplayable, ""},
		"402":          {says(402, nothing), 402, core.CodeResponseNotReplayable, ""},
		"500":          {says(500, nothing), 500, core.CodeOutcomeUnknown, ""},
		"then a panic": {says(201, func() { panic("boom") }), 201, core.CodeOutcomeUnknown, ""},
		"not applied":  {notApplied(says(502, nothing)), 502, "", "created"},
		"not flushed":  {created, 201, "", "reused"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newApp(t, core.Config{Policy: policy}, test.handler)
			first, panicked := a.serveOnce("k-1")
			require.Equal(t, test.first, first.Code)
			require.Equal(t, name == "then a panic", panicked == "boom", panicked)
			a.handler = created
			again, _ := a.serveOnce("k-1")
			if test.repeat != "" {
				requireProblem(t, again, http.StatusConflict, test.repeat)
			} else {
				requireCreated(t, again, test.result)
			}
			require.Equal(t, test.first == 200, strings.Contains(again.Body.String(), `"answer_status":200}`))
		})
	}
	t.Run("not once the handler has returned: its writer may be another request's", func(t *testing.T) {
		var kept http.ResponseWriter
		a := newApp(t, core.Config{Policy: policy}, func(w http.ResponseWriter, r *http.Request) {
			kept = w
			created(w, r)
		})
		first := a.post("k-1", `{}`)
		_, _ = io.WriteString(kept, "late")
		flushes(kept)
		require.JSONEq(t, `{"id":1}`, first.Body.String())
		require.False(t, first.Flushed)
	})
	inBubble(t, "and not recorded", func(t *testing.T) {
		store := newFaultStore(memstore.New()).on("complete", away)
		a := newApp(t, core.Config{Store: store, Policy: policy}, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "streamed")
			flushes(w)
		})
		require.Equal(t, "streamed", a.post("k-1", `{}`).Body.String(), "no problem behind it")
		require.Contains(t, a.kinds(), core.EventUnconfirmed)
		time.Sleep(time.Minute)
		requireProblem(t, a.post("k-1", `{}`), http.StatusConflict, core.CodeOutcomeUnknown)
	})
}

// failingWriter is the writer of a client that has hung up.
type failingWriter struct{ *httptest.ResponseRecorder }

func (failingWriter) Write([]byte) (int, error)         { return 0, io.ErrClosedPipe }
func (failingWriter) FlushError() error                 { return io.ErrClosedPipe }
func (w failingWriter) WriteString(string) (int, error) { return 0, io.ErrClosedPipe }

// CONTRACT R-5
func TestRecordingSurvivesTheConnection(t *testing.T) {
	each(t, map[string]core.Policy{
		"whole":    {Recovery: core.Park},
		"streamed": {Recovery: core.Park, Streaming: true},
	}, func(t *testing.T, policy core.Policy) {
		a := newApp(t, core.Config{Policy: policy}, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("one"))
			w.(http.Flusher).Flush()
			n, err := w.Write([]byte("two"))
			if policy.Streaming {
				require.ErrorIs(t, err, io.ErrClosedPipe, "as without a guard")
				require.Zero(t, n)
			}
		})
		r := newCommand("k-1", "")
		r.Header.Set("Content-Type", "application/json")
		a.serve(failingWriter{httptest.NewRecorder()}, r, alice)
		w := a.post("k-1", ``)
		if policy.Streaming {
			requireProblem(t, w, http.StatusConflict, core.CodeResponseNotReplayable)
		} else {
			require.Equal(t, "onetwo", w.Body.String())
		}
	})
}
