package core_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/core/store"
)

// A module that would look for the records of its callers elsewhere serves nobody, until the operator has said so.
//
// CONTRACT S-4
func TestScopingIsWhatItWas(t *testing.T) {
	member := core.Principal{Issuer: alice.Issuer, Tenant: "t", Client: "web", Subject: alice.Subject, Roles: alice.Roles}
	before := core.Scoping{Namespace: "shop", RequireTenant: true}
	each(t, map[string]core.Scoping{
		"namespace":       {Namespace: "wallet", RequireTenant: true},
		"no namespace":    {RequireTenant: true},
		"optional tenant": {Namespace: "shop"},
		"client":          {Namespace: "shop", RequireTenant: true, RequireClient: true},
	}, func(t *testing.T, after core.Scoping) {
		store := memstore.New()
		a := newApp(t, core.Config{Store: store, Scoping: before}, created)
		require.Equal(t, http.StatusCreated, a.postAs(member, "k-1", `{}`).Code)

		changed := newApp(t, core.Config{Store: store, Scoping: after}, created)
		requireProblem(t, changed.postAs(member, "k-1", `{}`), http.StatusInternalServerError, core.CodeMisconfigured)
		require.ErrorIs(t, changed.of(core.EventFailed)[0].Err, core.ErrScoping)
		require.ErrorIs(t, changed.module.CheckScoping(t.Context()), core.ErrScoping)
		require.ErrorIs(t, changed.module.Run(t.Context()), core.ErrScoping)
		_, err := operations.New(changed.module).Import(t.Context(), nil)
		require.ErrorIs(t, err, core.ErrScoping)
		require.Zero(t, changed.ran())
		require.Equal(t, "reused", a.postAs(member, "k-1", `{}`).Header().Get("Idempotency-Result"))

		require.NoError(t, changed.module.AdoptScoping(t.Context()))
		require.NoError(t, changed.module.CheckScoping(t.Context()))
		require.Equal(t, "created", changed.postAs(member, "k-2", `{}`).Header().Get("Idempotency-Result"))
	})
}

// silentKeeper is a store that cannot be asked for the scoping that it keeps.
type silentKeeper struct{ *memstore.Store }

var errSilent = errors.New("the store does not answer")

func (silentKeeper) KeepScoping(context.Context, string, string) (string, error) {
	return "", errSilent
}

func (silentKeeper) AdoptScoping(context.Context, string, string) error { return errSilent }

