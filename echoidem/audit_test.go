package echoidem_test

import (
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/echoidem"
)

// CONTRACT D-2, O-4
func TestAudit(t *testing.T) {
	verifier := newVerifier(t)
	idem := newModule(t, core.Config{Routes: core.Routes{
		"POST /v1/pay":                {Recovery: core.Park, Roles: []string{"customer"}},
		"POST /v1/orders/:id/refunds": {Recovery: core.Park},
		"PATCH /v1/profile":           {Exempt: "moves no money"},
		"GET /v1/ledger":              {Roles: []string{"operator"}},
	}})
	// Nothing of an app runs in an audit.
	never := func(echo.Context) error { t.Error("a handler ran"); return nil }
	idle := func(next echo.HandlerFunc) echo.HandlerFunc { t.Error("a middleware ran"); return next }
	jwtGuard, bridge := echoidem.JWTGuard(verifier), echoidem.Bridge(func(echo.Context) (authctx.Principal, error) {
		t.Error("a bridge ran")
		return authctx.Principal{}, nil
	})
	roles, key, interceptor := echoidem.RolesGuard(idem), echoidem.KeyGuard(idem), echoidem.Interceptor(idem)
	money := echoidem.Idempotent(idem)

	// The rest of the app, with POST /v1/pay left to the test.
	rest := func(e *echo.Echo) {
		e.GET("/healthz", never)
		e.RouteNotFound("/*", never)
		e.GET("/v1/ledger", never, jwtGuard, idle, money)
		e.PATCH("/v1/profile", never)
		e.Group("/v1/orders/:id", jwtGuard).Group("", roles, idle).POST("/refunds", never, key, interceptor)
	}
	none := func(e *echo.Echo) {
		e.GET("/v1/ledger", never)
		e.PATCH("/v1/profile", never)
		e.POST("/v1/orders/:id/refunds", never)
	}
	for name, test := range map[string]struct {
		rest, mount func(e *echo.Echo)
		want        []string
	}{
		"on a group": {rest, func(e *echo.Echo) { e.Group("/v1", jwtGuard, money).POST("/pay", never) }, nil},
		"on the whole Echo": {none, func(e *echo.Echo) {
			e.POST("/v1/pay", never)
			e.Use(jwtGuard, idle, money)
		}, nil},
		"on the route": {rest, func(e *echo.Echo) { e.POST("/v1/pay", never, bridge, roles, key, interceptor) }, nil},
		"on group and route": {rest, func(e *echo.Echo) {
			e.Group("/v1", bridge, roles).POST("/pay", never, key, interceptor)
		}, nil},
		"without guard": {rest, func(e *echo.Echo) { e.POST("/v1/pay", never) }, []string{
			"POST /v1/pay: is not behind the JWT guard, roles guard, key guard, interceptor",
		}},
		"without JWT guard": {rest, func(e *echo.Echo) { e.POST("/v1/pay", never, money) }, []string{
			"POST /v1/pay: is not behind the JWT guard",
		}},
		"without interceptor": {rest, func(e *echo.Echo) {
			e.POST("/v1/pay", never, jwtGuard, roles, key)
		}, []string{
			"POST /v1/pay: is not behind the interceptor",
		}},
		"without roles guard": {rest, func(e *echo.Echo) {
			e.POST("/v1/pay", never, jwtGuard, key, interceptor)
		}, []string{
			"POST /v1/pay: is not behind the roles guard",
		}},
		"roles guard on route": {rest, func(e *echo.Echo) {
			e.Group("/v1", jwtGuard, key, interceptor).POST("/pay", never, roles)
		}, []string{
			"POST /v1/pay: has its guards in the wrong order",
		}},
		"JWT guard last": {rest, func(e *echo.Echo) {
			e.Group("/v1", money).POST("/pay", never, jwtGuard)
		}, []string{
			"POST /v1/pay: has its guards in the wrong order",
		}},
		"money twice": {rest, func(e *echo.Echo) {
			e.Group("/v1", jwtGuard, money).POST("/pay", never, money)
		}, []string{
			"POST /v1/pay: has more than one roles guard, key guard, interceptor",
		}},
		"money on Echo too": {rest, func(e *echo.Echo) {
			e.Use(money)
			e.Group("/v1", jwtGuard, money).POST("/pay", never)
		}, []string{"POST /v1/pay: has its guards in the wrong order", "POST /v1/pay: has more than one"}},
		"used after the route": {rest, func(e *echo.Echo) {
			g := e.Group("/v1")
			g.POST("/pay", never)
			g.Use(jwtGuard, money)
		}, []string{
			"POST /v1/pay: is not behind",
		}},
		"before the router": {rest, func(e *echo.Echo) {
			e.Pre(jwtGuard, money)
			e.POST("/v1/pay", never)
		}, []string{
			"POST /v1/pay: is not behind",
		}},
		"hidden in a function": {rest, func(e *echo.Echo) {
			e.POST("/v1/pay", never, jwtGuard, func(next echo.HandlerFunc) echo.HandlerFunc { return money(next) })
		}, []string{"POST /v1/pay: is not behind the roles guard, key guard, interceptor"}},
		"undeclared": {rest, func(e *echo.Echo) {
			g := e.Group("/v1", jwtGuard, money)
			g.POST("/pay", never)
			g.POST("/else", never)
		}, []string{"POST /v1/else: this route is not in the table"}},
		"any method": {rest, func(e *echo.Echo) {
			e.Group("/v1", jwtGuard, money).Any("/pay", never)
		}, []string{
			"CONNECT /v1/pay: this route is not",
			"PROPFIND /v1/pay: this route is not",
			"PUT /v1/pay: this route is not",
		}},
		"declared only": {rest, func(*echo.Echo) {}, []string{
			"POST /v1/pay: is declared, but the router has no such route",
		}},
		"another parameter": {rest, func(e *echo.Echo) {
			e.Group("/v1", jwtGuard, money).POST("/:pay", never)
		}, []string{
			"POST /v1/:pay: this route is not",
			"POST /v1/pay: is declared, but",
		}},
		"several at once": {rest, func(e *echo.Echo) {
			e.POST("/v1/pay", never)
			e.DELETE("/v1/pay", never)
		}, []string{
			"POST /v1/pay: is not behind",
			"DELETE /v1/pay: this route is not",
		}},
		"added twice": {rest, func(e *echo.Echo) { // the last one counts
			e.POST("/v1/pay", never, jwtGuard, money)
			e.POST("/v1/pay", never)
		}, []string{"POST /v1/pay: is not behind"}},
		"on a host": {rest, func(e *echo.Echo) {
			e.Group("/v1", jwtGuard, money).POST("/pay", never)
			e.Host("a.example", jwtGuard, money).POST("/v1/pay", never)
			e.Host("b.example").POST("/v1/pay", never)
		}, []string{"POST b.example/v1/pay: is not behind"}},
		"static files": {rest, func(e *echo.Echo) {
			e.Static("/static", ".")
			e.Group("/v1", jwtGuard, money).POST("/pay", never)
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			e := echo.New()
			echoidem.TrackRoutes(e)
			test.rest(e)
			test.mount(e)
			err := echoidem.Audit(e, idem)
			if test.want == nil {
				require.NoError(t, err)
			}
			for _, want := range test.want {
				require.ErrorContains(t, err, want)
			}
			if test.want != nil {
				require.NotContains(t, err.Error(), "a.example")
				require.NotContains(t, err.Error(), "unproven")
			}
		})
	}
}

