package provider

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/idemtest"
	"github.com/auth19/idem/core/wire"
)

// answer is what another service answers to a key, with the mark that its guards set.
type answer struct {
	status int
	body   string
	mark   string // a header
	is     string
}

// CONTRACT C-3, X-3
func TestRemote(t *testing.T) {
	var keys, bodies []string
	var next answer
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		keys, bodies = append(keys, r.Header.Get("Idempotency-Key")), append(bodies, string(body))
		if r.URL.Path != "/v1/payments" || r.Header.Get("Authorization") != "Bearer a-token" {
			next.status = http.StatusUnauthorized
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.Header().Set(next.mark, next.is)
		w.WriteHeader(next.status)
		_, _ = io.WriteString(w, next.body)
	}))
	defer service.Close()
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	remote, err := NewRemote(service.URL, "a-token")
	require.NoError(t, err)

	// attempt is an attempt of an operation that is named by its key.
	attempt := func(key string, a answer) (charge Charge, err error) {
		next = a
		ctx := idemtest.Context(t.Context(), idemtest.Config{Key: key})
		return core.Call(ctx, "refund", func(ctx context.Context, _ core.DerivedKey) (Charge, error) {
			return remote.Charge(ctx, request)
		})
	}

	made, err := attempt("one", answer{http.StatusCreated, `{"id":"pay_1","status":"captured"}`, wire.HeaderResult, wire.ResultCreated})
	require.NoError(t, err)
	require.Equal(t, Charge{ID: "pay_1", Amount: "10.00", Currency: "EUR", Operation: "op1", Principal: "seller-1", Fresh: true}, made)
	require.JSONEq(t, `{"order_id":"op1","amount":"10.00","currency":"EUR","method":"pm_ok"}`, bodies[0])

	_, err = attempt("two", answer{http.StatusPaymentRequired, `{"code":"declined"}`, wire.HeaderResult, wire.ResultCreated})
	require.ErrorIs(t, err, ErrDeclined)
	_, err = attempt("three", answer{http.StatusConflict, `{"code":"key_reused"}`, wire.HeaderProblem, "key_reused"})
	require.ErrorIs(t, err, ErrKeyReused)
	_, err = attempt("four", answer{http.StatusConflict, `{"code":"outcome_unknown"}`, wire.HeaderProblem, "outcome_unknown"})
	require.ErrorIs(t, err, ErrAnswerLost)
	_, err = attempt("five", answer{http.StatusForbidden, `{"code":"forbidden"}`, wire.HeaderProblem, "forbidden"})
	require.ErrorContains(t, err, "403")
	_, err = attempt("five", answer{http.StatusCreated, `{`, wire.HeaderResult, wire.ResultCreated})
	require.Error(t, err, "no answer that can be read is no charge")
	_, err = attempt("six", answer{http.StatusAccepted, `queued`, "X-Queue", "1"})
	require.ErrorIs(t, err, ErrAnswerLost, "a proxy's answer is none")

	require.Len(t, keys, 7)
	require.Equal(t, keys[4], keys[5], "two attempts of one operation")
	keys = append(keys[:5], keys[6])
	for i, key := range keys {
		require.NotContains(t, keys[:i], key)
		require.Len(t, key, 36)
	}

	_, err = remote.Charge(t.Context(), request)
	require.ErrorContains(t, err, "belongs in a guarded route")
	require.Len(t, bodies, 7)
}
