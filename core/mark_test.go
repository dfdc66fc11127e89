package core_test

import (
	"context"
	"fmt"
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

// chief is a supervisor.
var chief = core.Principal{Issuer: alice.Issuer, Subject: "chief", Roles: []string{"supervisor"}}

func (a *app) mark(p core.Principal, body string) *httptest.ResponseRecorder {
	a.t.Helper()
	return written(a.t, operations.New(a.module).Serve(operations.Mark, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)), p, ""))
}

func (a *app) markOne(id core.ID) {
	a.t.Helper()
	w := a.mark(chief, `{"ids":["`+id.String()+`"],"reason":"the provider's list"}`)
	require.JSONEq(a.t, `{"marked":1,"left":0,"running":0}`, w.Body.String())
}

// An operation that the database has lost, and a provider's list names, is unknown: its repeat does not run, and says whose it
// is. Before that repeat only supervisors see it, and afterwards nobody else sees it than any other operation.
//
// CONTRACT F-4, S-1, S-5, M-4, M-8, T-4
func TestMarkedOperation(t *testing.T) {
	inBubble(t, "life", func(t *testing.T) {
		asked := 0
		st := memstore.New()
		a := newOpsApp(t, core.Config{Store: st, Routes: core.Routes{"POST " + pattern: {Recovery: core.Park}},
			Reconcile: func(_ context.Context, rec core.Record) (*core.Decision, error) {
				require.Equal(t, pattern, rec.Route, "of which provider it is, is known by its route")
				asked++
				return nil, nil
			}}, created)
		bob := core.Principal{Issuer: alice.Issuer, Subject: "bob"}
		id := core.Scoping{}.RecordID(alice, "lost-1")
		a.markOne(id)
		require.JSONEq(t, `{"marked":0,"left":1,"running":0}`,
			a.mark(chief, `{"ids":["`+id.String()+`"],"reason":"again"}`).Body.String())

		for _, p := range []core.Principal{alice, bob, operator} {
			requireProblem(t, a.operation(p, id.String()), http.StatusNotFound, core.CodeNotFound)
		}
		require.Equal(t, "unknown", members(t, a.operation(chief, id.String()))["state"])
		require.Equal(t, "[]\n", a.operations(operator, "").Body.String())
		require.Contains(t, a.operations(chief, "").Body.String(), id.String())
		a.runFor(2 * time.Minute)
		require.Zero(t, asked)
		require.Empty(t, a.of(core.EventRouteUnknown))

		own := func(p core.Principal) *httptest.ResponseRecorder {
			r := newCommand("lost-1", "")
			return written(t, operations.New(a.module).Serve(operations.Own, r, p, ""))
		}
		require.Equal(t, "unknown", members(t, own(alice))["state"], "who has key and principal is its owner")
		requireProblem(t, own(bob), http.StatusNotFound, core.CodeNotFound)

		require.Equal(t, http.StatusCreated, a.postAs(bob, "lost-1", "{}").Code, "another principal has another operation")
		for _, body := range []string{"{}", `{"another":"command"}`} {
			w := a.post("lost-1", body)
			requireProblem(t, w, http.StatusConflict, core.CodeOutcomeUnknown)
			require.Contains(t, w.Body.String(), id.String())
		}
		require.Equal(t, 1, a.runs)
		require.Equal(t, "unknown", members(t, a.operation(alice, id.String()))["state"])
		requireProblem(t, a.operation(bob, id.String()), http.StatusNotFound, core.CodeNotFound)
		require.Contains(t, a.operations(operator, "").Body.String(), pattern)
		a.runFor(2 * time.Minute)
		require.Positive(t, asked)

		require.Equal(t, http.StatusOK, a.serveSettle(operator, id.String(), `{"outcome":"applied","answer":{"id":"p1"},"reason":"r"}`).Code)
		w := a.post("lost-1", "{}")
		require.Equal(t, []any{http.StatusCreated, `{"id":"p1"}`}, []any{w.Code, w.Body.String()})
		history := st.Settlements(id)
		require.Len(t, history, 2)
		require.Contains(t, history[0].Who, "chief")
		require.Equal(t, "the provider's list", history[0].Why)
		require.Equal(t, 1, a.of(core.EventMarked)[0].Count)
	})
	inBubble(t, "settled before its repeat", func(t *testing.T) {
		st := memstore.New()
		a := newOpsApp(t, core.Config{Store: st}, created)
		id := core.Scoping{}.RecordID(alice, "lost-1")
		a.markOne(id)
		requireProblem(t, a.serveSettle(operator, id.String(), `{"outcome":"not_applied","reason":"r"}`), http.StatusNotFound,
			core.CodeNotFound)
		require.Equal(t, http.StatusOK, a.serveSettle(chief, id.String(), `{"outcome":"applied","answer":{"id":"p1"},"reason":"r"}`).Code)
		require.Equal(t, `{"id":"p1"}`, a.post("lost-1", "{}").Body.String()) //nolint:testifylint // byte for byte
		erased, err := operations.New(a.module).Erase(t.Context(), operations.Erasure{Principal: alice, Who: "operator", Why: "request 7"})
		require.NoError(t, err)
		require.Equal(t, 1, erased.Records, "its repeat has said whose it is")
		requireProblem(t, a.post("lost-1", "{}"), http.StatusConflict, core.CodeKeyExpired)
	})
	inBubble(t, "settled as not applied", func(t *testing.T) {
		a := newOpsApp(t, core.Config{}, created)
		id := core.Scoping{}.RecordID(alice, "lost-1")
		a.markOne(id)
		require.Equal(t, http.StatusOK, a.serveSettle(chief, id.String(), `{"outcome":"not_applied","reason":"r"}`).Code)
		require.Equal(t, http.StatusCreated, a.post("lost-1", "{}").Code)
	})
	inBubble(t, "refusals", func(t *testing.T) {
		a := newOpsApp(t, core.Config{}, created)
		id := core.Scoping{}.RecordID(alice, "lost-1").String()
		requireProblem(t, a.mark(operator, `{"ids":["`+id+`"],"reason":"r"}`), http.StatusForbidden, core.CodeForbidden)
		many := strings.Repeat(`"`+id+`",`, 500) + `"` + id + `"`
		for _, body := range []string{``, `{}`, `{"ids":[],"reason":"r"}`, `{"ids":["lost-1"],"reason":"r"}`,
			`{"ids":["` + id + `"]}`, `{"ids":["` + id + `"],"reason":" "}`,
			`{"ids":["` + id + `"],"reason":"` + strings.Repeat("r", 4097) + `"}`, fmt.Sprintf(`{"ids":[%s],"reason":"r"}`, many)} {
			requireProblem(t, a.mark(chief, body), http.StatusBadRequest, core.CodeBadRequest)
		}
		_, err := operations.New(a.module).Mark(t.Context(), []core.ID{{1}}, "", "why")
		require.ErrorContains(t, err, "who and why are required")
	})
}

// A repeat whose principal could not be written down is told the same, and the next one tries it again.
//
// CONTRACT M-4
func TestMarkedOperationOfAStoreThatFails(t *testing.T) {
	st := &unadopting{Store: memstore.New()}
	a := newOpsApp(t, core.Config{Store: st}, created)
	id := core.Scoping{}.RecordID(alice, "lost-1")
	a.markOne(id)
	requireProblem(t, a.post("lost-1", "{}"), http.StatusConflict, core.CodeOutcomeUnknown)
	require.NotEmpty(t, a.of(core.EventFailed))
	st.well = true
	requireProblem(t, a.post("lost-1", "{}"), http.StatusConflict, core.CodeOutcomeUnknown)
	require.Equal(t, http.StatusOK, a.operation(alice, id.String()).Code)
}

type unadopting struct {
	*memstore.Store
	well bool
}

func (s *unadopting) Adopt(ctx context.Context, c store.Claim) error {
	if !s.well {
		return fmt.Errorf("the connection broke off")
	}
	return s.Store.Adopt(ctx, c)
}
