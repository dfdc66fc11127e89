package core_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
)

// ownOperation asks for the operation with a key.
func (a *app) ownOperation(p core.Principal, key, target string) *httptest.ResponseRecorder {
	a.t.Helper()
	r := httptest.NewRequest(http.MethodGet, target, nil)
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	return written(a.t, a.module.ServeOwnOperation(r, p))
}

// CONTRACT M-8, M-7, O-2, O-3, K-5, S-1
func TestOwnOperation(t *testing.T) {
	t.Run("an attempt that is running is never 404, although nobody sees its record", func(t *testing.T) {
		var a *rowsApp
		a = newRowsApp(t, core.Config{}, books(func(w http.ResponseWriter, r *http.Request) {
			_, err := a.store.Find(t.Context(), core.Scoping{}.RecordID(alice, "k-1"))
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
		_, err := a.module.Settle(t.Context(), core.Scoping{}.RecordID(alice, "k-1"), core.Decision{Who: "w", Why: "y"})
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
