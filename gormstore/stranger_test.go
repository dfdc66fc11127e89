package gormstore_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/internal/pgtest"
)

// A stranger cannot tell by time whose operations exist: another's costs the same statements as none, whatever its state,
// for clients and for operators. The server's own log counts them.
//
// CONTRACT S-5, M-7
func TestAnothersOperationCostsWhatNoneCosts(t *testing.T) {
	url := migratedURL(t)
	read := pgtest.Statements(t, url)
	st := newStore(t, openPostgres(t, url, 4))
	const shop, other = "https://shop.example", "https://other.example"
	operators := []core.IssuerRole{{Issuer: other, Role: "operator"}}
	m := try(core.New(core.Config{Store: st, OperatorRoles: operators, Routes: core.Routes{
		"POST /v1/payments": {Recovery: core.Park}, "POST /v1/refunds": {Recovery: core.Resume},
	}})).ok(t)
	alice, bob := core.Principal{Issuer: shop, Subject: "alice"}, core.Principal{Issuer: shop, Subject: "bob"}
	operator := core.Principal{Issuer: other, Subject: "olga", Roles: []string{"operator"}}

	// post runs a command of alice, and returns its operation.
	post := func(route, key string, handle func(w http.ResponseWriter, ctx context.Context) (ended bool)) string {
		r := httptest.NewRequest(http.MethodPost, route, strings.NewReader(`{}`))
		r.Header.Set("Idempotency-Key", key)
		r, reply := m.Admit(r, route, alice)
		require.Nil(t, reply)
		attempt, reply := m.Begin(r, route, alice)
		require.Nil(t, reply)
		if handle(attempt.Capture(httptest.NewRecorder()), attempt.Request().Context()) {
			attempt.Finish()
		} else {
			t.Cleanup(func() { attempt.Finish() })
		}
		return core.Scoping{}.RecordID(alice, key).String()
	}
	pay := func(key string, handle func(w http.ResponseWriter, ctx context.Context)) string {
		return post("/v1/payments", key, func(w http.ResponseWriter, ctx context.Context) bool {
			if handle != nil {
				handle(w, ctx)
			}
			return handle != nil
		})
	}
	answers := func(status int, size int) func(http.ResponseWriter, context.Context) {
		return func(w http.ResponseWriter, _ context.Context) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(strings.Repeat("x", size)))
		}
	}
	ids := map[string]string{
		"none":      core.Scoping{}.RecordID(alice, "none").String(),
		"completed": pay("completed", answers(http.StatusCreated, 100<<10)),
		"refused":   pay("refused", answers(http.StatusConflict, 10)),
		"unknown":   pay("unknown", answers(http.StatusInternalServerError, 10)),
		"running":   pay("running", nil),
		"locked": post("/v1/refunds", "locked", func(_ http.ResponseWriter, ctx context.Context) bool {
			nothing := func(context.Context) (int, error) { return 0, nil }
			require.NoError(t, err2(core.Step(ctx, "a", nothing)))
			require.NoError(t, core.Checkpoint(ctx))
			require.NoError(t, err2(core.Step(ctx, "b", nothing))) // its segment stays open, with the lock
			return false
		}),
		"free": pay("free", func(w http.ResponseWriter, ctx context.Context) {
			core.NotApplied(ctx)
			w.WriteHeader(http.StatusServiceUnavailable)
		}),
	}
	settle := func(p core.Principal, id string) *core.Reply {
		return operations.New(m).Serve(operations.Settle, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(
			`{"outcome":"not_applied","reason":"looked"}`)), p, id)
	}
	ask := func(p core.Principal, id string) *core.Reply {
		return operations.New(m).Serve(operations.Show, httptest.NewRequest(http.MethodGet, "/", http.NoBody), p, id)
	}
	for name, question := range map[string]func(id string) *core.Reply{
		"client":           func(id string) *core.Reply { return ask(bob, id) },
		"operator":         func(id string) *core.Reply { return ask(operator, id) },
		"operator, settle": func(id string) *core.Reply { return settle(operator, id) },
		"operator, list": func(id string) *core.Reply {
			return operations.New(m).Serve(operations.List, httptest.NewRequest(http.MethodGet, "/?after="+id, http.NoBody), operator, "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			question(ids["none"]) // what the store asks once
			read()
			none := question(ids["none"])
			want := read()
			require.Equal(t, http.StatusNotFound, none.Status, "%s", none.Body)
			require.NotEmpty(t, want)
			for state, id := range ids {
				got := question(id)
				require.Equal(t, want, read(), state)
				require.Equal(t, none.Status, got.Status, state)
				require.Equal(t, string(none.Body), string(got.Body), state)
			}
		})
	}
	require.Equal(t, http.StatusOK, ask(alice, ids["completed"]).Status)
	require.Contains(t, string(ask(alice, ids["completed"]).Body), strings.Repeat("x", 100<<10))
}
