package adaptertest

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
)

// Audited is an app whose audit is looked at. The app has every route of the table but POST /v1/pay, guarded as the
// table wants it; Mount adds that one.
type Audited struct {
	Mount   func(app App, g Guards)
	Want    []string // what the audit's error says, among others; nil: there is no error
	WantNot string   // what it does not say; "" asks for nothing
}

// Guards are what [Audited.Mount] mounts. None of them may run.
type Guards struct {
	JWT, Bridge, Roles, Key, Interceptor, Idempotent, Other Middleware
	Never                                                   Handler
}

// CONTRACT D-2, O-4
func auditOfGuards(t *testing.T, a Adapter) {
	post := func(r Router, g Guards, m ...Middleware) { r.Handle(http.MethodPost, "/pay", g.Never, m...) }
	pay := param(a, "pay")
	apps := map[string]Audited{
		"Idempotent on the app too": {Mount: func(app App, g Guards) {
			app.Use(g.Idempotent)
			post(app.Group("/v1", g.JWT, g.Idempotent), g)
		}, Want: []string{"POST /v1/pay: has its guards in the wrong order", "POST /v1/pay: has more than one"}},
		"beside what is no route": {Mount: func(app App, g Guards) {
			v1 := app.Group("/v1", g.JWT, g.Idempotent)
			post(v1, g)
			if a.Furnish != nil {
				a.Furnish(v1)
			}
		}},
		"any method": {Mount: func(app App, g Guards) {
			app.Group("/v1", g.JWT, g.Idempotent).Handle("", "/pay", g.Never)
		}, Want: []string{
			"CONNECT /v1/pay: this route is not", "DELETE /v1/pay: this route is not", "PUT /v1/pay: this route is not",
			"POST /v1/pay: is registered for any method",
		}, WantNot: "POST /v1/pay: is not"},
		"used after the route": {Mount: func(app App, g Guards) {
			group := app.Group("/v1")
			post(group, g)
			group.Use(g.JWT, g.Idempotent)
		}, Want: []string{"POST /v1/pay: is not behind"}},
		"undeclared": {Mount: func(app App, g Guards) {
			group := app.Group("/v1", g.JWT, g.Idempotent)
			post(group, g)
			group.Handle(http.MethodPost, "/else", g.Never)
		}, Want: []string{"POST /v1/else: this route is not in the table"}},
		"declared only": {Mount: func(App, Guards) {}, Want: []string{
			"POST /v1/pay: is declared, but the router has no such route",
		}},
		"another parameter": {Mount: func(app App, g Guards) {
			app.Group("/v1", g.JWT, g.Idempotent).Handle(http.MethodPost, "/"+pay, g.Never)
		}, Want: []string{"POST /v1/" + pay + ": this route is not", "POST /v1/pay: is declared, but"}},
		"several at once": {Mount: func(app App, g Guards) {
			post(app.Group("/v1"), g)
			app.Handle(http.MethodDelete, "/v1/pay", g.Never)
		}, Want: []string{"POST /v1/pay: is not behind", "DELETE /v1/pay: this route is not"}},
	}
	if a.InFront != nil {
		apps["in front of the router"] = Audited{Mount: func(app App, g Guards) {
			a.InFront(app, g.JWT, g.Idempotent)
			post(app.Group("/v1"), g)
		}, Want: []string{"POST /v1/pay: is not behind"}}
	}
	// The middleware of a group, of a group in it, and of the route.
	for chain, want := range map[string]string{
		"JWT Idempotent | |":                  "",
		"| | Bridge Roles Key Interceptor":    "",
		"Bridge Roles | | Key Interceptor":    "",
		"JWT Other | Roles Key | Interceptor": "",
		"| |":                                 "is not behind the JWT guard, roles guard, key guard, interceptor",
		"| | Idempotent":                      "is not behind the JWT guard",
		"JWT | | Other":                       "is not behind the roles guard, key guard, interceptor",
		"| | JWT Roles Key":                   "is not behind the interceptor",
		"| | JWT Key Interceptor":             "is not behind the roles guard",
		"JWT Key Interceptor | | Roles":       "has its guards in the wrong order",
		"Idempotent | | JWT":                  "has its guards in the wrong order",
		"JWT Idempotent | | Idempotent":       "has more than one roles guard, key guard, interceptor",
	} {
		audited := Audited{Mount: func(app App, g Guards) {
			var chains [3][]Middleware
			for i, part := range strings.Split(chain, "|") {
				for name := range strings.FieldsSeq(part) {
					chains[i] = append(chains[i], reflect.ValueOf(g).FieldByName(name).Interface())
				}
			}
			post(app.Group("/v1", chains[0]...).Group("", chains[1]...), g, chains[2]...)
		}}
		if want != "" {
			audited.Want = []string{"POST /v1/pay: " + want}
		}
		apps[chain] = audited
	}
	Audit(t, a, apps)
}

