package echoidem_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/labstack/echo/v5"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/echoidem/v5"
	"github.com/auth19/idem/internal/adaptertest"
)

// CONTRACT D-2, O-4
func TestAudit(t *testing.T) {
	type guards = adaptertest.Guards
	never := func(*echo.Context) error { t.Error("a handler ran"); return nil }
	idle := func(next echo.HandlerFunc) echo.HandlerFunc { return next }
	post := func(r adaptertest.Router, g guards, m ...adaptertest.Middleware) {
		r.Handle(http.MethodPost, "/pay", g.Never, m...)
	}
	adaptertest.Audit(t, adapter{}, map[string]adaptertest.Audited{
		"behind a middleware": {Mount: func(a adaptertest.App, g guards) {
			post(a.Group("/v1", g.JWT, echo.MiddlewareFunc(idle)), g, g.Idempotent)
		}},
		"Idempotent on Echo too": {Mount: func(a adaptertest.App, g guards) {
			a.Use(g.Idempotent)
			post(a.Group("/v1", g.JWT, g.Idempotent), g)
		}, Want: []string{"POST /v1/pay: has its guards in the wrong order", "POST /v1/pay: has more than one"}},
		"before the router": {Mount: func(a adaptertest.App, g guards) {
			a.(app).echo.Pre(chain([]adaptertest.Middleware{g.JWT, g.Idempotent})...)
			post(a.Group("/v1"), g)
		}, Want: []string{
			"POST /v1/pay: is not behind",
		}},
		"hidden in a function": {Mount: func(a adaptertest.App, g guards) {
			hidden := func(next echo.HandlerFunc) echo.HandlerFunc { return g.Idempotent.(echo.MiddlewareFunc)(next) }
			post(a.Group("/v1"), g, g.JWT, echo.MiddlewareFunc(hidden))
		}, Want: []string{"POST /v1/pay: is not behind the roles guard, key guard, interceptor"}},
		"any method": {Mount: func(a adaptertest.App, g guards) {
			a.(app).echo.Group("/v1", chain([]adaptertest.Middleware{g.JWT, g.Idempotent})...).Any("/pay", never)
		}, Want: []string{
			"CONNECT /v1/pay: this route is not",
			"PUT /v1/pay: this route is not",
		}},
		"static files, 404": {Mount: func(a adaptertest.App, g guards) {
			a.(app).echo.Static("/static", ".")
			a.(app).echo.RouteNotFound("/*", never)
			post(a.Group("/v1", g.JWT, g.Idempotent), g)
		}},
	})
}

// Guards of the whole Echo are in front of every route, whenever it is added; the route on another host is named.
func TestAuditOfTheWholeEcho(t *testing.T) {
	idem := adaptertest.NewModule(t, core.Config{Routes: core.Routes{"POST /v1/pay": {Recovery: core.Park}}})
	never := func(*echo.Context) error { t.Error("a handler ran"); return nil }
	idle := func(next echo.HandlerFunc) echo.HandlerFunc { return next }
	e := newApp().echo
	e.POST("/v1/pay", never)
	e.Use(echoidem.JWTGuard(adaptertest.NewVerifier(t)), idle, echoidem.Idempotent(idem))
	require.NoError(t, echoidem.Audit(e, idem))
}

// What Audit did not see being added is unproven, and it says what to do.
func TestAuditUnobserved(t *testing.T) {
	idem := adaptertest.NewModule(t, core.Config{})
	guards := []echo.MiddlewareFunc{echoidem.JWTGuard(adaptertest.NewVerifier(t)), echoidem.Idempotent(idem)}
	never := func(*echo.Context) error { return nil }
	const unproven = "POST /early: is unproven: it was added before echoidem.TrackRoutes; call that before the first route"

	e := echo.New()
	e.POST("/early", never, guards...)
	require.ErrorContains(t, echoidem.Audit(e, idem), unproven)
	echoidem.TrackRoutes(e)
	e.POST("/late", never, guards...)
	err := echoidem.Audit(e, idem)
	require.ErrorContains(t, err, unproven)
	require.NotContains(t, err.Error(), "/late")

	// A hook that takes the place of TrackRoutes's is never called by the audit.
	hooked := 0
	e = echo.New()
	echoidem.TrackRoutes(e)
	e.OnAddRoute = func(echo.Route) error { hooked++; return nil }
	e.POST("/early", never, guards...)
	require.ErrorContains(t, echoidem.Audit(e, idem), unproven)
	require.Equal(t, 1, hooked)

	// One that was there before gets every route, and is not called by the audit either.
	echoidem.TrackRoutes(e)
	echoidem.TrackRoutes(e) // the second does nothing
	e.POST("/late", never, guards...)
	echoidem.TrackRoutes(e) // nor the third
	require.Equal(t, 2, hooked)
	err = echoidem.Audit(e, idem)
	require.ErrorContains(t, err, unproven)
	require.NotContains(t, err.Error(), "/late")
	require.Equal(t, 2, hooked)

	// If it refuses a route, there is none.
	e = echo.New()
	e.OnAddRoute = func(echo.Route) error { return errors.New("no") }
	echoidem.TrackRoutes(e)
	_, err = e.AddRoute(echo.Route{Method: http.MethodPost, Path: "/pay", Handler: never})
	require.EqualError(t, err, "no")
	require.NoError(t, echoidem.Audit(e, idem))
}

// Of virtual hosts, each is audited.
func TestAuditOfHosts(t *testing.T) {
	idem := adaptertest.NewModule(t, core.Config{Routes: core.Routes{"POST /v1/pay": {Recovery: core.Park}}})
	host := func(m ...echo.MiddlewareFunc) *echo.Echo {
		e := newApp().echo
		e.POST("/v1/pay", func(*echo.Context) error { return nil }, m...)
		return e
	}
	require.NoError(t, echoidem.Audit(host(echoidem.JWTGuard(nil), echoidem.Idempotent(idem)), idem))
	require.ErrorContains(t, echoidem.Audit(host(), idem), "POST /v1/pay: is not behind")
}

// A handler of RouteNotFound is no route: the guards let its requests pass, and the audit does not see it. Any is a route of
// each method.
//
// CONTRACT D-2, K-8
func TestAuditOfOwnedGroups(t *testing.T) {
	idem := adaptertest.NewModule(t, core.Config{Owns: []string{"/v1/pay"}, Routes: core.Routes{"POST /v1/pay": {Recovery: core.Park}}})
	never := func(*echo.Context) error { t.Error("a handler ran"); return nil }
	e := echo.New()
	echoidem.TrackRoutes(e)
	e.POST("/v1/pay", never, echoidem.JWTGuard(adaptertest.NewVerifier(t)), echoidem.Idempotent(idem))
	e.RouteNotFound("/v1/*", never)
	e.POST("/cart", never)
	require.NoError(t, echoidem.Audit(e, idem))
	require.Equal(t, []string{`"POST /cart": {Exempt: "TODO"},`}, idem.Undeclared())
	e.Any("/v1/p*", never)
	require.ErrorContains(t, echoidem.Audit(e, idem), "PATCH /v1/p*: this route is not in the table")
}
