package core_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/core/store"
)

// inspected is an app with a completed operation that has a step, and the access that an operator has.
func inspected(t *testing.T) (a *app, operator *operations.Operator, id core.ID) {
	t.Helper()
	a = newApp(t, core.Config{Policy: core.Policy{Recovery: core.Resume}, OperatorRoles: []core.IssuerRole{{Issuer: alice.Issuer, Role: "operator"}}},
		func(w http.ResponseWriter, r *http.Request) {
			_, err := core.Call(r.Context(), "charge", func(context.Context, core.DerivedKey) (string, error) {
				return "receipt", nil
			})
			require.NoError(t, err)
			created(w, r)
		})
	require.Equal(t, http.StatusCreated, a.post("k-1", `{}`).Code)
	olga := core.Principal{Issuer: alice.Issuer, Subject: "olga", Roles: []string{"operator"}}
	operator, problem := operations.New(a.module).Operator(httptest.NewRequest(http.MethodGet, "/", nil), olga, nil)
	require.Nil(t, problem)
	return a, operator, core.Scoping{}.RecordID(alice, "k-1")
}

// CONTRACT M-7, S-5, T-4, M-5, X-7, S-1
func TestOperator(t *testing.T) {
	// An operator looks at an operation without reading what only its caller should know. Who reads that is told to the
	// observer.
	t.Run("life reveals nothing", func(t *testing.T) {
		a, operator, id := inspected(t)
		life, err := operator.Life(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, core.Answer{Status: http.StatusCreated}, life.Record.Answer)
		require.Equal(t, len(`{"id":1}`), life.Size)
		require.Equal(t, "application/json", life.Media)
		require.Len(t, life.Steps, 1)
		require.Empty(t, life.Steps[0].Result)
		require.Empty(t, a.of(core.EventAnswerRead))

		life, err = operator.Reveal(t.Context(), id)
		require.NoError(t, err)
		require.JSONEq(t, `{"id":1}`, string(life.Record.Answer.Body))
		require.NotEmpty(t, life.Record.Answer.Header)
		require.JSONEq(t, `"receipt"`, string(life.Steps[0].Result))
		require.Len(t, a.of(core.EventAnswerRead), 1)
	})
	inBubble(t, "after retention nobody gets the answer any more, even before a sweep", func(t *testing.T) {
		_, operator, id := inspected(t)
		time.Sleep(store.DefaultRetention)
		life, err := operator.Reveal(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, store.Expired, life.Record.State())
		require.Equal(t, core.Answer{Status: http.StatusCreated}, life.Record.Answer)
		require.Len(t, life.Steps, 1)
		require.Empty(t, life.Steps[0].Result)
	})
	t.Run("an operator of another tenant finds nothing", func(t *testing.T) {
		a, olga, id := inspected(t)
		tenanted := core.Principal{Issuer: alice.Issuer, Tenant: "t-1", Subject: "olga", Roles: []string{"operator"}}
		other, problem := operations.New(a.module).Operator(httptest.NewRequest(http.MethodGet, "/", nil), tenanted, nil)
		require.Nil(t, problem)
		for operator, want := range map[*operations.Operator]int{olga: 1, other: 0} {
			records, err := operator.Records(t.Context(), []core.ID{id})
			require.NoError(t, err)
			require.Len(t, records, want)
			found, err := operator.Find(t.Context(), id.String(), "")
			require.NoError(t, err)
			require.Len(t, found.IDs, want)
		}
		_, err := other.Life(t.Context(), id)
		require.ErrorIs(t, err, core.ErrNotFound)
		_, err = other.Reveal(t.Context(), id)
		require.ErrorIs(t, err, core.ErrNotFound)
		_, _, err = other.FindKey(t.Context(), alice, "k-1")
		require.ErrorIs(t, err, core.ErrNotFound)
		require.Empty(t, a.of(core.EventAnswerRead))
	})
	t.Run("names of operators differ", func(t *testing.T) {
		issuer := "https://issuer.example"
		a := newApp(t, core.Config{OperatorRoles: []core.IssuerRole{{Issuer: issuer, Role: "operator"}}}, created)
		names := map[string]core.Principal{}
		for _, p := range []core.Principal{
			{Tenant: "a", Subject: "b c"}, {Tenant: "a b", Subject: "c"}, {Subject: "a b c"}, {Subject: `a" subject="b`},
			{Tenant: "a", Subject: "b"}, {Tenant: `a" subject="b`, Subject: "c"}, {Subject: "a\x00"}, {Subject: `a\x00`}, {Subject: "ä"},
		} {
			p.Issuer, p.Roles = issuer, []string{"operator"}
			operator, problem := operations.New(a.module).Operator(httptest.NewRequest(http.MethodGet, "/", nil), p, nil)
			require.Nil(t, problem)
			require.NotContains(t, names, operator.Name())
			require.NotContains(t, operator.Name(), "\x00", "the history has no room for it")
			names[operator.Name()] = p
		}
		require.Contains(t, names, `issuer="https://issuer.example" tenant="a" subject="b c"`)
		require.Contains(t, names, `issuer="https://issuer.example" subject="ä"`)
	})
}

