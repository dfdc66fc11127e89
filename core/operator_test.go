package core_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
)

// inspected is an app with a completed operation that has a step, and the access that an operator has.
func inspected(t *testing.T) (a *app, operator *core.Operator, id core.ID) {
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
	operator, problem := a.module.Operator(httptest.NewRequest(http.MethodGet, "/", nil), olga)
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
	t.Run("names of operators differ", func(t *testing.T) {
		issuer := "https://issuer.example"
		a := newApp(t, core.Config{OperatorRoles: []core.IssuerRole{{Issuer: issuer, Role: "operator"}}}, created)
		names := map[string]core.Principal{}
		for _, p := range []core.Principal{
			{Tenant: "a", Subject: "b c"}, {Tenant: "a b", Subject: "c"}, {Subject: "a b c"}, {Subject: `a" subject="b`},
			{Tenant: "a", Subject: "b"}, {Tenant: `a" subject="b`, Subject: "c"}, {Subject: "a\x00"}, {Subject: `a\x00`}, {Subject: "ä"},
		} {
			p.Issuer, p.Roles = issuer, []string{"operator"}
			operator, problem := a.module.Operator(httptest.NewRequest(http.MethodGet, "/", nil), p)
			require.Nil(t, problem)
			require.NotContains(t, names, operator.Name())
			require.NotContains(t, operator.Name(), "\x00", "the history has no room for it")
			names[operator.Name()] = p
		}
		require.Contains(t, names, `issuer="https://issuer.example" tenant="a" subject="b c"`)
		require.Contains(t, names, `issuer="https://issuer.example" subject="ä"`)
	})
}
