package core_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/wire"
)

// A handler that announces another length than it writes would have its answer broken off by net/http, while the replay
// is whole.
//
// CONTRACT R-1
func TestContentLengthIsCounted(t *testing.T) {
	a := newApp(t, core.Config{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", r.Header.Get("Idempotency-Key"))
		_, _ = io.WriteString(w, "0123456789")
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { a.serve(w, r, alice) }))
	defer server.Close()
	for _, length := range []string{"3", "10"} {
		for range 2 {
			require.Equal(t, "0123456789", send(t, server, http.NoBody, length).Body.String())
		}
	}
}

// An upstream that breaks off is relayed as far as it came. That is no answer, and it ends like a panic.
//
// CONTRACT R-8
func TestAnswerThatBreaksOff(t *testing.T) {
	relays := func(status int, announced, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", announced)
			w.Header().Set("Content-Encoding", "gzip")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		whole   bool
	}{
		"broken off":   {relays(201, "10", "012345678"), false},
		"nothing came": {relays(201, "10", ""), false},
		"a refusal":    {relays(402, "10", "0"), false},
		"not begun": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "10")
			w.Header().Set("Content-Encoding", "gzip")
		}, false},
		"http.Error behind it": {func(w http.ResponseWriter, r *http.Request) { // it takes the announcement away
			relays(201, "100", "half of it")(w, r)
			http.Error(w, "the upstream broke off", http.StatusBadGateway)
		}, false},
		"whole":              {relays(201, "10", "0123456789"), true},
		"no content":         {relays(204, "10", ""), true},
		"not modified":       {relays(304, "10", ""), true},
		"no number of bytes": {relays(201, "ten", "0"), true},
		"impossible number":  {relays(201, "99999999999999999999", "0"), true},
	} {
		t.Run(name, func(t *testing.T) {
			a := newApp(t, core.Config{}, test.handler)
			a.outer = func(h http.Header) { h.Set("X-Outer", "1") }
			first, second := a.post("k-1", `{}`), a.post("k-1", `{}`)
			require.Equal(t, 1, a.ran())
			require.Equal(t, "1", first.Header().Get("X-Outer"))
			if test.whole {
				require.Equal(t, "created", first.Header().Get("Idempotency-Result"))
				require.Equal(t, "reused", second.Header().Get("Idempotency-Result"))
				return
			}
			requireProblem(t, first, http.StatusInternalServerError, core.CodeAnswerIncomplete)
			require.Empty(t, first.Header().Values("Content-Encoding"), "the headers of the upstream are not the problem's")
			require.Equal(t, "unknown", first.Header().Get("Idempotency-Result"))
			require.Contains(t, first.Body.String(), `"safe_new_key":false`)
			requireProblem(t, second, http.StatusConflict, core.CodeOutcomeUnknown)
		})
	}
	t.Run("Rollback", func(t *testing.T) {
		a := newRowsApp(t, core.Config{}, books(relays(201, "10", "0")))
		for range 2 { // undone, and the key is free
			w := a.post("k-1", `{}`)
			requireProblem(t, w, http.StatusInternalServerError, core.CodeAnswerIncomplete)
			require.NotContains(t, w.Body.String(), "safe_new_key")
		}
		require.Equal(t, 2, a.ran())
	})
}

// CONTRACT
func TestRecordedHeadersAreCapped(t *testing.T) {
	huge := func(name string, size int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(name, strings.Repeat("x", size))
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, "ok")
		}
	}
	for _, recovery := range []core.Recovery{core.Park, core.Resume} {
		for name, header := range map[string]string{"ETag": "", "Location": "", "X-Other": "ok"} {
			store := memstore.New()
			a := newApp(t, core.Config{Store: store, Policy: core.Policy{Recovery: recovery, MaxAnswer: 1024}}, huge(name, 20<<20))
			first := a.post("k-1", `{}`)
			require.Equal(t, http.StatusCreated, first.Code)
			require.Len(t, first.Header().Get(name), 20<<20, "the client gets it whole")
			rec := find(t, store, "k-1")
			require.Empty(t, rec.Answer.Header)
			if header == "ok" { // not recorded, and so not counted
				require.Equal(t, "ok", string(rec.Answer.Body))
				continue
			}
			require.Equal(t, core.Answer{Status: 201, Partial: true}, rec.Answer)
			requireProblem(t, a.post("k-1", `{}`), http.StatusConflict, core.CodeResponseNotReplayable)
		}
	}
	etag := huge("ETag", 1020)
	b := newApp(t, core.Config{Policy: core.Policy{Recovery: core.Park, MaxAnswer: 1024}},
		func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Location", "/v1/payments/1"); etag(w, r) })
	require.Len(t, b.post("k-1", `{}`).Header().Get("ETag"), 1020)
	require.Contains(t, b.post("k-1", `{}`).Body.String(), `"answer_status":201,"answer_location":"/v1/payments/1"`)
	a := newRowsApp(t, core.Config{Policy: core.Policy{MaxAnswer: 1024}}, books(etag))
	requireProblem(t, a.post("k-1", `{}`), http.StatusInternalServerError, core.CodeAnswerTooLarge)
}

// A handler writes an answer, and then calls http.Error: net/http would keep the headers with which the answer has begun. So
// the first answer and the replay have them.
//
// CONTRACT R-1, M-3
func TestHeadersAreThoseWithWhichTheAnswerBegan(t *testing.T) {
	a := newApp(t, core.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Etag", `"7"`)
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"id":7}`))
		http.Error(w, "the mail was not sent", http.StatusInternalServerError)
	})
	for _, result := range []string{wire.ResultCreated, wire.ResultReused} {
		w := a.post("k-1", `{}`)
		require.Equal(t, http.StatusCreated, w.Code)
		require.Equal(t, result, w.Header().Get(wire.HeaderResult))
		require.Equal(t, "application/json", w.Header().Get("Content-Type"))
		require.Equal(t, `"7"`, w.Header().Get("Etag"))
		require.Equal(t, `{"id":7}the mail was not sent`+"\n", w.Body.String())
	}
	require.Equal(t, 1, a.ran())

	t.Run("without any", func(t *testing.T) {
		a := newApp(t, core.Config{}, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusCreated)
			w.Header().Set("Etag", `"of another answer"`)
			http.Error(w, "the mail was not sent", http.StatusInternalServerError)
		})
		for _, result := range []string{wire.ResultCreated, wire.ResultReused} {
			w := a.post("k-1", `{}`)
			require.Equal(t, result, w.Header().Get(wire.HeaderResult))
			require.Empty(t, w.Header().Values("Content-Type"))
			require.Empty(t, w.Header().Values("Etag"))
		}
	})
}