// ownOperation asks for the operation with a key.
func (a *app) ownOperation(p core.Principal, key, target string) *httptest.ResponseRecorder {
	a.t.Helper()
	r := httptest.NewRequest(http.MethodGet, target, nil)
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	return written(a.t, operations.New(a.module).Serve(operations.Own, r, p, ""))
}

// apart is a store.Nodes.
type apart struct {
	*memstore.Store
	is  bool
	err error
}

func (s *apart) Apart(context.Context) (bool, error) { return s.is, s.err }

// CONTRACT M-8, M-7, O-2, O-3, K-5, S-1
func TestOwnOperation(t *testing.T) {
	t.Run("an attempt that is running is never 404, although nobody sees its record", func(t *testing.T) {
		var a *rowsApp
		a = newRowsApp(t, core.Config{}, books(func(w http.ResponseWriter, r *http.Request) {
			_, err := a.store.Find(t.Context(), core.Scoping{}.RecordID(alice, "k-1"), store.Viewer{All: true})
			require.ErrorIs(t, err, core.ErrNotFound)
			require.Equal(t, map[string]any{"id": idOf("k-1"), "state": "running"},
				members(t, a.ownOperation(alice, `"k-1"`, "/")))
			require.Equal(t, map[string]any{"id": idOf("k-1"), "state": "running"}, members(t, a.operation(alice, idOf("k-1"))))
			requireProblem(t, a.operation(alice, idOf("k-2")), http.StatusNotFound, core.CodeNotFound)
			requireProblem(t, a.ownOperation(alice, "k-2", "/"), http.StatusNotFound, core.CodeNotFound)
			created(w, r)
		}))
		require.Equal(t, http.StatusCreated, a.post("k-1", `{}`).Code)
		view := members(t, a.ownOperation(alice, "k-1", "/"))
		require.Equal(t, "completed", view["state"])
		require.Equal(t, view, members(t, a.operation(alice, idOf("k-1"))))
		require.Equal(t, 1, a.ran())
		require.Equal(t, 1, a.rows())
	})
	t.Run("nor is it free, although all that is seen is that its key was free before", func(t *testing.T) {
		st := memstore.New()
		before := newApp(t, core.Config{Store: st}, notApplied(status(http.StatusServiceUnavailable)))
		require.Equal(t, http.StatusServiceUnavailable, before.post("k-1", `{}`).Code)
		require.Equal(t, "free", members(t, before.ownOperation(alice, "k-1", "/"))["state"])
		var a *app
		a = newApp(t, core.Config{Store: st, Policy: core.Policy{Recovery: core.Resume}}, func(w http.ResponseWriter, r *http.Request) {
			require.Equal(t, "running", members(t, a.ownOperation(alice, "k-1", "/"))["state"])
			require.Equal(t, "running", members(t, a.operation(alice, idOf("k-1")))["state"])
			created(w, r)
		})
		require.Equal(t, http.StatusCreated, a.post("k-1", `{}`).Code)
	})
	t.Run("the attempt ends between the look for its record and the look for its lock", func(t *testing.T) {
		a := newRowsApp(t, core.Config{}, books(created))
		a.faults.on("in flight", func(context.Context) error {
			require.Equal(t, http.StatusCreated, a.post("k-1", `{}`).Code)
			return nil
		})
		require.Equal(t, "completed", members(t, a.ownOperation(alice, "k-1", "/"))["state"])
		require.Equal(t, 1, a.ran())

		a.faults.on("in flight", away)
		requireProblem(t, a.ownOperation(alice, "k-2", "/"), http.StatusServiceUnavailable, core.CodeStoreUnavailable)
	})
	t.Run("an attempt of another node is not seen, and 404 says so", func(t *testing.T) {
		st := &apart{Store: memstore.New(), is: true}
		a := newApp(t, core.Config{Store: st}, created)
		for _, w := range []*httptest.ResponseRecorder{a.ownOperation(alice, "k-1", "/"), a.operation(alice, idOf("k-1"))} {
			requireProblem(t, w, http.StatusNotFound, core.CodeNotFound)
			require.Contains(t, w.Body.String(), "another node")
		}
		st.err = away(t.Context())
		requireProblem(t, a.ownOperation(alice, "k-1", "/"), http.StatusServiceUnavailable, core.CodeStoreUnavailable)
		st.err, st.is = nil, false
		require.NotContains(t, a.ownOperation(alice, "k-1", "/").Body.String(), "another node")
	})
	t.Run("own operation is the callers own", func(t *testing.T) {
		a := newOpsApp(t, core.Config{Routes: core.Routes{"POST " + pattern: {Recovery: core.Park, Roles: []string{"customer"}}}},
			created)
		w := a.ownOperation(alice, "k-1", "/")
		requireProblem(t, w, http.StatusNotFound, core.CodeNotFound)
		require.Contains(t, w.Body.String(), "may still be on its way")
		require.Equal(t, http.StatusCreated, a.post("k-1", `{}`).Code)
		require.Equal(t, "completed", members(t, a.ownOperation(alice, "k-1", "/"))["state"])

		bob := core.Principal{Issuer: alice.Issuer, Subject: "bob", Roles: alice.Roles}
		requireProblem(t, a.ownOperation(bob, "k-1", "/"), http.StatusNotFound, core.CodeNotFound)
		requireProblem(t, a.ownOperation(operator, "k-1", "/"), http.StatusNotFound, core.CodeNotFound)
		requireProblem(t, a.ownOperation(core.Principal{}, "k-1", "/"), http.StatusUnauthorized, core.CodeUnauthenticated)
		requireProblem(t, a.ownOperation(alice, "", "/"), http.StatusBadRequest, core.CodeKeyMissing)
		requireProblem(t, a.ownOperation(alice, "k-1, k-2", "/"), http.StatusBadRequest, core.CodeKeyInvalid)
		requireProblem(t, a.ownOperation(alice, "k-1", "/?idempotency_key=k-1"), http.StatusBadRequest, core.CodeKeyInURL)
		demoted := core.Principal{Issuer: alice.Issuer, Subject: alice.Subject}
		requireProblem(t, a.ownOperation(demoted, "k-1", "/"), http.StatusForbidden, core.CodeForbidden)
		require.Equal(t, 1, a.ran())
	})
}