// CONTRACT S-4, S-5, O-2, M-7, X-7
func TestScopings(t *testing.T) {
	t.Run("Scoping that cannot be read", func(t *testing.T) {
		a := newApp(t, core.Config{Store: silentKeeper{memstore.New()}}, created)
		require.ErrorIs(t, a.module.CheckScoping(t.Context()), errSilent)
		require.ErrorIs(t, a.module.AdoptScoping(t.Context()), errSilent)
		requireProblem(t, a.post("k-1", `{}`), http.StatusServiceUnavailable, core.CodeStoreUnavailable)
		require.Zero(t, a.ran())
	})
	inBubble(t, "two services share the tables: neither finds, replays or settles what is the other's", func(t *testing.T) {
		st := memstore.New()
		ofShop, ofWallet := core.Scoping{Namespace: "shop"}, core.Scoping{Namespace: "wallet"}
		shop := newOpsApp(t, core.Config{Store: st, Scoping: ofShop}, status(http.StatusBadGateway))
		wallet := newOpsApp(t, core.Config{Store: st, Scoping: ofWallet}, created)
		shop.post("k-1", `{}`)
		require.NoError(t, wallet.module.AdoptScoping(t.Context()))
		require.Equal(t, "created", wallet.post("k-1", `{}`).Header().Get("Idempotency-Result"))
		require.NotEqual(t, ofShop.PrincipalScope(alice), ofWallet.PrincipalScope(alice))

		time.Sleep(store.DefaultDeadline)
		id := ofShop.RecordID(alice, "k-1")
		supervisor := core.Principal{Issuer: "elsewhere", Subject: "sue", Roles: []string{"supervisor"}}
		require.Equal(t, "[]\n", wallet.operations(supervisor, "").Body.String())
		requireProblem(t, wallet.operation(supervisor, id.String()), http.StatusNotFound, core.CodeNotFound)
		requireProblem(t, wallet.operation(alice, id.String()), http.StatusNotFound, core.CodeNotFound)
		_, err := operations.New(wallet.module).Settle(t.Context(), id, core.Decision{Who: "reconciler", Why: "never heard of it"})
		require.ErrorIs(t, err, core.ErrNotFound)
		require.Contains(t, shop.operations(supervisor, "").Body.String(), id.String())
	})
	t.Run("what Scoping requires", func(t *testing.T) {
		whole := core.Principal{Issuer: alice.Issuer, Tenant: "t", Client: "web", Subject: alice.Subject, Roles: alice.Roles}
		noTenant, noClient, mobile := whole, whole, whole
		noTenant.Tenant, noClient.Client, mobile.Client = "", "", "mobile"

		strict := newApp(t, core.Config{Scoping: core.Scoping{RequireTenant: true, RequireClient: true}}, created)
		for _, p := range []core.Principal{noTenant, noClient, alice} {
			w := strict.postAs(p, "k-1", `{}`)
			requireProblem(t, w, http.StatusUnauthorized, core.CodeUnauthenticated)
			require.Equal(t, "Bearer", w.Header().Get("WWW-Authenticate"))
			requireProblem(t, strict.operation(p, idOf("k-1")), http.StatusUnauthorized, core.CodeUnauthenticated)
		}
		require.Equal(t, http.StatusCreated, strict.postAs(whole, "k-1", `{}`).Code)
		require.Equal(t, "created", strict.postAs(mobile, "k-1", `{}`).Header().Get("Idempotency-Result"), "another client")
		require.Equal(t, "reused", strict.postAs(whole, "k-1", `{}`).Header().Get("Idempotency-Result"))

		lax := newApp(t, core.Config{}, created)
		require.Equal(t, "created", lax.postAs(whole, "k-1", `{}`).Header().Get("Idempotency-Result"))
		require.Equal(t, "reused", lax.postAs(mobile, "k-1", `{}`).Header().Get("Idempotency-Result"), "the client does not count")
		require.Equal(t, "created", lax.postAs(noTenant, "k-1", `{}`).Header().Get("Idempotency-Result"), "the tenant does")
	})
	inBubble(t, "operators see their own realm", func(t *testing.T) {
		callers := []core.Principal{
			{Issuer: "i", Subject: "s"}, {Issuer: "i", Tenant: "t", Subject: "s"}, {Issuer: "i", Tenant: "u", Subject: "s"},
			{Issuer: "j", Subject: "s"}, {Issuer: "j", Tenant: "t", Subject: "s"},
		}
		a := newOpsApp(t, core.Config{}, status(http.StatusBadGateway))
		for _, caller := range callers {
			a.postAs(caller, "k-1", `{}`)
		}
		time.Sleep(store.DefaultDeadline)

		listed := func(p core.Principal) (ids []string) {
			var views []struct{ ID string }
			require.NoError(t, json.Unmarshal(a.operations(p, "").Body.Bytes(), &views))
			for _, v := range views {
				ids = append(ids, v.ID)
			}
			return ids
		}
		var all []string
		for i, caller := range callers {
			all = append(all, core.Scoping{}.RecordID(caller, "k-1").String())
			operator := core.Principal{Issuer: caller.Issuer, Tenant: caller.Tenant, Subject: "olga", Roles: []string{"operator"}}
			require.Equal(t, all[i:], listed(operator))
			for j, other := range callers {
				id := core.Scoping{}.RecordID(other, "k-1").String()
				if i == j {
					require.Equal(t, http.StatusOK, a.operation(operator, id).Code)
					continue
				}
				requireProblem(t, a.operation(operator, id), http.StatusNotFound, core.CodeNotFound)
				requireProblem(t, a.serveSettle(operator, id, `{"outcome":"not_applied","reason":"r"}`), http.StatusNotFound,
					core.CodeNotFound)
			}
		}
		supervisor := core.Principal{Issuer: "elsewhere", Subject: "sue", Roles: []string{"supervisor"}}
		require.ElementsMatch(t, all, listed(supervisor))
		for i, caller := range callers {
			who := core.Principal{Issuer: caller.Issuer, Tenant: caller.Tenant, Subject: "olga", Roles: []string{"operator"}}
			if i == 0 {
				who = supervisor
			}
			require.Equal(t, http.StatusOK, a.operation(supervisor, all[i]).Code)
			require.Equal(t, http.StatusOK, a.serveSettle(who, all[i], `{"outcome":"not_applied","reason":"r"}`).Code)
		}
	})
}