// Audit audits each of the apps, as a subtest.
//
// CONTRACT D-2, O-4
func Audit(t *testing.T, a Adapter, apps map[string]Audited) {
	t.Helper()
	order := "/v1/orders/" + param(a, "id")
	idem := NewModule(t, core.Config{Routes: core.Routes{
		"POST /v1/pay":               {Recovery: core.Park, Roles: []string{"customer"}},
		"POST " + order + "/refunds": {Recovery: core.Park},
		"PATCH /v1/profile":          {Exempt: "moves no money"},
		"GET /v1/ledger":             {Roles: []string{"operator"}},
	}})
	// Nothing of an app runs in an audit.
	g := Guards{
		JWT: a.JWTGuard(NewVerifier(t)),
		Bridge: a.Bridge(func(Context) (authctx.Principal, error) {
			t.Error("a bridge ran")
			return authctx.Principal{}, nil
		}),
		Roles: a.RolesGuard(idem), Key: a.KeyGuard(idem), Interceptor: a.Interceptor(idem), Idempotent: a.Idempotent(idem),
		Other: a.Middleware(func(Context, func() error) error { t.Error("a middleware ran"); return nil }),
		Never: Never(t, a),
	}
	for name, test := range apps {
		t.Run(name, func(t *testing.T) {
			app := a.New()
			app.Handle(http.MethodGet, "/healthz", g.Never)
			app.Handle(http.MethodGet, "/v1/ledger", g.Never, g.JWT, g.Other, g.Idempotent)
			app.Handle(http.MethodPatch, "/v1/profile", g.Never)
			app.Group(order, g.JWT).Group("", g.Roles, g.Other).
				Handle(http.MethodPost, "/refunds", g.Never, g.Other, g.Key, g.Interceptor)
			test.Mount(app, g)
			err := app.Audit(idem)
			if test.Want == nil {
				require.NoError(t, err)
				return
			}
			for _, want := range test.Want {
				require.ErrorContains(t, err, want)
			}
			require.NotContains(t, err.Error(), "unproven")
			if test.WantNot != "" {
				require.NotContains(t, err.Error(), test.WantNot)
			}
		})
	}
}

// Without a table, the module's own policy holds for every unsafe route.
func auditOfOwnPolicy(t *testing.T, a Adapter) {
	idem, app, never := NewModule(t, core.Config{}), a.New(), Never(t, a)
	app.Group("/v1", a.JWTGuard(NewVerifier(t)), a.Idempotent(idem)).Handle(http.MethodPost, "/pay", never)
	app.Handle(http.MethodGet, "/open", never)
	require.NoError(t, app.Audit(idem))
	app.Handle(http.MethodPost, "/open", never)
	require.ErrorContains(t, app.Audit(idem),
		"POST /open: is not behind the JWT guard, roles guard, key guard, interceptor")
}

// A registration for any method lets safe methods pass the guards without a key, and into the handler.
//
// CONTRACT D-2, K-8
func auditOfAnyMethod(t *testing.T, a Adapter) {
	for name, cfg := range map[string]core.Config{
		"without a table": {},
		"with a table":    {Routes: core.Routes{"POST /v1/pay": {Recovery: core.Park}}},
	} {
		t.Run(name, func(t *testing.T) {
			idem, app := NewModule(t, cfg), a.New()
			v1 := app.Group("/v1", a.JWTGuard(NewVerifier(t)), a.Idempotent(idem))
			v1.Handle("", "/pay", Never(t, a))
			err := app.Audit(idem)
			require.ErrorContains(t, err, " /v1/pay: is registered for any method, and GET, HEAD, OPTIONS, TRACE requests run its "+
				"handler without a key; register it with its method")
		})
	}
	idem, app := NewModule(t, core.Config{}), a.New()
	app.Handle("", "/open", Never(t, a))
	exempt := app.Audit(NewModule(t, core.Config{Routes: core.Routes{}})).Error()
	require.NotContains(t, exempt, "any method", "no money moves there")
	v1 := app.Group("/v1", a.JWTGuard(NewVerifier(t)), a.Idempotent(idem))
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		v1.Handle(method, "/pay", Never(t, a)) // other handlers of one code
	}
	require.NotContains(t, app.Audit(idem).Error(), "/v1/pay")
}

