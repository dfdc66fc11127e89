package core_test

import (
	"context"
	"strings"
	"testing"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/adapter"
	"github.com/auth19/idem/core/memstore"
	"github.com/stretchr/testify/require"
)

var money = []adapter.Guard{adapter.GuardJWT, adapter.GuardRoles, adapter.GuardKey, adapter.GuardInterceptor}

// behind returns the chain of a handler behind guards.
func behind(guards ...adapter.Guard) []adapter.Link {
	return []adapter.Link{{Name: "shop/guards.New.func1", Guards: guards}, {Name: "shop.pay"}}
}

// CONTRACT D-2, O-4
func TestAuditRoutes(t *testing.T) {
	withTable := core.Config{Store: memstore.New(), Routes: core.Routes{
		"POST /pay":      {Recovery: core.Park},
		"PATCH /profile": {Exempt: "moves no money"},
		"PUT /limits":    {Exempt: "moves no money", Roles: []string{"admin"}},
		"GET /ledger":    {Roles: []string{"operator"}},
	}}
	complete := []adapter.MountedRoute{
		{Method: "POST", Pattern: "/pay", Chain: behind(money...)},
		{Method: "PATCH", Pattern: "/profile"},
		{Method: "PUT", Pattern: "/limits", Chain: behind(money[:2]...)},
		{Method: "GET", Pattern: "/ledger", Chain: behind(money...)},
		{Method: "GET", Pattern: "/healthz", Unproven: "does not matter"},
	}
	with := func(r adapter.MountedRoute) []adapter.MountedRoute { // in the place of a route, or behind them
		for i, other := range complete {
			if other.Method == r.Method && other.Pattern == r.Pattern {
				return append(append([]adapter.MountedRoute{r}, complete[:i]...), complete[i+1:]...)
			}
		}
		return append([]adapter.MountedRoute{r}, complete...)
	}
	pay := func(guards ...adapter.Guard) []adapter.MountedRoute {
		return with(adapter.MountedRoute{Method: "POST", Pattern: "/pay", Chain: behind(guards...)})
	}
	free := core.Policy{Exempt: "moves no money"}
	own := core.Config{Store: memstore.New(), Policy: core.Policy{Recovery: core.Park}}

	for name, test := range map[string]struct {
		cfg     core.Config
		mounted []adapter.MountedRoute
		want    []string // lines of the error, in order
	}{
		"complete": {withTable, complete, nil},
		"no guard": {withTable, pay(), []string{
			"POST /pay: is not behind the JWT guard, roles guard, key guard, interceptor; mount JWTGuard (or Bridge, behind a " +
				"JWT middleware of your own), then Idempotent"}},
		"no JWT guard": {withTable, pay(money[1:]...), []string{
			"POST /pay: is not behind the JWT guard; mount JWTGuard (or Bridge, behind a JWT middleware of your own)"}},
		"JWT guard alone": {withTable, pay(adapter.GuardJWT), []string{
			"POST /pay: is not behind the roles guard, key guard, interceptor; mount Idempotent"}},
		"guard without interceptor": {withTable, pay(money[:3]...), []string{
			"POST /pay: is not behind the interceptor; mount Interceptor"}},
		"wrong order": {withTable, pay(adapter.GuardRoles, adapter.GuardKey, adapter.GuardInterceptor, adapter.GuardJWT), []string{
			"POST /pay: has its guards in the wrong order: roles guard, key guard, interceptor, JWT guard; " +
				"want JWT guard, roles guard, key guard, interceptor"}},
		"doubled": {withTable, pay(append(money, money[1:]...)...), []string{
			"POST /pay: has more than one roles guard, key guard, interceptor; mount each once, on the group or on the route"}},
		"undeclared": {withTable, with(adapter.MountedRoute{Method: "DELETE", Pattern: "/pay", Chain: behind(money...)}), []string{
			"DELETE /pay: this route is not in the table of routes; declare it with a recovery or as exempt",
			"lines for Config.Routes; replace Exempt by a Recovery, or TODO by the reason why a repeat does no harm:",
			`	"DELETE /pay": {Exempt: "TODO"},`}},
		"on a host": {withTable, with(adapter.MountedRoute{Host: "a.example", Method: "POST", Pattern: "/pay"}), []string{
			"POST a.example/pay: is not behind"}},
		"declared only": {withTable, complete[1:], []string{"POST /pay: is declared, but the router has no such route"}},
		"unproven": {withTable, with(adapter.MountedRoute{Method: "POST", Pattern: "/pay", Chain: behind(money...), Unproven: "odd"}),
			[]string{"POST /pay: is unproven: odd"}},
		"any method": {own, []adapter.MountedRoute{{Pattern: "/a", Chain: behind(money...)}}, []string{
			"CONNECT /a: is registered for any method, and GET, HEAD, OPTIONS, TRACE requests run its handler without a key; " +
				"register it with its method alone, or declare them Exempt with the reason"}},
		"any method but one": {own, []adapter.MountedRoute{
			{Method: "GET", Pattern: "/a", Handler: 1}, {Method: "HEAD", Pattern: "/a", Handler: 2},
			{Method: "POST", Pattern: "/a", Chain: behind(money...), Handler: 2}, {Method: "TRACE", Pattern: "/a", Handler: 2},
		}, []string{"POST /a: is registered for any method, and HEAD, TRACE requests run its handler without a key"}},
		"one handler of two methods": {own, []adapter.MountedRoute{
			{Method: "GET", Pattern: "/a", Handler: 1}, {Method: "POST", Pattern: "/a", Chain: behind(money...), Handler: 1},
			{Method: "PUT", Pattern: "/a", Chain: behind(money...), Handler: 1}, {Method: "GET", Pattern: "/b", Handler: 1},
		}, []string{"POST /a: GET requests run its handler without a key"}},
		"handlers that are not known": {own, []adapter.MountedRoute{
			{Method: "GET", Pattern: "/a"}, {Method: "POST", Pattern: "/a", Chain: behind(money...)},
		}, nil},
		"one handler, declared": {core.Config{Store: memstore.New(), Routes: core.Routes{
			"POST /a": {Recovery: core.Park}, "GET /a": {Exempt: "shows the form"}, "PUT /a": free,
		}}, []adapter.MountedRoute{
			{Method: "GET", Pattern: "/a", Handler: 1}, {Method: "HEAD", Pattern: "/a", Handler: 1},
			{Method: "POST", Pattern: "/a", Chain: behind(money...), Handler: 1}, {Method: "PUT", Pattern: "/a", Handler: 1},
		}, nil},
		"on another host": {own, []adapter.MountedRoute{
			{Method: "GET", Host: "b.example", Pattern: "/a", Handler: 1}, {Method: "POST", Pattern: "/a", Chain: behind(money...), Handler: 1},
		}, []string{"POST /a: GET requests run its handler without a key"}},
		"a guard is last": {withTable, with(adapter.MountedRoute{Method: "POST", Pattern: "/pay", Chain: behind(money...), GuardIsLast: true}),
			[]string{"POST /pay: has a guard as its last handler"}},
		"not guarded yet": {core.Config{Store: memstore.New(), Routes: core.Routes{
			"POST /a": {Recovery: core.Park}, "POST /a/:id": {Unguarded: "waits for release 12"},
		}}, []adapter.MountedRoute{{Method: "POST", Pattern: "/a", Chain: behind(money...)}, {Method: "POST", Pattern: "/a/:id"}}, nil},
		"any method, exempt": {core.Config{Store: memstore.New(), Routes: core.Routes{
			"POST /a": free, "PUT /a": free, "PATCH /a": free, "DELETE /a": free, "CONNECT /a": free,
		}}, []adapter.MountedRoute{{Pattern: "/a"}}, nil},
		"roles on an exempt route": {withTable, with(adapter.MountedRoute{Method: "PUT", Pattern: "/limits"}), []string{
			"PUT /limits: is not behind the JWT guard, roles guard; mount JWTGuard (or Bridge, behind a JWT middleware of your " +
				"own), then RolesGuard"}},
		"roles on a safe route": {withTable, with(adapter.MountedRoute{Method: "GET", Pattern: "/ledger", Chain: behind(money[1:]...)}),
			[]string{"GET /ledger: is not behind the JWT guard"}},
		"everything at once": {withTable, []adapter.MountedRoute{
			{Method: "POST", Pattern: "/pay", Chain: behind(adapter.GuardKey, adapter.GuardRoles, adapter.GuardKey)},
			{Method: "PATCH", Pattern: "/profile"},
			{Method: "POST", Pattern: "/else"},
		}, []string{
			"POST /else: this route is not in the table",
			"POST /pay: is not behind the JWT guard, interceptor",
			"POST /pay: has its guards in the wrong order: key guard, roles guard",
			"POST /pay: has more than one key guard",
			"GET /ledger: is declared",
			"PUT /limits: is declared",
			"lines for Config.Routes",
			`"POST /else": {Exempt: "TODO"},`,
		}},
		"without a table":         {own, []adapter.MountedRoute{{Method: "POST", Pattern: "/a", Chain: behind(money...)}}, nil},
		"without a table, open":   {own, []adapter.MountedRoute{{Method: "POST", Pattern: "/a"}}, []string{"POST /a: is not behind"}},
		"without a table, a read": {own, []adapter.MountedRoute{{Method: "GET", Pattern: "/a"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			err := newModule(t, test.cfg).AuditRoutes(test.mounted)
			if test.want == nil {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "idem: audit: ")
			lines := strings.Split(strings.TrimPrefix(err.Error(), "idem: audit: "), "\n")
			require.Len(t, lines, len(test.want), err)
			for i, want := range test.want {
				require.Contains(t, lines[i], want)
			}
		})
	}
}

// Which routes belong to an owned group, in the spelling of each router.
//
// CONTRACT D-2, O-4
func TestOwns(t *testing.T) {
	const group = "/v1/payments"
	for name, test := range map[string]struct {
		owns   string // group, if empty
		routes []adapter.MountedRoute
		owned  bool
	}{
		"the route itself": {"", at("/v1/payments"), true},
		"below it":         {"", at("/v1/payments/:id/refunds", "/v1/payments/{id}", "/v1/payments/*rest", "/v1/payments/"), true},
		"a wildcard above": {"", at("/*", "/*path", "/v1/*", "/{rest...}", "/v1/{rest...}", "/v1/pay*", "/v1/payments*"), true},
		"a parameter above": {"", at("/:version/payments", "/v1/:kind", "/{version}/{kind}/{id}", "/:version/pay:x",
			`/{v:[a-z/]+}/a`), true},
		"empty segments":           {"", at("/v1//payments", "//v1/payments/"), true},
		"a subtree above":          {"", []adapter.MountedRoute{{Method: "POST", Pattern: "/v1/", Subtree: true}}, true},
		"any method":               {"", []adapter.MountedRoute{{Pattern: "/v1/payments"}}, true},
		"another host":             {"", []adapter.MountedRoute{{Host: "b.example", Method: "POST", Pattern: "/v1/payments"}}, true},
		"a parameter of the group": {"/shops/:shop/pay", at("/shops/:id/pay", "/shops/7/pay/x", "/shops/*", "/:a/:b/:c"), true},
		"two parameters":           {"/v:n/pay", at("/v:version/pay", "/v1/pay", "/:x/pay", "/v2:x/pay"), true},
		"a slash at its end":       {"/v1/payments/", at("/v1/payments", "/v1/payments/x"), true},
		"everything":               {"/", at("/", "/x", "/:a"), true},

		"it only begins so":        {"", at("/v1/payments-old", "/v1/paymentsx/:id", "/v1/paymentsx*"), false},
		"the group is longer":      {"", at("/v1/pay", "/v1/pay/ments", "/v1", "/:version", "/", "/{$}"), false},
		"another group":            {"", at("/v2/payments", "/v1/orders", "/:version/orders", "/v1/orders*", "/v2/*"), false},
		"exactly the group above":  {"", at("/v1/"), false},
		"a parameter, and another": {"/v:n/pay", at("/w:n/pay", "/w1/pay"), false},
	} {
		if test.owns == "" {
			test.owns = group
		}
		for _, route := range test.routes {
			t.Run(name+" "+route.Pattern, func(t *testing.T) {
				idem := owner(t, core.Routes{}, nil, "/other/a/b/c/d", test.owns)
				err := idem.AuditRoutes(append(at("/other/a/b/c/d"), route))
				finding := "POST " + route.Host + route.Pattern + ": this route is not in the table"
				if test.owned {
					require.ErrorContains(t, err, finding)
					require.Empty(t, idem.Undeclared())
					return
				}
				require.ErrorContains(t, err, "POST /other/a/b/c/d: this route is not in the table")
				require.NotContains(t, err.Error(), finding)
				require.Equal(t, []string{`"POST ` + route.Pattern + `": {Exempt: "TODO"},`}, idem.Undeclared())
			})
		}
	}
}

// What is outside of the owned groups is listed, each time anew. What is declared or behind a guard is checked wherever it
// is.
//
// CONTRACT D-2, O-4
func TestOutsideOfOwns(t *testing.T) {
	var events []core.Event
	idem := owner(t, core.Routes{"POST /pay": {Recovery: core.Park}, "PUT /else": {Recovery: core.Park}}, &events, "/pay")
	audit := func(outside ...adapter.MountedRoute) error {
		return idem.AuditRoutes(append(outside,
			adapter.MountedRoute{Method: "POST", Pattern: "/pay", Chain: behind(money...)},
			adapter.MountedRoute{Method: "PUT", Pattern: "/else", Chain: behind(money...)}))
	}
	require.Empty(t, idem.Undeclared())
	outside := []adapter.MountedRoute{
		{Method: "POST", Pattern: "/login"}, {Method: "GET", Pattern: "/login"},
		{Host: "a.example", Method: "DELETE", Pattern: "/carts/:id", Chain: behind(money[:1]...)},
		{Host: "b.example", Method: "DELETE", Pattern: "/carts/:id", Unproven: "does not matter"},
	}
	require.NoError(t, audit(outside...))
	require.Equal(t, []string{`"POST /login": {Exempt: "TODO"},`, `"DELETE /carts/:id": {Exempt: "TODO"},`}, idem.Undeclared())
	require.Equal(t, []core.Event{
		{Kind: core.EventUndeclared, Method: "POST", Route: "/login"},
		{Kind: core.EventUndeclared, Method: "DELETE", Route: "/carts/:id"},
		{Kind: core.EventUndeclared, Method: "DELETE", Route: "/carts/:id"},
	}, events)
	require.NoError(t, audit())
	require.Empty(t, idem.Undeclared())

	for _, guard := range money[1:] {
		err := audit(adapter.MountedRoute{Method: "POST", Pattern: "/login", Chain: behind(guard)})
		require.ErrorContains(t, err, "POST /login: this route is not in the table of routes; declare it with a recovery or as "+
			"exempt. It is outside of Config.Owns, but behind the guards, which refuse it")
		require.Empty(t, idem.Undeclared())
	}
	require.ErrorContains(t, audit(at("/:any")...), "It can take requests of the owned group /pay\n")
	require.ErrorContains(t, idem.AuditRoutes(outside), "PUT /else: is declared, but the router has no such route")
	require.ErrorContains(t, idem.AuditRoutes(outside), "/pay: is in Config.Owns, but the router has no unsafe route there")
	require.ErrorContains(t, idem.AuditRoutes(append(at("/else"), adapter.MountedRoute{Method: "PUT", Pattern: "/else"})),
		"PUT /else: is not behind the JWT guard")
}

// owner returns a module that owns the groups. Its events go to seen.
func owner(t *testing.T, routes core.Routes, seen *[]core.Event, groups ...string) *core.Module {
	idem := newModule(t, core.Config{Store: memstore.New(), Routes: routes, Owns: groups,
		Observer: core.ObserverFunc(func(_ context.Context, e core.Event) {
			if seen != nil {
				*seen = append(*seen, e)
			}
		})})
	return idem
}

// at returns unsafe routes without a guard.
func at(patterns ...string) (routes []adapter.MountedRoute) {
	for _, pattern := range patterns {
		routes = append(routes, adapter.MountedRoute{Method: "POST", Pattern: pattern})
	}
	return routes
}
