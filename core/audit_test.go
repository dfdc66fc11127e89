package core_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
)

var money = []core.Guard{core.GuardJWT, core.GuardRoles, core.GuardKey, core.GuardInterceptor}

// CONTRACT D-2, O-4
func TestAuditRoutes(t *testing.T) {
	withTable := core.Config{Store: memstore.New(), Routes: core.Routes{
		"POST /pay":      {Recovery: core.Park},
		"PATCH /profile": {Exempt: "moves no money"},
		"PUT /limits":    {Exempt: "moves no money", Roles: []string{"admin"}},
		"GET /ledger":    {Roles: []string{"operator"}},
	}}
	complete := []core.MountedRoute{
		{Method: "POST", Pattern: "/pay", Guards: money},
		{Method: "PATCH", Pattern: "/profile"},
		{Method: "PUT", Pattern: "/limits", Guards: money[:2]},
		{Method: "GET", Pattern: "/ledger", Guards: money},
		{Method: "GET", Pattern: "/healthz", Unproven: "does not matter"},
	}
	with := func(r core.MountedRoute) []core.MountedRoute { // in the place of a route, or behind them
		for i, other := range complete {
			if other.Method == r.Method && other.Pattern == r.Pattern {
				return append(append([]core.MountedRoute{r}, complete[:i]...), complete[i+1:]...)
			}
		}
		return append([]core.MountedRoute{r}, complete...)
	}
	pay := func(guards ...core.Guard) []core.MountedRoute {
		return with(core.MountedRoute{Method: "POST", Pattern: "/pay", Guards: guards})
	}
	free := core.Policy{Exempt: "moves no money"}
	own := core.Config{Store: memstore.New(), Policy: core.Policy{Recovery: core.Park}}

	for name, test := range map[string]struct {
		cfg     core.Config
		mounted []core.MountedRoute
		want    []string // lines of the error, in order
	}{
		"complete": {withTable, complete, nil},
		"no guard": {withTable, pay(), []string{
			"POST /pay: is not behind the JWT guard, roles guard, key guard, interceptor; mount JWTGuard (or Bridge, behind a " +
				"JWT middleware of your own), then Idempotent"}},
		"no JWT guard": {withTable, pay(money[1:]...), []string{
			"POST /pay: is not behind the JWT guard; mount JWTGuard (or Bridge, behind a JWT middleware of your own)"}},
		"JWT guard alone": {withTable, pay(core.GuardJWT), []string{
			"POST /pay: is not behind the roles guard, key guard, interceptor; mount Idempotent"}},
		"guard without interceptor": {withTable, pay(money[:3]...), []string{
			"POST /pay: is not behind the interceptor; mount Interceptor"}},
		"wrong order": {withTable, pay(core.GuardRoles, core.GuardKey, core.GuardInterceptor, core.GuardJWT), []string{
			"POST /pay: has its guards in the wrong order: roles guard, key guard, interceptor, JWT guard; " +
				"want JWT guard, roles guard, key guard, interceptor"}},
		"doubled": {withTable, pay(append(money, money[1:]...)...), []string{
			"POST /pay: has more than one roles guard, key guard, interceptor; mount each once, on the group or on the route"}},
		"undeclared": {withTable, with(core.MountedRoute{Method: "DELETE", Pattern: "/pay", Guards: money}), []string{
			"DELETE /pay: this route is not in the table of routes; declare it with a recovery or as exempt",
			"lines for Config.Routes; replace Exempt by a Recovery, or TODO by the reason why a repeat does no harm:",
			`	"DELETE /pay": {Exempt: "TODO"},`}},
		"on a host": {withTable, with(core.MountedRoute{Host: "a.example", Method: "POST", Pattern: "/pay"}), []string{
			"POST a.example/pay: is not behind"}},
		"declared only": {withTable, complete[1:], []string{"POST /pay: is declared, but the router has no such route"}},
		"unproven": {withTable, with(core.MountedRoute{Method: "POST", Pattern: "/pay", Guards: money, Unproven: "odd"}),
			[]string{"POST /pay: is unproven: odd"}},
		"any method": {own, []core.MountedRoute{{Pattern: "/a", Guards: money}}, []string{
			"CONNECT /a: is registered for any method, and GET, HEAD, OPTIONS, TRACE requests run its handler without a key; " +
				"register it with its method"}},
		"any method but one": {own, []core.MountedRoute{
			{Method: "GET", Pattern: "/a", Handler: 1}, {Method: "HEAD", Pattern: "/a", Handler: 2},
			{Method: "POST", Pattern: "/a", Guards: money, Handler: 2}, {Method: "TRACE", Pattern: "/a", Handler: 2},
		}, []string{"POST /a: is registered for any method, and HEAD, TRACE requests run its handler without a key"}},
		"one code for two methods": {own, []core.MountedRoute{ // a function may make both handlers
			{Method: "GET", Pattern: "/a", Handler: 1}, {Method: "POST", Pattern: "/a", Guards: money, Handler: 1},
			{Method: "TRACE", Pattern: "/b", Handler: 1},
		}, nil},
		"any method, exempt": {core.Config{Store: memstore.New(), Routes: core.Routes{
			"POST /a": free, "PUT /a": free, "PATCH /a": free, "DELETE /a": free, "CONNECT /a": free,
		}}, []core.MountedRoute{{Pattern: "/a"}}, nil},
		"roles on an exempt route": {withTable, with(core.MountedRoute{Method: "PUT", Pattern: "/limits"}), []string{
			"PUT /limits: is not behind the JWT guard, roles guard; mount JWTGuard (or Bridge, behind a JWT middleware of your " +
				"own), then RolesGuard"}},
		"roles on a safe route": {withTable, with(core.MountedRoute{Method: "GET", Pattern: "/ledger", Guards: money[1:]}),
			[]string{"GET /ledger: is not behind the JWT guard"}},
		"everything at once": {withTable, []core.MountedRoute{
			{Method: "POST", Pattern: "/pay", Guards: []core.Guard{core.GuardKey, core.GuardRoles, core.GuardKey}},
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
		"without a table":         {own, []core.MountedRoute{{Method: "POST", Pattern: "/a", Guards: money}}, nil},
		"without a table, open":   {own, []core.MountedRoute{{Method: "POST", Pattern: "/a"}}, []string{"POST /a: is not behind"}},
		"without a table, a read": {own, []core.MountedRoute{{Method: "GET", Pattern: "/a"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			idem, err := core.New(test.cfg)
			require.NoError(t, err)
			err = idem.AuditRoutes(test.mounted)
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
