package idemclient_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/idemclient"
	"github.com/auth19/idem/core/intents"
)

// A mesh repeats a 503 by itself. The first delivery charges and does not know how that ended; the second one meets an
// instance whose store is away.
//
// CONTRACT C-8
func TestAMeshThatRepeatsA503(t *testing.T) {
	charged := newBank(t, core.Config{}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	away := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := core.NewProblem(core.CodeStoreUnavailable, "no database").Reply().WriteTo(w); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(away.Close)
	transport := ownTransport(t)
	mesh := roundTrip(func(r *http.Request) (*http.Response, error) {
		res, err := transport.RoundTrip(r)
		if err != nil || res.StatusCode != http.StatusServiceUnavailable {
			return res, err
		}
		_, _ = io.Copy(io.Discard, res.Body)
		again := r.Clone(r.Context())
		again.Body, _ = r.GetBody()
		again.URL.Host = away.Listener.Addr().String()
		return transport.RoundTrip(again)
	})
	client := newClient(t, idemclient.Config{Transport: mesh, MaxAttempts: 1})
	e := failed(t)(client.Do(t.Context(), "order-7", payment(t, charged.URL+"/v1/payments")))
	require.Len(t, charged.keys(), 1)
	require.Equal(t, core.CodeStoreUnavailable, e.Code)
	require.True(t, e.Uncertain, "%v", e)
}

// CONTRACT C-8
func TestWhatIsCertainDependsOnWhoRepeats(t *testing.T) {
	for name, test := range map[string]struct {
		answers []func(*http.Request) (*http.Response, error)
		direct  bool // uncertain also where nothing repeats
	}{
		"store_unavailable":        {answers: of(problem(core.CodeStoreUnavailable))},
		"rolled_back":              {answers: of(problem(core.CodeRolledBack))},
		"too_many_open":            {answers: of(busy)},
		"body_unreadable":          {answers: of(problem(core.CodeBodyUnreadable))},
		"429 of a limiter":         {answers: of(says(429))},
		"425 of a gateway":         {answers: of(says(425))},
		"429, nothing applied":     {answers: of(says(429, "Idempotency-Result: not_applied"))},
		"refused after a 429":      {answers: of(says(429), unreached)},
		"a marked replay of 429":   {answers: of(says(429, "Idempotent-Replayed: true")), direct: true},
		"a marked replay of 425":   {answers: of(says(425, "Idempotent-Replayed: true")), direct: true},
		"replayed, then the limit": {answers: of(says(429, "Idempotent-Replayed: true"), says(429)), direct: true},
		"a 503 of anybody":         {answers: of(says(503)), direct: true},
	} {
		for _, direct := range []bool{false, true} {
			inBubble(t, name, func(t *testing.T) {
				client := newClient(t, idemclient.Config{
					Transport: inTurn(test.answers...), Direct: direct, MaxAttempts: len(test.answers), Provider: unguarded(),
				})
				e := failed(t)(pay(t, client, "order-7"))
				require.ErrorIs(t, e, idemclient.ErrGivenUp)
				require.Equal(t, !direct || test.direct, e.Uncertain, "Direct: %t: %v", direct, e)
			})
		}
	}
	t.Run("nobody was reached", func(t *testing.T) {
		e := failed(t)(pay(t, newClient(t, idemclient.Config{Transport: inTurn(unreached), MaxAttempts: 1}), "order-7"))
		require.False(t, e.Uncertain)
	})
}

// unreached ends an attempt without a connection.
func unreached(r *http.Request) (*http.Response, error) {
	away := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, errReset }}
	return away.RoundTrip(r)
}

// inTurn is a transport that does not read the request.
func inTurn(answers ...func(*http.Request) (*http.Response, error)) roundTrip {
	n := 0
	return func(r *http.Request) (*http.Response, error) {
		n++
		return answers[n-1](r)
	}
}

func of(answers ...func(*http.Request) (*http.Response, error)) []func(*http.Request) (*http.Response, error) {
	return answers
}

// Two callers send one intent. The first one reaches nobody, and the second one pays meanwhile. What the first one is told
// must not allow a new intent.
//
// CONTRACT C-8, C-4
func TestASecondCallerPaysMeanwhile(t *testing.T) {
	for name, answer := range map[string]func(*http.Request) (*http.Response, error){
		"nobody was reached": unreached,
		"store_unavailable":  problem(core.CodeStoreUnavailable),
		"key_too_old":        problem(core.CodeKeyTooOld),
		"key_reused":         problem(core.CodeKeyReused),
	} {
		for _, second := range []bool{false, true} {
			journal := intents.NewMemoryJournal()
			pays := newClient(t, idemclient.Config{Transport: on(says(201, created)), Journal: journal})
			first := newClient(t, idemclient.Config{
				Journal: journal, Direct: true, MaxAttempts: 1,
				Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
					if second {
						succeeded(t)(pay(t, pays, "order-7"))
					}
					return answer(r)
				}),
			})
			e := failed(t)(pay(t, first, "order-7"))
			require.Equal(t, second, e.Uncertain, "%s: %v", name, e)
			require.Equal(t, 1, e.Attempts)
		}
	}
	t.Run("the journal does not answer", func(t *testing.T) {
		journal := &lateJournal{MemoryJournal: intents.NewMemoryJournal()}
		client := newClient(t, idemclient.Config{Journal: journal, Direct: true, MaxAttempts: 1, Transport: on(busy)})
		require.True(t, failed(t)(pay(t, client, "order-7")).Uncertain)
	})
}

// lateJournal answers once.
type lateJournal struct {
	*intents.MemoryJournal
	asked bool
}

func (j *lateJournal) Begin(ctx context.Context, e intents.Entry) (intents.Entry, error) {
	if j.asked {
		return intents.Entry{}, errReset
	}
	j.asked = true
	return j.MemoryJournal.Begin(ctx, e)
}
