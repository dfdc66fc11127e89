package adaptertest

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
)

// One route first: a module that owns a group. What can take a request of the group has to be declared, whoever
// registers it. Other routes are listed.
//
// CONTRACT D-2, O-4
func auditOfOwnedGroups(t *testing.T, a Adapter) {
	idem := NewModule(t, core.Config{Owns: []string{"/v1/pay", "/v2/pay"}, Routes: core.Routes{
		"POST /v1/pay": {Recovery: core.Park}, "POST /v2/pay": {Recovery: core.Park},
	}})
	never, id := Never(t, a), param(a, "id")
	const undeclared = ": this route is not in the table"
	for name, test := range map[string]struct {
		mount  func(app App, money Router)
		wants  []string
		listed []string // lines to paste
	}{
		"nothing else": {func(App, Router) {}, nil, nil},
		"routes of others": {func(app App, _ Router) {
			app.Handle(http.MethodPost, "/login", never)
			app.Group("/v1", a.JWTGuard(NewVerifier(t))).Handle(http.MethodDelete, "/carts/"+id, never)
			app.Handle(http.MethodGet, "/v1/pay", Never(t, a)) // another handler
			app.Handle(http.MethodPost, "/v1/payments", never)
			app.Handle(http.MethodPut, "/v1/pay-old/"+id, never)
		}, nil, []string{"POST /login", "DELETE /v1/carts/" + id, "PUT /v1/pay-old/" + id, "POST /v1/payments"}},
		"below the group": {func(_ App, money Router) {
			money.Group("/pay").Group("/"+id).Handle(http.MethodPost, "/refunds", never)
		}, []string{"POST /v1/pay/" + id + "/refunds" + undeclared}, nil},
		"another method": {func(_ App, money Router) { money.Handle(http.MethodDelete, "/pay", never) },
			[]string{"DELETE /v1/pay" + undeclared}, nil},
		"by the whole app": {func(app App, _ Router) { app.Handle(http.MethodPut, "/v1/pay/"+id, never) },
			[]string{"PUT /v1/pay/" + id + undeclared}, nil},
		"by another group": {func(app App, _ Router) {
			app.Group("/v1/pay").Group("").Handle(http.MethodPost, "/void", never)
		}, []string{"POST /v1/pay/void" + undeclared}, nil},
		"a parameter above it": {func(app App, _ Router) { app.Handle(http.MethodPatch, "/"+param(a, "version")+"/pay", never) },
			[]string{"PATCH /" + param(a, "version") + "/pay" + undeclared + " of routes; declare it with a recovery or as exempt. " +
				"It can take requests of the owned group /v1/pay"}, nil},
		"a wildcard above it": {func(app App, _ Router) { app.Handle(http.MethodPut, "/v2/"+wildcard(a), never) },
			[]string{"PUT /v2/" + wildcard(a) + undeclared}, nil},
		"any method": {func(app App, _ Router) { app.Handle("", "/v1/pay/"+id, never) },
			[]string{"PATCH /v1/pay/" + id + undeclared}, nil},
		"any method of others": {func(app App, _ Router) { app.Handle("", "/v1/cart", never) }, nil, []string{
			"CONNECT /v1/cart", "DELETE /v1/cart", "PATCH /v1/cart", "POST /v1/cart", "PUT /v1/cart",
		}},
		"behind the guards": {func(_ App, money Router) { money.Handle(http.MethodPost, "/orders", never) }, []string{
			"POST /v1/orders" + undeclared, "It is outside of Config.Owns, but behind the guards, which refuse it",
			"lines for Config.Routes", `"POST /v1/orders": {Exempt: "TODO"},`,
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			app := a.New()
			money := app.Group("/v1", a.JWTGuard(NewVerifier(t)), a.Idempotent(idem))
			money.Handle(http.MethodPost, "/pay", never)
			app.Handle(http.MethodPost, "/v2/pay", never, a.JWTGuard(NewVerifier(t)), a.Idempotent(idem))
			test.mount(app, money)
			err := app.Audit(idem)
			if test.wants == nil {
				require.NoError(t, err)
			}
			for _, want := range test.wants {
				require.ErrorContains(t, err, want)
			}
			var lines []string
			for _, route := range test.listed {
				lines = append(lines, `"`+route+`": {Exempt: "TODO"},`)
			}
			if name == "any method of others" { // routers know different methods
				require.Subset(t, idem.Undeclared(), lines)
				return
			}
			require.Equal(t, lines, idem.Undeclared())
		})
	}
}
