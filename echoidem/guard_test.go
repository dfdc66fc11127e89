package echoidem_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/echoidem"
	"github.com/auth19/idem/internal/adaptertest"
)

// Safe methods, unknown paths and wrong methods get what the router would give them without guards, wherever the guards
// are mounted.
//
// CONTRACT K-8
func TestPassThrough(t *testing.T) {
	idle := func(next echo.HandlerFunc) echo.HandlerFunc { return next }
	read := func(c echo.Context) error {
		_, captured := c.Response().Writer.(*core.Capture)
		assert.False(t, captured)
		return c.String(http.StatusOK, c.Path())
	}
	pay := func(c echo.Context) error { return c.String(http.StatusCreated, c.Path()+" "+c.Param("id")) }
	routes := func(v1 *echo.Group, guards ...echo.MiddlewareFunc) {
		v1.GET("/pay", read, guards...)
		v1.HEAD("/pay", read, guards...)
		v1.POST("/pay", pay, guards...)
		v1.POST("/orders/:id", pay, guards...)
		v1.PUT("/files/*", pay, guards...)
		v1.Any("/any", pay, guards...)
		v1.Static("/static", ".")
	}
	mounts := map[string]func(e *echo.Echo, guards ...echo.MiddlewareFunc){
		"on Echo": func(e *echo.Echo, guards ...echo.MiddlewareFunc) {
			e.Use(guards...)
			routes(e.Group("/v1"))
		},
		"on the group": func(e *echo.Echo, guards ...echo.MiddlewareFunc) { routes(e.Group("/v1", guards...)) },
		"used by the group, later": func(e *echo.Echo, guards ...echo.MiddlewareFunc) {
			v1 := e.Group("/v1", idle)
			v1.Use(guards...)
			routes(v1)
		},
		"on the routes": func(e *echo.Echo, guards ...echo.MiddlewareFunc) { routes(e.Group("/v1", idle), guards...) },
		"on the root group": func(e *echo.Echo, guards ...echo.MiddlewareFunc) {
			routes(e.Group("", guards...).Group("/v1"))
		},
		"with a 404 of its own": func(e *echo.Echo, guards ...echo.MiddlewareFunc) {
			v1 := e.Group("/v1", guards...)
			routes(v1)
			v1.RouteNotFound("/*", func(c echo.Context) error { return c.String(http.StatusNotFound, "not here") })
			v1.RouteNotFound("/orders/:any", func(c echo.Context) error { return c.String(http.StatusNotFound, "nor here") })
		},
	}
	money := core.Policy{Recovery: core.Park}
	table := core.Routes{"POST /v1/pay": money, "POST /v1/orders/:id": money, "PUT /v1/files/*": money}
	for _, method := range []string{"CONNECT", "DELETE", "PATCH", "POST", "PROPFIND", "PUT", "REPORT"} {
		table[method+" /v1/any"] = money
	}
	for where, mount := range mounts {
		for name, cfg := range map[string]core.Config{"own policy": {}, "table": {Routes: table}} {
			t.Run(where+", "+name, func(t *testing.T) {
				without, with := echo.New(), echo.New()
				mount(without, idle)
				mount(with, echoidem.JWTGuard(adaptertest.NewVerifier(t)), echoidem.Idempotent(adaptertest.NewModule(t, cfg)))
				bare, a := adaptertest.Serve(t, without), adaptertest.Serve(t, with)
				for range 2 { // the second time from what the first has learnt
					for _, c := range []adaptertest.Call{
						{Method: "GET"}, {Method: "HEAD"}, {Method: "OPTIONS"}, {Method: "GET", Path: "/v1/any"},
						{Method: "PUT"}, {Method: "DELETE"}, {Method: "BREW"}, {Method: "BREW", Path: "/v1/any"},
						{Path: "/v1/nope"}, {Path: "/"}, {Path: "/v1"}, {Path: "/v1/"}, {Path: "/v1/pay/"}, {Path: "/v1/*"},
						{Method: "GET", Path: "/v1/orders/1"}, {Method: "PUT", Path: "/v1/orders/1"}, {Path: "/v1/files/a"},
						{Method: "GET", Path: "/v1/static/doc.go"}, {Path: "/v1/static/doc.go"},
						{Method: "GET", Path: "/v1/static/nope"}, {Method: "GET", Path: "/v1/nope", Key: "k"},
						{Path: "/v1/nope", Key: "k"}, {Path: "/elsewhere"},
					} {
						want, got := bare.Do(c), a.Do(c)
						require.Equal(t, want.Status, got.Status, "%+v", c)
						require.Equal(t, want.Body, got.Body, "%+v", c)
						require.Equal(t, want.Header.Get("Allow"), got.Header.Get("Allow"), "%+v", c)
						require.Empty(t, got.Header.Get("Idempotency-Result"), "%+v", c)
					}
					for _, c := range []adaptertest.Call{
						{Path: "/v1/pay"}, {Path: "/v1/orders/7"}, {Path: "/v1/orders/7/8"}, {Method: "PUT", Path: "/v1/files/a/b"},
						{Method: "PATCH", Path: "/v1/any"}, {Method: "PROPFIND", Path: "/v1/any"},
					} {
						adaptertest.RequireProblem(t, http.StatusBadRequest, "key_missing", a.Do(c))
					}
				}
				// A trailing parameter matches slashes: the path belongs to the command, not only the pattern.
				require.Equal(t, "/v1/orders/:id 7/8", a.RequireReplay(adaptertest.Call{Path: "/v1/orders/7/8", Key: "key-1"}).Body)
				adaptertest.RequireProblem(t, http.StatusConflict, "key_reused", a.Do(adaptertest.Call{Path: "/v1/orders/7/9", Key: "key-1"}))
			})
		}
	}
}