// Who wants to settle an operation whose attempt has not committed is told that it is under way. Nothing waits for it.
//
// CONTRACT
func TestSettlementOfAnAttemptThatNobodySees(t *testing.T) {
	const free = `{"outcome":"not_applied","reason":"r"}`
	var a *app
	handler := func(w http.ResponseWriter, r *http.Request) {
		requireProblem(t, a.serveSettle(operator, idOf("k-1"), free), http.StatusConflict, core.CodeInFlight)
		_, err := operations.New(a.module).Settle(t.Context(), core.Scoping{}.RecordID(alice, "k-1"), core.Decision{Who: "w", Why: "y"})
		require.ErrorIs(t, err, store.ErrNotSettleable)
		requireProblem(t, a.serveSettle(operator, idOf("k-2"), free), http.StatusNotFound, core.CodeNotFound)
		created(w, r)
	}
	operators := []core.IssuerRole{{Issuer: alice.Issuer, Role: "operator"}}
	each(t, map[string]func() *app{
		"Rollback": func() *app { return newRowsApp(t, core.Config{OperatorRoles: operators}, books(handler)).app },
		"Resume": func() *app {
			return newOpsApp(t, core.Config{Policy: core.Policy{Recovery: core.Resume}}, handler)
		},
	}, func(t *testing.T, newApp func() *app) {
		a = newApp()
		require.Equal(t, http.StatusCreated, a.post("k-1", `{}`).Code)
		requireProblem(t, a.serveSettle(operator, idOf("k-1"), free), http.StatusConflict, core.CodeNotSettleable)
		require.Equal(t, 1, a.ran())
	})
}

// leftStore is a store whose reader leaves while it is asked.
type leftStore struct {
	*memstore.Store
	leave context.CancelFunc
}

func (s *leftStore) OpenSteps(context.Context, []byte, int) ([]store.OpenStep, error) {
	if s.leave != nil {
		s.leave()
	}
	steps := make([]store.OpenStep, 1000)
	for i := range steps {
		steps[i] = store.OpenStep{ID: core.ID{1, byte(i >> 8), byte(i)}, Step: "charge"}
	}
	return steps, nil
}

// A search costs what it must, and nothing once nobody waits for it.
//
// CONTRACT S-5, X-13
func TestSearchThatNobodyWaitsFor(t *testing.T) {
	st := &leftStore{Store: memstore.New()}
	a := newApp(t, core.Config{Store: st, OperatorRoles: []core.IssuerRole{{Issuer: alice.Issuer, Role: "operator"}}}, created)
	operator, problem := operations.New(a.module).Operator(httptest.NewRequest(http.MethodGet, "/", nil),
		core.Principal{Issuer: alice.Issuer, Subject: "olga", Roles: []string{"operator"}}, nil)
	require.Nil(t, problem)
	text := core.ID{9}.String()

	for _, call := range []string{strings.Repeat("x", core.MaxStepName+1), strings.Repeat("x", 1<<20), "\xff", "a\x00"} {
		_, err := operator.Find(t.Context(), text, call)
		refused, ok := errors.AsType[*core.Problem](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, core.CodeBadRequest, refused.Code)
	}
	found, err := operator.Find(t.Context(), text, strings.Repeat("x", core.MaxStepName))
	require.NoError(t, err)
	require.True(t, found.Whole)

	ctx, leave := context.WithCancel(t.Context())
	st.leave = leave
	_, err = operator.Find(ctx, text, "charge")
	require.ErrorIs(t, err, context.Canceled)
}
