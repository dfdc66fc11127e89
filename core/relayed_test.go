package core_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
)

// relays answers with the problem of another service.
func relays(code int, problem core.Code) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		reply := core.NewProblem(problem, "from another service").Reply()
		reply.Status = code
		_ = reply.WriteTo(w)
	}
}

// failed declares that the attempt has failed, whatever next answers.
func failed(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { core.Failed(r.Context()); next(w, r) }
}

// Another service that is not ready says nothing about the command. Its problem is known by media type, type and code.
//
// CONTRACT R-9
func TestRelayedProblems(t *testing.T) {
	problem := func(kind, code string) string { return `{"type":"` + kind + `","status":409,"code":"` + code + `"}` }
	for name, test := range map[string]struct {
		media, body string
		recorded    bool
	}{
		"in_flight":          {"application/problem+json", problem("tag:auth19.dev,2026:idem/in_flight", "in_flight"), false},
		"outcome_unknown":    {"application/problem+json", problem("tag:auth19.dev,2026:idem/outcome_unknown", "outcome_unknown"), false},
		"store_unavailable":  {"application/problem+json", problem("tag:auth19.dev,2026:idem/store_unavailable", "store_unavailable"), false},
		"commit_unconfirmed": {"application/problem+json", problem("tag:auth19.dev,2026:idem/commit_unconfirmed", "commit_unconfirmed"), false},
		"rolled_back":        {"application/problem+json", problem("tag:auth19.dev,2026:idem/rolled_back", "rolled_back"), false},
		"with a charset":     {"application/problem+json; charset=utf-8", problem("tag:auth19.dev,2026:idem/in_flight", "in_flight"), false},
		"an own base":        {"application/problem+json", problem("https://shop.example/problems#in_flight", "in_flight"), false},
		"another code":       {"application/problem+json", problem("tag:auth19.dev,2026:idem/key_reused", "key_reused"), true},
		"the type alone":     {"application/problem+json", `{"type":"tag:auth19.dev,2026:idem/in_flight"}`, true},
		"the code alone":     {"application/problem+json", `{"code":"in_flight"}`, true},
		"a type of an app":   {"application/problem+json", problem("https://shop.example/problems/busy", "in_flight"), true},
		"plain JSON":         {"application/json", problem("tag:auth19.dev,2026:idem/in_flight", "in_flight"), true},
		"no JSON":            {"application/problem+json", `in_flight`, true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, recovery := range []core.Recovery{core.Park, core.Resume} {
				for _, streaming := range []bool{false, true} {
					a := newApp(t, core.Config{Routes: core.Routes{"POST " + pattern: {Recovery: recovery, Streaming: streaming}}},
						func(w http.ResponseWriter, _ *http.Request) {
							w.Header().Set("Content-Type", test.media)
							w.WriteHeader(http.StatusConflict)
							_, _ = io.WriteString(w, test.body)
							_ = http.NewResponseController(w).Flush()
						})
					first, _ := a.serveOnce("k-1")
					require.Equal(t, http.StatusConflict, first.Code)
					require.Equal(t, test.body, first.Body.String(), "it passes through")
					require.Equal(t, test.recorded, a.of(core.EventCompleted) != nil)
				}
			}
		})
	}
}

// A proxy as a handler, in front of a service whose first attempt is still running.
//
// CONTRACT R-9
func TestProxiedInFlightIsNotReplayed(t *testing.T) {
	ready := false
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !ready {
			relays(http.StatusConflict, core.CodeInFlight)(w, r)
			return
		}
		created(w, r)
	}))
	defer upstream.Close()
	a := newApp(t, core.Config{Policy: core.Policy{Recovery: core.Resume}}, func(w http.ResponseWriter, r *http.Request) {
		res, err := http.Post(upstream.URL, "application/json", r.Body)
		require.NoError(t, err)
		defer func() { _ = res.Body.Close() }()
		w.Header().Set("Content-Type", res.Header.Get("Content-Type"))
		w.WriteHeader(res.StatusCode)
		_, _ = io.Copy(w, res.Body)
	})
	require.Equal(t, http.StatusConflict, a.post("k-1", `{}`).Code)
	ready = true
	require.Equal(t, "created", a.post("k-1", `{}`).Header().Get("Idempotency-Result"))
}
