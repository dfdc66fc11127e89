package core_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/core/store"
)

// An operation may have so many results that they are not read within the claim's timeout.
//
// CONTRACT
func TestStepsThatAreReadSlowly(t *testing.T) {
	operation := core.Scoping{}.RecordID(alice, "k-1")
	// halfDone is an operation whose second step has failed once. Its steps are read by the hook "steps".
	halfDone := func(t *testing.T, policy core.Policy) (*app, *faultStore, *take) {
		t.Helper()
		st, s := newFaultStore(memstore.New()), &take{fail: "book"}
		policy.Recovery = core.Resume
		operators := []core.IssuerRole{{Issuer: alice.Issuer, Role: "operator"}}
		a := newApp(t, core.Config{Store: st, Policy: policy, OperatorRoles: operators},
			func(w http.ResponseWriter, r *http.Request) {
				if s.steps(r.Context(), "charge", "book") != nil {
					w.WriteHeader(http.StatusBadGateway)
					return
				}
				created(w, r)
			})
		require.Equal(t, http.StatusBadGateway, a.post("k-1", `{}`).Code)
		s.fail = ""
		return a, st, s
	}
	slowly := func(took time.Duration) func(context.Context) error {
		return func(ctx context.Context) error {
			select {
			case <-time.After(took):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	inBubble(t, "within the attempt's time", func(t *testing.T) {
		a, st, s := halfDone(t, core.Policy{})
		st.on("steps", slowly(store.DefaultDeadline/2))
		requireCreated(t, a.post("k-1", `{}`), "created")
		require.Equal(t, []string{"charge", "book", "book"}, s.ran)
		require.Empty(t, a.of(core.EventLeaseLost), "the lease is renewed meanwhile")
	})
	inBubble(t, "never", func(t *testing.T) {
		a, st, s := halfDone(t, core.Policy{MaxAttempts: 3})
		st.on("steps", slowly(time.Hour))
		w := a.post("k-1", `{}`)
		requireProblem(t, w, http.StatusServiceUnavailable, core.CodeStoreUnavailable)
		require.Equal(t, "unknown", w.Header().Get("Idempotency-Result"), "a segment has committed")
		require.NotEmpty(t, w.Header().Get("Retry-After"))
		require.Equal(t, 2, find(t, st, "k-1").Attempts, "the attempt counts")
		requireProblem(t, a.post("k-1", `{}`), http.StatusConflict, core.CodeOutcomeUnknown)
		require.Equal(t, store.Unknown, find(t, st, "k-1").State(), "and the last one parks")
		require.Equal(t, []string{"charge", "book"}, s.ran, "nothing runs that does not know what has run")
		require.Len(t, a.of(core.EventYielded), 2, "what has ended an attempt is told")
	})
	inBubble(t, "parked without them", func(t *testing.T) {
		a, st, _ := halfDone(t, core.Policy{ResumeFor: time.Hour})
		reads := st.count("steps")
		time.Sleep(2 * time.Hour)
		a.start()()
		require.Equal(t, store.Unknown, find(t, st, "k-1").State())
		require.Zero(t, *reads)
	})
	inBubble(t, "settled", func(t *testing.T) {
		a, st, _ := halfDone(t, core.Policy{ResumeFor: time.Hour})
		time.Sleep(2 * time.Hour)
		a.start()()
		time.Sleep(store.DefaultDeadline)
		st.on("steps", slowly(store.DefaultDeadline/2))
		caller := core.Principal{Issuer: alice.Issuer, Tenant: alice.Tenant, Subject: "olga", Roles: []string{"operator"}}
		desk, problem := operations.New(a.module).Operator(httptest.NewRequest(http.MethodGet, "/", nil), caller, nil)
		require.Nil(t, problem)
		life, err := desk.Life(t.Context(), operation)
		require.NoError(t, err, "its page can be shown")
		require.Len(t, life.Steps, 2)
		decision := core.Decision{Who: "olga", Why: "asked the provider"}
		_, err = operations.New(a.module).Settle(t.Context(), operation, decision)
		require.ErrorIs(t, err, store.ErrStepsFinished, "it is known, however long it takes")
		decision.Undone = "the charge was given back"
		_, err = operations.New(a.module).Settle(t.Context(), operation, decision)
		require.NoError(t, err)
	})
}
