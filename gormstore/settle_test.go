package gormstore_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
)

// operated is a module with operators.
func operated(t *testing.T, st *gormstore.Store, policy core.Policy) *core.Module {
	t.Helper()
	roles := []core.IssuerRole{{Issuer: "https://issuer.example", Role: "operator"}}
	return try(core.New(core.Config{Store: st, Policy: policy, OperatorRoles: roles})).ok(t)
}

// theUnknown is the one operation that somebody has to settle.
func theUnknown(t *testing.T, db *gorm.DB, st *gormstore.Store) core.ID {
	t.Helper()
	advance(t, db, time.Hour)
	page := try(st.List(t.Context(), store.Query{Unknown: true, Limit: 10})).ok(t)
	require.Len(t, page, 1)
	return page[0].ID
}

// What the history cannot keep is the caller's mistake, not the store's: PostgreSQL has no room for NUL in a text.
//
// CONTRACT X-7
func TestTextOfASettlement(t *testing.T) {
	onStores(t, bothKinds, func(t *testing.T, db *gorm.DB, st *gormstore.Store) {
		module := operated(t, st, core.Policy{Recovery: core.Park})
		require.Equal(t, http.StatusBadGateway, serve(t, module, "k-1", answering(http.StatusBadGateway)).Code)
		id := theUnknown(t, db, st)

		operator := core.Principal{Issuer: "https://issuer.example", Subject: "o\x00lga\xff", Roles: []string{"operator"}}
		settle := func(body string) *core.Reply {
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
			return operations.New(module).Serve(operations.Settle, r, operator, id.String())
		}
		for _, reason := range []string{`a\u0000b`, "a\xffb"} {
			reply := settle(`{"outcome":"not_applied","reason":"` + reason + `"}`)
			require.Equal(t, http.StatusBadRequest, reply.Status, string(reply.Body))
		}
		reply := settle(`{"outcome":"not_applied","reason":"the provider has no such key"}`)
		require.Equal(t, http.StatusOK, reply.Status, string(reply.Body))
		who := query[string](t, db, "SELECT settled_by FROM idempotency_settlement")
		require.Equal(t, `issuer="https://issuer.example" subject="o\x00lga\xff"`, who)
	})
}
