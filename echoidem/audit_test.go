package echoidem_test

import (
	"net/http"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/echoidem"
	"github.com/auth19/idem/internal/adaptertest"
)

// CONTRACT D-2, O-4
func TestAudit(t *testing.T) {
	type guards = adaptertest.Guards
	never := func(echo.Context) error { t.Error("a handler ran"); return nil }
	post := func(r adaptertest.Router, g guards, m ...adaptertest.Middleware) {
		r.Handle(http.MethodPost, "/pay", g.Never, m...)
	}
	adaptertest.Audit(t, version.Adapter, map[string]adaptertest.Audited{
		"behind a middleware": {Mount: func(a adaptertest.App, g guards) { post(a.Group("/v1", g.JWT, version.Idle), g, g.Idempotent) }},
		"before the router": {Mount: func(a adaptertest.App, g guards) {
			a.(app).echo.Pre(chain([]adaptertest.Middleware{g.JWT, g.Idempotent})...)
			post(a.Group("/v1"), g)
		}, Want: []string{"POST /v1/pay: is not behind"}},
		"added twice": {Mount: func(a adaptertest.App, g guards) { // the last one counts
			post(a.Group("/v1"), g, g.JWT, g.Idempotent)
			post(a.Group("/v1"), g)
		}, Want: []string{"POST /v1/pay: is not behind"}},
		"on a host": {Mount: func(a adaptertest.App, g guards) {
			e, guards := a.(app).echo, chain([]adaptertest.Middleware{g.JWT, g.Idempotent})
			post(a.Group("/v1", g.JWT, g.Idempotent), g)
			e.Host("a.example", guards...).POST("/v1/pay", never)
			e.Host("b.example").POST("/v1/pay", never)
		}, Want: []string{"POST b.example/v1/pay: is not behind"}, WantNot: "a.example"},
	})
}

// What Audit did not see being added is unproven, and it says what to do.
func TestAuditUnobserved(t *testing.T) {
	idem := adaptertest.NewModule(t, core.Config{})
	guards := []echo.MiddlewareFunc{echoidem.JWTGuard(adaptertest.NewVerifier(t)), echoidem.Idempotent(idem)}
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

	// A hook that replaces the hook of TrackRoutes is never called by the audit.
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

// Echo reads the slice of a route's middleware again at each request. If the app has changed it, the route is unproven.
//
// CONTRACT D-2
func TestAuditOfSharedSlices(t *testing.T) {
	idem := adaptertest.NewModule(t, core.Config{})
	jwt, guard := echoidem.JWTGuard(adaptertest.NewVerifier(t)), echoidem.Idempotent(idem)
	never := func(echo.Context) error { t.Error("a handler ran"); return nil }
	open := func(next echo.HandlerFunc) echo.HandlerFunc { return next }
	const changed = ": is unproven: its slice of middleware was changed after it was added"

	e := newApp().echo
	base := append(make([]echo.MiddlewareFunc, 0, 4), jwt)
	e.POST("/v1/open", never, append(base, open)...)
	e.POST("/v1/pay", never, append(base, guard)...) // over the same array
	err := echoidem.Audit(e, idem)
	require.ErrorContains(t, err, "POST /v1/open"+changed)
	require.NotContains(t, err.Error(), "/pay")

	e = newApp().echo
	one := []echo.MiddlewareFunc{jwt, guard}
	e.POST("/v1/pay", never, one...)
	e.POST("/v1/refund", never, one...)
	e.Group("/v2", one...).POST("/pay", never)
	require.NoError(t, echoidem.Audit(e, idem), "one slice for two routes, and nobody changes it")
	one[1] = open
	err = echoidem.Audit(e, idem)
	require.ErrorContains(t, err, "POST /v1/pay"+changed)
	require.ErrorContains(t, err, "POST /v1/refund"+changed)
	require.NotContains(t, err.Error(), "/v2", "Echo's groups copy")
}

// What the app does by Router.Add, past Echo, makes a route unproven, if the router then runs something else.
//
// CONTRACT D-2
func TestAuditOfReplacedRoutes(t *testing.T) {
	idem := adaptertest.NewModule(t, core.Config{})
	jwt, guard := echoidem.JWTGuard(adaptertest.NewVerifier(t)), echoidem.Idempotent(idem)
	never := func(echo.Context) error { t.Error("a handler ran"); return nil }
	other := func(echo.Context) error { return nil }
	for name, test := range map[string]struct {
		path string
		do   func(e *echo.Echo)
		want bool
	}{
		"nothing":           {"/v1/pay", func(*echo.Echo) {}, false},
		"a parameter":       {"/v1/orders/:id/pay", func(*echo.Echo) {}, false},
		"a wildcard":        {"/v1/p*", func(*echo.Echo) {}, false},
		"an escaped colon":  {`/v1/pay\:now`, func(*echo.Echo) {}, false},
		"another route":     {"/v1/pay", func(e *echo.Echo) { e.Router().Add(http.MethodPost, "/v1/else", never) }, false},
		"its handler":       {"/v1/pay", func(e *echo.Echo) { e.Router().Add(http.MethodPost, "/v1/pay", never) }, true},
		"another handler":   {"/v1/pay", func(e *echo.Echo) { e.Router().Add(http.MethodPost, "/v1/pay", other) }, true},
		"another parameter": {"/v1/:id", func(e *echo.Echo) { e.Router().Add(http.MethodPost, "/v1/:name", never) }, true},
		"without a handler": {"/v1/pay", func(e *echo.Echo) { e.Router().Add(http.MethodPost, "/v1/pay", nil) }, false}, // is ignored
		"replaced, and added by Echo": {"/v1/pay", func(e *echo.Echo) {
			e.Router().Add(http.MethodPost, "/v1/pay", never)
			e.POST("/v1/pay", never, jwt, guard)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := newApp().echo
			e.POST(test.path, never, jwt, guard)
			e.PUT("/later", other, jwt, guard)
			test.do(e)
			if err := echoidem.Audit(e, idem); test.want {
				require.ErrorContains(t, err, "POST "+test.path+": is unproven: the router has something else in its place")
			} else {
				require.NoError(t, err)
			}
		})
	}
}
