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

// Echo makes the chain of a route when it is added. What the app does to its slice afterwards changes neither the route nor
// the audit.
//
// CONTRACT D-2
func TestAuditOfSharedSlices(t *testing.T) {
	idem := adaptertest.NewModule(t, core.Config{})
	jwt, guard := echoidem.JWTGuard(adaptertest.NewVerifier(t)), echoidem.Idempotent(idem)
	never := func(*echo.Context) error { t.Error("a handler ran"); return nil }
	open := func(next echo.HandlerFunc) echo.HandlerFunc { return next }

	e := newApp().echo
	base := append(make([]echo.MiddlewareFunc, 0, 4), jwt)
	e.POST("/v1/open", never, append(base, open)...)
	e.POST("/v1/pay", never, append(base, guard)...) // over the same array
	one := []echo.MiddlewareFunc{open, open}
	e.POST("/v1/cart", never, one...)
	one[0], one[1] = jwt, guard
	e.POST("/v1/refund", never, one...) // one slice for two routes
	err := echoidem.Audit(e, idem)
	require.ErrorContains(t, err, "POST /v1/open: is not behind the roles guard, key guard, interceptor")
	require.ErrorContains(t, err, "POST /v1/cart: is not behind the JWT guard, roles guard, key guard, interceptor")
	require.NotContains(t, err.Error(), "/pay")
	require.NotContains(t, err.Error(), "/refund")
	one[0] = open
	require.EqualError(t, echoidem.Audit(e, idem), err.Error())
}

// What the router did not take, and what the app has put into a route's place past Echo, is not what the audit proves.
//
// CONTRACT D-2
func TestAuditOfReplacedRoutes(t *testing.T) {
	idem := adaptertest.NewModule(t, core.Config{})
	jwt, guard := echoidem.JWTGuard(adaptertest.NewVerifier(t)), echoidem.Idempotent(idem)
	never := func(*echo.Context) error { t.Error("a handler ran"); return nil }
	other := func(*echo.Context) error { return nil }
	logger := func(next echo.HandlerFunc) echo.HandlerFunc { return func(c *echo.Context) error { return next(c) } }
	route := func(h echo.HandlerFunc, m ...echo.MiddlewareFunc) echo.Route {
		return echo.Route{Method: http.MethodPost, Path: "/v1/pay", Handler: h, Middlewares: m}
	}
	past := func(r echo.Route) func(t *testing.T, e *echo.Echo) {
		return func(t *testing.T, e *echo.Echo) {
			_, err := e.Router().Add(r)
			require.NoError(t, err)
		}
	}
	nothing := func(*testing.T, *echo.Echo) {}
	removed := func(t *testing.T, e *echo.Echo) { require.NoError(t, e.Router().Remove(http.MethodPost, "/v1/pay")) }
	const replaced = "POST /v1/pay: is unproven: the router has something else in its place"
	for name, test := range map[string]struct {
		router echo.RouterConfig
		added  echo.Route
		do     func(t *testing.T, e *echo.Echo)
		want   string
	}{
		"guards":                 {echo.RouterConfig{}, route(never, jwt, guard), nothing, ""},
		"guards behind a logger": {echo.RouterConfig{}, route(never, logger, jwt, guard), nothing, ""},
		"refused by the router": {echo.RouterConfig{}, route(never), func(t *testing.T, e *echo.Echo) {
			_, err := e.AddRoute(route(never, jwt, guard))
			require.Error(t, err)
		}, "POST /v1/pay: is not behind"},
		"refused, behind a logger": {echo.RouterConfig{}, route(never, logger), func(t *testing.T, e *echo.Echo) {
			_, err := e.AddRoute(route(other, logger, jwt, guard))
			require.Error(t, err)
		}, "POST /v1/pay: is not behind"},
		"guarded, and refused open": {echo.RouterConfig{}, route(never, jwt, guard), func(t *testing.T, e *echo.Echo) {
			_, err := e.AddRoute(route(never))
			require.Error(t, err)
		}, ""},
		"overwritten by Echo": {echo.RouterConfig{AllowOverwritingRoute: true}, route(never), func(t *testing.T, e *echo.Echo) {
			_, err := e.AddRoute(route(never, logger, jwt, guard))
			require.NoError(t, err)
		}, ""},
		"past Echo":                  {echo.RouterConfig{AllowOverwritingRoute: true}, route(never, jwt, guard), past(route(never)), replaced},
		"past Echo, another handler": {echo.RouterConfig{AllowOverwritingRoute: true}, route(never, jwt, guard), past(route(other)), replaced},
		"past Echo, a logger":        {echo.RouterConfig{AllowOverwritingRoute: true}, route(never, jwt, guard), past(route(never, logger)), replaced},
		"past Echo, the wrong guard": {echo.RouterConfig{AllowOverwritingRoute: true}, route(never, jwt, guard), past(route(never, guard)), replaced},
		"past Echo, for a logger":    {echo.RouterConfig{AllowOverwritingRoute: true}, route(never, logger, jwt, guard), past(route(never)), replaced},
		"removed":                    {echo.RouterConfig{}, route(never, jwt, guard), removed, ""},
		"removed, and added past Echo": {echo.RouterConfig{}, route(never, jwt, guard), func(t *testing.T, e *echo.Echo) {
			removed(t, e)
			past(route(never))(t, e)
		}, replaced},
		"removed, and added by Echo": {echo.RouterConfig{}, route(never), func(t *testing.T, e *echo.Echo) {
			removed(t, e)
			_, err := e.AddRoute(route(never, jwt, guard))
			require.NoError(t, err)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, later := range []bool{false, true} { // another route is added behind it, or not
				e := echo.NewWithConfig(echo.Config{Router: echo.NewRouter(test.router)})
				echoidem.TrackRoutes(e)
				_, err := e.AddRoute(test.added)
				require.NoError(t, err)
				if later {
					e.PUT("/later", other, jwt, guard)
				}
				test.do(t, e)
				if err := echoidem.Audit(e, idem); test.want != "" {
					require.ErrorContains(t, err, test.want)
				} else {
					require.NoError(t, err)
				}
			}
		})
	}
	e := newApp().echo
	for _, path := range []string{"/v1/orders/:id/pay", "/v1/p*", `/v1/pay\:now`, ""} {
		e.POST(path, never, jwt, guard)
	}
	require.NoError(t, echoidem.Audit(e, idem), "every way to spell a route is found again")
}