// unsetIDs are what ids print as that nobody has set.
var unsetIDs = func() []string {
	var (
		none      any
		anonymous *string
		name      sql.NullString
		number    sql.NullInt64
		object    [12]byte
	)
	const zero = "00000000-0000-0000-0000-000000000000"
	return []string{
		"", " ", "0", "00", "0.0", "-1", "null", "(null)", "undefined", "None", "NaN", "0x0",
		fmt.Sprint(none), fmt.Sprint(anonymous), fmt.Sprintf("%s", none), fmt.Sprintf("%d", none), "%!s(int=0)",
		fmt.Sprintf("user-%v", none), fmt.Sprint(0.0), fmt.Sprintf("%f", 0.0), "%!v(PANIC=String method: nil pointer)",
		zero, "urn:uuid:" + zero, "{" + zero + "}", "{" + zero + " false}", "user:" + zero, string(make([]byte, 16)),
		fmt.Sprint([16]byte{}), "00000000000000000000000000000000", fmt.Sprint(name), fmt.Sprint(number),
		fmt.Sprintf("%x", object), `ObjectID("000000000000000000000000")`, "user_00000000000000000000000000",
		"00000000000000000000", "00000000000000000000000000",
	}
}()

// CONTRACT S-6, S-4
func TestIDsThatStandForNobody(t *testing.T) {
	t.Run("IDs that stand for nobody", func(t *testing.T) {
		for _, id := range unsetIDs {
			for field, p := range map[string]core.Principal{
				"subject": {Issuer: "https://issuer.example", Subject: id},
				"issuer":  {Issuer: id, Subject: "alice"},
				"tenant":  {Issuer: "https://issuer.example", Tenant: id, Subject: "alice"},
			} {
				require.Equal(t, field == "tenant" && id == "", p.Valid(), "%s %q", field, id)
				a := newApp(t, core.Config{}, created)
				if !p.Valid() {
					requireProblem(t, a.postAs(p, "k-1", `{}`), http.StatusUnauthorized, core.CodeUnauthenticated)
					require.Zero(t, a.ran())
				}
			}
		}
		for _, id := range []string{
			"1", "10", "x", "a", "7f", "alice", "user-0", "alice@shop.example", "auth0|5f7c8ec7c33c6c004bbafe82", "用户", "-", "Nil",
			"10000000-0000-0000-0000-000000000000", "00000000-0000-0000-0000-000000000001", "11111111-0000-0000-0000-000000000000",
			"10000000000000000000000000000000", "507f1f77bcf86cd799439011", "100000000000000000000000", "nullable", "100%",
			"false", "0b", "0xf", "000123", "spiffe://shop.example/ns/pay",
		} {
			p := core.Principal{Issuer: "https://issuer.example", Tenant: id, Subject: id}
			require.True(t, p.Valid(), id)
		}
	})
	t.Run("a client counts where Scoping says so", func(t *testing.T) {
		a := newApp(t, core.Config{Scoping: core.Scoping{RequireClient: true}}, created)
		p := alice
		for _, id := range unsetIDs {
			p.Client = id
			requireProblem(t, a.postAs(p, "k-1", `{}`), http.StatusUnauthorized, core.CodeUnauthenticated)
		}
		p.Client = "web"
		require.Equal(t, http.StatusCreated, a.postAs(p, "k-1", `{}`).Code)
	})
}

// The backlog of a service is its own, whoever else uses its tables.
//
// CONTRACT S-4
func TestBacklog(t *testing.T) {
	st := memstore.New()
	a := newApp(t, core.Config{Store: st, Scoping: core.Scoping{Namespace: "a"}}, status(502))
	b := newApp(t, core.Config{Store: st, Scoping: core.Scoping{Namespace: "b"}}, status(502))
	a.post("k-1", `{}`)
	require.NoError(t, b.module.AdoptScoping(t.Context()))
	a.post("k-2", `{}`)
	b.post("k-3", `{}`)
	backlog, err := a.module.Backlog(t.Context())
	require.NoError(t, err)
	require.Len(t, backlog, 1)
	require.WithinDuration(t, time.Now(), backlog[0].Oldest, time.Minute)
	backlog[0].Oldest, backlog[0].Now = time.Time{}, time.Time{}
	require.Equal(t, store.Count{Method: http.MethodPost, Route: pattern, Count: 2}, backlog[0])
}
