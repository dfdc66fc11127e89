package echoidem_test

import (
	"net/http"
	"testing"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/echoidem/v5"
	"github.com/auth19/idem/internal/adaptertest"
)

// Safe methods, unknown paths and wrong methods get what the router would give them without guards, wherever the guards
// are mounted.
//
// CONTRACT K-8
func TestPassThrough(t *testing.T) {
	idle := func(next echo.HandlerFunc) echo.HandlerFunc { return next }
	read := func(c *echo.Context) error {
		_, captured := responseOf(c).ResponseWriter.(*core.Capture)
		assert.False(t, captured)
		return c.String(http.StatusOK, c.Path())
	}
	pay := func(c *echo.Context) error { return c.String(http.StatusCreated, c.Path()+" "+c.Param("id")) }
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
			v1.RouteNotFound("/*", func(c *echo.Context) error { return c.String(http.StatusNotFound, "not here") })
			v1.RouteNotFound("/orders/:any", func(c *echo.Context) error { return c.String(http.StatusNotFound, "nor here") })
		},
	}
	money := core.Policy{Recovery: core.Park}
	table := core.Routes{"POST /v1/pay": money, "POST /v1/orders/:id": money, "PUT /v1/files/*": money}
	for _, method := range []string{"BREW", "CONNECT", "DELETE", "PATCH", "POST", "PROPFIND", "PUT", "REPORT"} {
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
						{Method: "PUT"}, {Method: "DELETE"}, {Method: "BREW"},
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
						{Method: "PATCH", Path: "/v1/any"}, {Method: "BREW", Path: "/v1/any"}, {Method: "PROPFIND", Path: "/v1/any"},
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

// What is matched is guarded, also where the router has other routes for the path.
func TestNoWayPastPatterns(t *testing.T) {
	never := func(*echo.Context) error { t.Error("ran"); return nil }
	e := echo.New()
	e.Use(echoidem.JWTGuard(adaptertest.NewVerifier(t)), echoidem.Idempotent(adaptertest.NewModule(t, core.Config{})))
	_, err := e.Router().Add(echo.Route{Method: http.MethodPost, Path: "/past/echo", Handler: never})
	require.NoError(t, err)
	e.POST("/v1/*", never)
	e.RouteNotFound("/v1/*", func(*echo.Context) error { return echo.ErrNotFound })
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
}

// Two shops are told apart as Echo's virtual hosts, too.
//
// CONTRACT H-7
func TestTwoShopsAndOneKey(t *testing.T) {
	idem := adaptertest.NewModule(t, core.Config{Routes: core.Routes{
		"POST /v1/pay": {Recovery: core.Park, CommandHeaders: []string{"Host"}},
	}})
	hosts := map[string]*echo.Echo{}
	for _, host := range []string{"a.example", "A.EXAMPLE", "b.example"} {
		hosts[host] = echo.New()
		hosts[host].POST("/v1/pay", func(c *echo.Context) error {
			return c.String(http.StatusCreated, "paid at "+c.Request().Host)
		}, echoidem.JWTGuard(adaptertest.NewVerifier(t)), echoidem.Idempotent(idem))
	}
	adaptertest.TwoShopsAndOneKey(t, echo.NewVirtualHostHandler(hosts))
}

// In Pre there is no route yet, and core would take the request for one that the router does not know: it would run without
// a key.
//
// CONTRACT O-4
func TestInFrontOfTheRouter(t *testing.T) {
	idem := adaptertest.NewModule(t, core.Config{Routes: core.Routes{"POST /v1/pay": {Recovery: core.Park}}})
	for name, guard := range map[string]echo.MiddlewareFunc{
		"Idempotent": echoidem.Idempotent(idem), "RolesGuard": echoidem.RolesGuard(idem), "KeyGuard": echoidem.KeyGuard(idem),
		"Interceptor": echoidem.Interceptor(idem),
	} {
		t.Run(name, func(t *testing.T) {
			e := echo.New()
			e.Pre(echoidem.JWTGuard(adaptertest.NewVerifier(t)), guard)
			e.POST("/v1/pay", func(*echo.Context) error { t.Error("a handler ran"); return nil })
			got := adaptertest.Serve(t, e).Do(adaptertest.Call{Key: "key-1"})
			adaptertest.RequireProblem(t, http.StatusInternalServerError, "misconfigured", got)
			require.Contains(t, got.Body, "mount it by Use, not by Pre")
		})
	}
}

// A method that is changed behind the router would make the handler of a POST run as a GET, which needs no key.
//
// CONTRACT O-4, K-8
func TestMethodChangedBehindTheRouter(t *testing.T) {
	runs := 0
	pay := func(c *echo.Context) error { runs++; return c.NoContent(http.StatusCreated) }
	idem := func() *core.Module { return adaptertest.NewModule(t, core.Config{}) }
	override := middleware.MethodOverride()
	header := map[string]string{echo.HeaderXHTTPMethodOverride: http.MethodGet}

	late := echo.New()
	late.Use(override)
	late.Group("/v1", echoidem.JWTGuard(adaptertest.NewVerifier(t)), echoidem.Idempotent(idem())).POST("/pay", pay)
	got := adaptertest.Serve(t, late).Do(adaptertest.Call{Headers: header})
	adaptertest.RequireProblem(t, http.StatusInternalServerError, "misconfigured", got)
	require.Contains(t, got.Body, "mount what changes methods by Pre, not by Use")
	require.Zero(t, runs)
	for from, to := range map[string]string{http.MethodPost: http.MethodHead, http.MethodGet: http.MethodPost} {
		late := echo.New()
		late.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c *echo.Context) error {
				r := c.Request().Clone(c.Request().Context()) // the server looks at its own after the answer
				r.Method = to
				c.SetRequest(r)
				return next(c)
			}
		})
		late.Group("/v1", echoidem.JWTGuard(adaptertest.NewVerifier(t)), echoidem.Idempotent(idem())).Add(from, "/pay", pay)
		got := adaptertest.Serve(t, late).Do(adaptertest.Call{Method: from, Key: "key-1"})
		require.Equal(t, http.StatusInternalServerError, got.Status, "%s to %s", from, to)
		require.Zero(t, runs)
	}

	early := echo.New()
	early.Pre(override)
	v1 := early.Group("/v1", echoidem.JWTGuard(adaptertest.NewVerifier(t)), echoidem.Idempotent(idem()))
	v1.PUT("/pay", pay)
	v1.POST("/pay", func(*echo.Context) error { t.Error("the override is not heeded"); return nil })
	header[echo.HeaderXHTTPMethodOverride] = http.MethodPut
	got = adaptertest.Serve(t, early).Do(adaptertest.Call{Key: "key-1", Headers: header})
	require.Equal(t, http.StatusCreated, got.Status, got.Body)
	require.Equal(t, 1, runs)

	head := echo.NewWithConfig(echo.Config{Router: echo.NewRouter(echo.RouterConfig{AutoHandleHEAD: true})})
	head.Group("/v1", echoidem.JWTGuard(adaptertest.NewVerifier(t)), echoidem.Idempotent(idem())).GET("/pay", pay)
	require.Equal(t, http.StatusCreated, adaptertest.Serve(t, head).Do(adaptertest.Call{Method: http.MethodHead}).Status)
}

// Each guard returns the handler's error: middleware in front logs it.
func TestGuardsReturnTheError(t *testing.T) {
	idem := adaptertest.NewModule(t, core.Config{})
	bridge := echoidem.Bridge(func(*echo.Context) (authctx.Principal, error) {
		return authctx.Principal{Issuer: adaptertest.Issuer, Subject: "customer-1"}, nil
	})
	var seen error
	e := echo.New()
	e.POST("/v1/pay", func(*echo.Context) error { return errDeclined }, func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error { seen = next(c); return seen }
	}, bridge, echoidem.RolesGuard(idem), echoidem.KeyGuard(idem), echoidem.Interceptor(idem))
	adaptertest.Serve(t, e).Do(adaptertest.Call{Key: "key-1"})
	require.ErrorIs(t, seen, errDeclined)
}