// What Audit did not see being added is unproven, and it says what to do.
func TestAuditUnobserved(t *testing.T) {
	idem := newModule(t, core.Config{})
	guards := []echo.MiddlewareFunc{echoidem.JWTGuard(newVerifier(t)), echoidem.Idempotent(idem)}
	never := func(echo.Context) error { return nil }
	const unproven = "POST /early: is unproven: it was added before echoidem.TrackRoutes; call that before the first route"

	e := echo.New()
	e.POST("/early", never, guards...)
	require.ErrorContains(t, echoidem.Audit(e, idem), unproven)
	echoidem.TrackRoutes(e)
	e.POST("/late", never, guards...)
	err := echoidem.Audit(e, idem)
	require.ErrorContains(t, err, unproven)
	require.NotContains(t, err.Error(), "/late")
	e.POST("/early", never, guards...)
	require.NoError(t, echoidem.Audit(e, idem))

	// A hook that takes the place of Observe's is never called by the audit.
	hooked := 0
	e.OnAddRouteHandler = func(string, echo.Route, echo.HandlerFunc, []echo.MiddlewareFunc) { hooked++ }
	require.ErrorContains(t, echoidem.Audit(e, idem), unproven)
	require.Zero(t, hooked)

	// One that was there before gets every route, and is not called by the audit either.
	echoidem.TrackRoutes(e)
	echoidem.TrackRoutes(e) // the second does nothing
	e.POST("/early", never, guards...)
	e.POST("/late", never, guards...)
	echoidem.TrackRoutes(e) // nor the third
	require.Equal(t, 2, hooked)
	require.NoError(t, echoidem.Audit(e, idem))
	require.Equal(t, 2, hooked)
}

// Without a table, the module's own policy holds for every unsafe route.
func TestAuditOwnPolicy(t *testing.T) {
	idem := newModule(t, core.Config{})
	e := echo.New()
	echoidem.TrackRoutes(e)
	nothing := func(echo.Context) error { return nil }
	e.Group("/v1", echoidem.JWTGuard(newVerifier(t)), echoidem.Idempotent(idem)).POST("/pay", nothing)
	e.GET("/open", nothing)
	require.NoError(t, echoidem.Audit(e, idem))
	e.POST("/open", nothing)
	require.ErrorContains(t, echoidem.Audit(e, idem),
		"POST /open: is not behind the JWT guard, roles guard, key guard, interceptor")
}
