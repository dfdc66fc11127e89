package core_test

import (
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
			"lines for Config.Routes; replace Exempt by a Recovery or, for now, by Unguarded, and TODO by the reason:",
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