// A handler under a safe and a guarded method of one pattern runs without a key. Who means it has said why. A handler is
// told by its closure: two closures of one constructor are two handlers.
//
// CONTRACT D-2, K-8
func auditOfOneHandler(t *testing.T, a Adapter) {
	unsafe := []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodConnect}
	safe := []string{http.MethodGet, http.MethodHead, http.MethodOptions}
	const get, options, post, trace = http.MethodGet, http.MethodOptions, http.MethodPost, http.MethodTrace
	for name, test := range map[string]struct {
		methods []string
		exempt  string
		want    string // "": no error
	}{
		"POST alone":   {[]string{post}, "", ""},
		"GET and POST": {[]string{get, post}, "", "POST /v1/pay: GET requests run its handler without a key"},
		"every method": {slices.Concat(unsafe, safe, []string{trace}), "",
			" /v1/pay: is registered for any method, and GET, HEAD, OPTIONS, TRACE requests run its handler without a key"},
		"every method but one": {slices.Concat(unsafe, safe), "",
			" /v1/pay: GET, HEAD, OPTIONS requests run its handler without a key"},
		"a safe one is exempt":  {[]string{get, post}, get, ""},
		"another one is exempt": {[]string{get, options, post}, get, "POST /v1/pay: OPTIONS requests run its handler"},
	} {
		t.Run(name, func(t *testing.T) {
			routes := core.Routes{}
			for _, method := range unsafe {
				if slices.Contains(test.methods, method) {
					routes[method+" /v1/pay"] = core.Policy{Recovery: core.Park}
				}
			}
			if test.exempt != "" {
				routes[test.exempt+" /v1/pay"] = core.Policy{Exempt: "shows the form, and moves no money"}
			}
			idem, app, never := NewModule(t, core.Config{Routes: routes}), a.New(), Never(t, a)
			v1 := app.Group("/v1", a.JWTGuard(NewVerifier(t)), a.Idempotent(idem))
			for _, method := range test.methods {
				v1.Handle(method, "/pay", never)
			}
			v1.Handle(http.MethodGet, "/payments", never) // of another pattern
			if err := app.Audit(idem); test.want != "" {
				require.ErrorContains(t, err, test.want)
			} else {
				require.NoError(t, err)
			}
		})
	}
}

// What stands in front of the guards may be a rate limiter (O-1), or a handler that runs without them. It is in the table of
// the audit, as are the routes that are not guarded yet.
//
// CONTRACT D-2, O-1, O-4
func tableOfTheAudit(t *testing.T, a Adapter) {
	var unguarded []string
	idem := NewModule(t, core.Config{Routes: core.Routes{
		"POST /v1/pay":    {Recovery: core.Park},
		"POST /v1/refund": {Recovery: core.Park},
		"POST /v1/cart":   {Exempt: "moves no money"},
		"POST /v1/payout": {Unguarded: "goes in with release 12"},
		"GET /v1/ledger":  {Roles: []string{"operator"}},
	}, Observer: core.ObserverFunc(func(_ context.Context, e core.Event) {
		if e.Kind == core.EventUnguarded {
			unguarded = append(unguarded, e.Method+" "+e.Route)
		}
	})})
	require.Empty(t, idem.Table())
	other, behind := a.Middleware(func(Context, func() error) error { return nil }), a.Recover()
	jwt, guard, never := a.JWTGuard(NewVerifier(t)), a.Idempotent(idem), Never(t, a)
	app := a.New()
	app.Handle(http.MethodPost, "/v1/pay", never, other, jwt, other, guard, behind)
	app.Handle(http.MethodPost, "/v1/refund", Never(t, a), jwt, guard, behind)
	app.Handle(http.MethodPost, "/v1/cart", Never(t, a))
	app.Handle(http.MethodPost, "/v1/payout", Never(t, a))
	app.Handle(http.MethodGet, "/v1/ledger", Never(t, a), jwt, guard)
	app.Handle(http.MethodGet, "/v1/pay", Never(t, a))
	require.NoError(t, app.Audit(idem))
	table := idem.Table()
	require.Equal(t, []string{"POST /v1/cart: exempt: moves no money", "GET /v1/ledger: roles only"}, table[:2])
	in := strings.Split(strings.TrimPrefix(table[2], "POST /v1/pay: Park; in front of its guards: "), ", ")
	require.Len(t, in, 2, table[2])
	require.Equal(t, in[0], in[1])
	require.Regexp(t, `^\w+\..*func`, in[0]) // its code, without the path of its package
	require.Equal(t, []string{"POST /v1/payout: not guarded yet: goes in with release 12", "POST /v1/refund: Park"}, table[3:])
	require.Equal(t, []string{"POST /v1/payout"}, unguarded)
}
