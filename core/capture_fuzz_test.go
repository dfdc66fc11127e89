package core_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/core/wire"
)

// script is what outer middleware and a handler do, a line each: "o" is a header that outer middleware sets; "s", "a"
// and "d" set, add and delete one in the handler; "c" is a status, "w" a piece of the body, "f" a flush.
type script []string

func (s script) outer(h http.Header) {
	for _, line := range s {
		name, value, ok := s.header(line, "o")
		if ok && !strings.EqualFold(name, wire.HeaderReplayed) { // that is only the library's to say
			h.Add(name, value)
		}
	}
}

func (s script) handle(w http.ResponseWriter, _ *http.Request) {
	for _, line := range s {
		switch op, rest, _ := strings.Cut(line, " "); op {
		case "s", "a", "d":
			name, value, _ := s.header(line, op)
			switch op {
			case "s":
				w.Header().Set(name, value)
			case "a":
				w.Header().Add(name, value)
			case "d":
				w.Header().Del(name)
			}
		case "c":
			if code, err := strconv.Atoi(rest); err == nil && code >= 100 && code < 500 {
				w.WriteHeader(code)
			}
		case "w":
			_, _ = w.Write([]byte(rest))
		case "f":
			w.(http.Flusher).Flush()
		}
	}
}

// header takes "op Name: value" apart.
func (script) header(line, op string) (name, value string, ok bool) {
	line, ok = strings.CutPrefix(line, op+" ")
	name, value, _ = strings.Cut(line, ":")
	return name, strings.TrimSpace(value), ok
}

// Whatever a handler does to the headers: what is recorded is what the client saw, through the allowlist, and a replay is
// the same.
//
// CONTRACT, M-3
func FuzzHeaderCapture(f *testing.F) {
	for _, seed := range []string{
		"", "w hello", "c 204\nw body", "s Content-Type: text/plain\nc 201\nw hello", "s Set-Cookie: a=1\nw x",
		"o ETag: 1\ns ETag: 1\nw x", "o ETag: 1\ns ETag: 2\nw x", "o Link: a\na Link: b\nw x", "o Location: /a\nd Location\nw x",
		"s X-Receipt: 1\na X-Receipt: 2\nc 303", "s Content-Length: 3\nw hello", "s Content-Length: 9\nw hello", "s Content-Length: 9\nw hello\nf", "s Location: /1\nw one\nf\ns Location: /2\nw two",
		"s idempotency-result: reused\ns Idempotent-Replayed: true", "s Idempotency-Key: other\nw x", "s location: /1\nw " +
			strings.Repeat("x", 70), "c 103\nc 202\nc 203", "c 402\ns Www-Authenticate: Bearer", "s : empty\ns \x00: \r\n", "d Content-Type",
		"a Link: 1\na Link: 2\nd Link\na Link: 3", "s RateLimit: 1\ns X-RateLimit-Reset: 2\ns Date: now", "f", "c 304\nw x\nf",
	} {
		f.Add(seed, seed == "f" || strings.Contains(seed, "\nf"))
	}
	f.Fuzz(func(t *testing.T, text string, streaming bool) {
		s := script(strings.Split(text, "\n"))
		st := memstore.New()
		module, err := core.New(core.Config{Store: st, ReplayHeaders: []string{"X-Receipt"},
			Policy: core.Policy{Recovery: core.Park, MaxAnswer: 64, Streaming: streaming}})
		require.NoError(t, err)
		a := &app{t: t, module: module, pattern: pattern, handler: s.handle, outer: s.outer}
		serve := func() *httptest.ResponseRecorder {
			w, panicked := a.serveOnce("k-1")
			require.Nil(t, panicked)
			return w
		}
		first := serve()
		seen := first.Result().Header
		rec, err := st.Find(context.Background(), core.Scoping{}.RecordID(alice, "k-1"), store.Viewer{All: true})
		require.NoError(t, err)
		if rec.State() == store.Unknown { // it announced more than it wrote
			require.Contains(t, strings.ToLower(text), "content-length")
			require.Equal(t, 1, a.ran())
			if !streaming {
				requireProblem(t, first, http.StatusInternalServerError, core.CodeAnswerIncomplete)
			}
			requireProblem(t, serve(), http.StatusConflict, core.CodeOutcomeUnknown)
			require.Equal(t, 1, a.ran())
			return
		}
		require.Equal(t, store.Completed, rec.State())
		require.Equal(t, first.Code, rec.Answer.Status)

		allowed := append([]string{"Etag", "X-Receipt"}, recordedHeaders...)
		for name, values := range rec.Answer.Header {
			require.Contains(t, allowed, name)
			require.Equal(t, seen[name], values, "recorded is what the client saw")
		}
		second := serve()
		again := second.Result().Header
		require.Equal(t, []string{"k-1"}, seen["Idempotency-Key"])
		require.Equal(t, []string{"k-1"}, again["Idempotency-Key"])
		require.Empty(t, seen["Idempotent-Replayed"])
		if rec.Answer.Partial {
			require.Empty(t, rec.Answer.Body)
			delete(rec.Answer.Header, "Location")
			require.Empty(t, rec.Answer.Header)
			requireProblem(t, second, http.StatusConflict, core.CodeResponseNotReplayable)
			return
		}
		require.Equal(t, []string{"created"}, seen["Idempotency-Result"])
		require.Equal(t, []string{"reused"}, again["Idempotency-Result"])
		require.Equal(t, first.Code, second.Code)
		require.Equal(t, first.Body.String(), second.Body.String())
		before := http.Header{}
		s.outer(before)
		for _, name := range allowed {
			name = http.CanonicalHeaderKey(name)
			if slices.Equal(before[name], seen[name]) || len(seen[name]) == 0 {
				continue // not the handler's
			}
			require.Equal(t, seen[name], rec.Answer.Header[name], "all that the handler added is recorded")
			require.Equal(t, seen[name], again[name])
		}
	})
}