// What is not proven to be no route is guarded.
func TestNoWayPastPatterns(t *testing.T) {
	never := func(echo.Context) error { t.Error("ran"); return nil }
	e := echo.New()
	e.Use(echoidem.JWTGuard(adaptertest.NewVerifier(t)), echoidem.Idempotent(adaptertest.NewModule(t, core.Config{})))
	e.Router().Add(http.MethodPost, "/past/echo", never) // in no list of routes
	e.POST("/v1/*", never)
	e.RouteNotFound("/v1/*", echo.NotFoundHandler)
	e.PUT("/users/:id", never)
	e.POST("/users/:user", never) // the same node of the router, under another name
	a := adaptertest.Serve(t, e)
	for _, c := range []adaptertest.Call{
		{Path: "/past/echo"}, {Path: "/v1/any/thing"}, {Path: "/users/1"}, {Method: http.MethodPut, Path: "/users/1"},
	} {
		adaptertest.RequireProblem(t, http.StatusBadRequest, "key_missing", a.Do(c))
	}
	require.Equal(t, http.StatusNotFound, a.Do(adaptertest.Call{Method: http.MethodPut, Path: "/v1/any"}).Status)
	require.Equal(t, http.StatusMethodNotAllowed, a.Do(adaptertest.Call{Method: http.MethodPatch, Path: "/users/1"}).Status)

	// A route that is added later is guarded as soon as it is there.
	late := func(echo.Context) error { t.Error("ran"); return nil }
	require.Equal(t, http.StatusNotFound, a.Do(adaptertest.Call{Method: http.MethodPut, Path: "/v1/any"}).Status)
	e.PUT("/v1/*", late)
	adaptertest.RequireProblem(t, http.StatusBadRequest, "key_missing", a.Do(adaptertest.Call{Method: http.MethodPut, Path: "/v1/any"}))
}

// Routes of hosts are known too.
func TestHosts(t *testing.T) {
	e := echo.New()
	guards := []echo.MiddlewareFunc{echoidem.JWTGuard(adaptertest.NewVerifier(t)), echoidem.Idempotent(adaptertest.NewModule(t, core.Config{}))}
	a := adaptertest.Serve(t, e)
	host := strings.TrimPrefix(a.URL, "http://")
	e.Host(host, guards...).POST("/v1/pay", func(c echo.Context) error { return c.String(http.StatusCreated, "paid") })
	require.Equal(t, "paid", a.RequireReplay(adaptertest.Call{}).Body)
	adaptertest.RequireProblem(t, http.StatusBadRequest, "key_missing", a.Do(adaptertest.Call{}))
	require.Equal(t, http.StatusNotFound, a.Do(adaptertest.Call{Path: "/v1/nope"}).Status)
	require.Equal(t, http.StatusNotFound, a.Do(adaptertest.Call{Method: http.MethodPut}).Status)
}

// Two shops are told apart as Echo's virtual hosts, too.
//
// CONTRACT H-7
func TestTwoShopsAndOneKey(t *testing.T) {
	e := echo.New()
	idem := adaptertest.NewModule(t, core.Config{Routes: core.Routes{
		"POST /v1/pay": {Recovery: core.Park, CommandHeaders: []string{"Host"}},
	}})
	for _, host := range []string{"a.example", "A.EXAMPLE", "b.example"} {
		shop := e.Host(host, echoidem.JWTGuard(adaptertest.NewVerifier(t)), echoidem.Idempotent(idem))
		shop.POST("/v1/pay", func(c echo.Context) error {
			return c.String(http.StatusCreated, "paid at "+c.Request().Host)
		})
	}
	adaptertest.TwoShopsAndOneKey(t, e)
}

// Each guard returns the handler's error: middleware in front logs it.
func TestGuardsReturnTheError(t *testing.T) {
	idem := adaptertest.NewModule(t, core.Config{})
	bridge := echoidem.Bridge(func(echo.Context) (authctx.Principal, error) {
		return authctx.Principal{Issuer: adaptertest.Issuer, Subject: "customer-1"}, nil
	})
	var seen error
	e := echo.New()
	e.POST("/v1/pay", func(echo.Context) error { return errDeclined }, func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error { seen = next(c); return seen }
	}, bridge, echoidem.RolesGuard(idem), echoidem.KeyGuard(idem), echoidem.Interceptor(idem))
	adaptertest.Serve(t, e).Do(adaptertest.Call{Key: "key-1"})
	require.ErrorIs(t, seen, errDeclined)
}
