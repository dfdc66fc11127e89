package echoidem_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/echoidem"
)

// CONTRACT O-1, P-1
func TestJWTGuard(t *testing.T) {
	e := echo.New()
	e.Use(echoidem.JWTGuard(newVerifier(t)))
	e.GET("/v1/me", func(c echo.Context) error {
		p, ok := authctx.FromContext(c.Request().Context())
		assert.True(t, ok)
		return c.String(http.StatusOK, p.Issuer+" "+p.Subject+" "+strings.Join(p.Roles, " "))
	})
	a := serve(t, e)
	me := call{method: http.MethodGet, path: "/v1/me"}
	require.Equal(t, "https://issuer.example customer-1 customer", a.do(me).body)

	foreign := claimsOf("customer-1")
	foreign["iss"] = "https://other.example"
	nobody := claimsOf("")
	expired := claimsOf("customer-1")
	expired["exp"] = time.Now().Add(-time.Hour).Unix()
	unsigned, err := jwt.NewWithClaims(jwt.SigningMethodNone, claimsOf("customer-1")).
		SignedString(jwt.UnsafeAllowNoneSignatureType)
	require.NoError(t, err)
	for name, token := range map[string]string{
		"none": "-", "garbage": "gar.ba.ge", "another issuer": sign(t, foreign), "nobody": sign(t, nobody),
		"expired": sign(t, expired), "alg none": unsigned, "cut": a.token[:len(a.token)-1], "huge": strings.Repeat("A", 100<<10),
	} {
		me.token = token
		got := a.do(me)
		requireProblem(t, http.StatusUnauthorized, "unauthenticated", got)
		require.Equal(t, "Bearer", got.header.Get("WWW-Authenticate"), name)
		require.Contains(t, got.body, `"detail":"a valid bearer token is required"`, name)
		require.NotContains(t, got.body, token, name)
	}
}

// A bridge opens nothing that the middleware before it did not verify.
//
// CONTRACT O-2, O-7
func TestBridge(t *testing.T) {
	claims := authctx.Claims{Issuers: []string{issuer}}
	verified := claimsOf("customer-1", "customer")
	var left func(c echo.Context) // what the app's middleware leaves behind
	var told []core.Event
	observer := core.ObserverFunc(func(_ context.Context, e core.Event) { told = append(told, e) })
	e := echo.New()
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error { left(c); return next(c) }
	})
	me := func(c echo.Context) error {
		p, _ := authctx.FromContext(c.Request().Context())
		return c.String(http.StatusOK, p.Subject)
	}
	e.GET("/token", me, echoidem.Bridge(func(c echo.Context) (authctx.Principal, error) {
		token, _ := c.Get("user").(*jwt.Token)
		return claims.FromToken(token)
	}))
	e.GET("/claims", me, echoidem.Bridge(func(c echo.Context) (authctx.Principal, error) {
		payload, _ := c.Get("claims").(jwt.MapClaims)
		return claims.Principal(payload)
	}))
	e.GET("/careless", me, echoidem.Bridge(func(echo.Context) (authctx.Principal, error) { return authctx.Principal{}, nil }))
	e.GET("/error", me, echoidem.Bridge(func(echo.Context) (authctx.Principal, error) {
		return authctx.Principal{Issuer: issuer, Subject: "customer-1"}, errors.New("secret reason")
	}, observer))
	a := serve(t, e)
	get := func(path string) answer { return a.do(call{method: http.MethodGet, path: path}) }

	left = func(c echo.Context) {
		c.Set("user", &jwt.Token{Valid: true, Claims: verified})
		c.Set("claims", verified)
	}
	require.Equal(t, "customer-1", get("/token").body)
	require.Equal(t, "customer-1", get("/claims").body)
	requireProblem(t, http.StatusUnauthorized, "unauthenticated", get("/careless"))
	requireProblem(t, http.StatusUnauthorized, "unauthenticated", get("/error"))
	require.NotContains(t, get("/error").body, "secret")
	require.Len(t, told, 2)
	require.Equal(t, "/error", told[0].Route)
	require.ErrorContains(t, told[0].Err, "*errors.errorString")

	nobody := claimsOf("")
	for name, leaves := range map[string]func(c echo.Context){
		"nothing": func(echo.Context) {},
		"nil":     func(c echo.Context) { c.Set("user", (*jwt.Token)(nil)); c.Set("claims", jwt.MapClaims(nil)) },
		"another type": func(c echo.Context) {
			c.Set("user", "customer-1")
			c.Set("claims", map[string]string{"sub": "customer-1"})
		},
		"not valid":   func(c echo.Context) { c.Set("user", &jwt.Token{Claims: verified}) },
		"no subject":  func(c echo.Context) { c.Set("user", &jwt.Token{Valid: true, Claims: nobody}); c.Set("claims", nobody) },
		"empty":       func(c echo.Context) { c.Set("claims", jwt.MapClaims{}) },
		"some claims": func(c echo.Context) { c.Set("claims", jwt.MapClaims{"sub": "customer-1", "iss": issuer}) },
	} {
		left = leaves
		requireProblem(t, http.StatusUnauthorized, "unauthenticated", get("/token"))
		requireProblem(t, http.StatusUnauthorized, "unauthenticated", get("/claims"))
		require.Equal(t, "Bearer", get("/token").header.Get("WWW-Authenticate"), name)
	}
}

// 401, 403, 400, 413, in this order, and nothing runs.
//
// CONTRACT O-1, H-5
func TestOrderOfChecks(t *testing.T) {
	idem := newModule(t, core.Config{Routes: core.Routes{
		"POST /v1/pay": {Recovery: core.Park, Roles: []string{"customer"}, MaxBody: 10},
	}})
	var runs atomic.Int64
	verifier := newVerifier(t)
	composed, parts := echo.New(), echo.New()
	handler := func(c echo.Context) error { runs.Add(1); return c.JSON(http.StatusCreated, 1) }
	composed.Group("/v1", echoidem.JWTGuard(verifier), echoidem.Idempotent(idem)).POST("/pay", handler)
	parts.Group("/v1", echoidem.JWTGuard(verifier), echoidem.RolesGuard(idem)).
		POST("/pay", handler, echoidem.KeyGuard(idem), echoidem.Interceptor(idem))
	for name, e := range map[string]*echo.Echo{"Idempotent": composed, "its parts": parts} {
		t.Run(name, func(t *testing.T) {
			runs.Store(0)
			a := serve(t, e)
			c := call{body: strings.Repeat("x", 11)}
			c.token = "-"
			requireProblem(t, http.StatusUnauthorized, "unauthenticated", a.do(c))
			c.token = sign(t, claimsOf("customer-1", "seller"))
			requireProblem(t, http.StatusForbidden, "forbidden", a.do(c))
			c.token = ""
			requireProblem(t, http.StatusBadRequest, "key_missing", a.do(c))
			c.key = "key " + name
			requireProblem(t, http.StatusBadRequest, "key_invalid", a.do(c))
			c.key = "key-" + strings.ReplaceAll(name, " ", "-")
			requireProblem(t, http.StatusRequestEntityTooLarge, "body_too_large", a.do(c))
			require.Zero(t, runs.Load())
			c.body = "{}"
			require.Equal(t, http.StatusCreated, a.requireReplay(c).status)
			require.EqualValues(t, 1, runs.Load())
		})
	}
}

// CONTRACT O-2
func TestWithoutPrincipal(t *testing.T) {
	idem := newModule(t, core.Config{})
	e := echo.New()
	never := func(echo.Context) error { t.Error("ran"); return nil }
	e.POST("/money", never, echoidem.Idempotent(idem))
	e.POST("/roles", never, echoidem.RolesGuard(idem))
	e.POST("/key", never, echoidem.KeyGuard(idem))
	e.POST("/interceptor", never, echoidem.Interceptor(idem))
	a := serve(t, e)
	for _, path := range []string{"/money", "/roles", "/key", "/interceptor"} {
		got := a.do(call{path: path, key: "key-1"})
		requireProblem(t, http.StatusUnauthorized, "unauthenticated", got)
		require.Equal(t, "Bearer", got.header.Get("WWW-Authenticate"))
	}
}

// A caller who lost the role gets no replay.
//
// CONTRACT O-3, S-2
func TestLostRole(t *testing.T) {
	idem := newModule(t, core.Config{Routes: core.Routes{"POST /v1/pay": {Recovery: core.Park, Roles: []string{"customer"}}}})
	e := echo.New()
	e.Group("/v1", echoidem.JWTGuard(newVerifier(t)), echoidem.Idempotent(idem)).
		POST("/pay", func(c echo.Context) error { return c.JSON(http.StatusCreated, 1) })
	a := serve(t, e)
	a.requireReplay(call{key: "key-1"})
	demoted := sign(t, claimsOf("customer-1", "guest"))
	requireProblem(t, http.StatusForbidden, "forbidden", a.do(call{key: "key-1", token: demoted}))
	again := a.do(call{key: "key-1", token: sign(t, claimsOf("customer-1", "guest", "customer"))})
	require.Equal(t, "reused", again.header.Get("Idempotency-Result"), "a refreshed token is the same principal")
}

// CONTRACT O-4
func TestMisconfigured(t *testing.T) {
	idem := newModule(t, core.Config{Routes: core.Routes{
		"POST /twice": {Recovery: core.Park}, "POST /nested": {Recovery: core.Park}, "POST /keyless": {Recovery: core.Park},
	}})
	e := echo.New()
	e.Use(echoidem.JWTGuard(newVerifier(t)))
	money := echoidem.Idempotent(idem)
	never := func(echo.Context) error { t.Error("ran"); return nil }
	e.POST("/undeclared", never, money)
	e.POST("/twice", never, money, money)
	e.POST("/nested", never, money, echoidem.Interceptor(idem))
	e.POST("/keyless", never, echoidem.RolesGuard(idem), echoidem.Interceptor(idem))
	a := serve(t, e)
	requireProblem(t, http.StatusInternalServerError, "route_undeclared", a.do(call{path: "/undeclared", key: "key-1"}))
	requireProblem(t, http.StatusInternalServerError, "misconfigured", a.do(call{path: "/keyless", key: "key-2"}))
	requireProblem(t, http.StatusInternalServerError, "misconfigured", a.do(call{path: "/twice", key: "key-3"}))
	requireProblem(t, http.StatusInternalServerError, "misconfigured", a.do(call{path: "/nested", key: "key-4"}))
}

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
				mount(with, echoidem.JWTGuard(newVerifier(t)), echoidem.Idempotent(newModule(t, cfg)))
				bare, a := serve(t, without), serve(t, with)
				for range 2 { // the second time from what the first has learnt
					for _, c := range []call{
						{method: "GET"}, {method: "HEAD"}, {method: "OPTIONS"}, {method: "GET", path: "/v1/any"},
						{method: "PUT"}, {method: "DELETE"}, {method: "BREW"}, {method: "BREW", path: "/v1/any"},
						{path: "/v1/nope"}, {path: "/"}, {path: "/v1"}, {path: "/v1/"}, {path: "/v1/pay/"}, {path: "/v1/*"},
						{method: "GET", path: "/v1/orders/1"}, {method: "PUT", path: "/v1/orders/1"}, {path: "/v1/files/a"},
						{method: "GET", path: "/v1/static/doc.go"}, {path: "/v1/static/doc.go"},
						{method: "GET", path: "/v1/static/nope"}, {method: "GET", path: "/v1/nope", key: "k"},
						{path: "/v1/nope", key: "k"}, {path: "/elsewhere"},
					} {
						want, got := bare.do(c), a.do(c)
						require.Equal(t, want.status, got.status, "%+v", c)
						require.Equal(t, want.body, got.body, "%+v", c)
						require.Equal(t, want.header.Get("Allow"), got.header.Get("Allow"), "%+v", c)
						require.Empty(t, got.header.Get("Idempotency-Result"), "%+v", c)
					}
					for _, c := range []call{
						{path: "/v1/pay"}, {path: "/v1/orders/7"}, {path: "/v1/orders/7/8"}, {method: "PUT", path: "/v1/files/a/b"},
						{method: "PATCH", path: "/v1/any"}, {method: "PROPFIND", path: "/v1/any"},
					} {
						requireProblem(t, http.StatusBadRequest, "key_missing", a.do(c))
					}
				}
				// A trailing parameter matches slashes: the path belongs to the command, not only the pattern.
				require.Equal(t, "/v1/orders/:id 7/8", a.requireReplay(call{path: "/v1/orders/7/8", key: "key-1"}).body)
				requireProblem(t, http.StatusConflict, "key_reused", a.do(call{path: "/v1/orders/7/9", key: "key-1"}))
			})
		}
	}
}

// What is not proven to be no route is guarded.
func TestNoWayPastPatterns(t *testing.T) {
	never := func(echo.Context) error { t.Error("ran"); return nil }
	e := echo.New()
	e.Use(echoidem.JWTGuard(newVerifier(t)), echoidem.Idempotent(newModule(t, core.Config{})))
	e.Router().Add(http.MethodPost, "/past/echo", never) // in no list of routes
	e.POST("/v1/*", never)
	e.RouteNotFound("/v1/*", echo.NotFoundHandler)
	e.PUT("/users/:id", never)
	e.POST("/users/:user", never) // the same node of the router, under another name
	a := serve(t, e)
	for _, c := range []call{
		{path: "/past/echo"}, {path: "/v1/any/thing"}, {path: "/users/1"}, {method: http.MethodPut, path: "/users/1"},
	} {
		requireProblem(t, http.StatusBadRequest, "key_missing", a.do(c))
	}
	require.Equal(t, http.StatusNotFound, a.do(call{method: http.MethodPut, path: "/v1/any"}).status)
	require.Equal(t, http.StatusMethodNotAllowed, a.do(call{method: http.MethodPatch, path: "/users/1"}).status)

	// A route that is added later is guarded as soon as it is there.
	late := func(echo.Context) error { t.Error("ran"); return nil }
	require.Equal(t, http.StatusNotFound, a.do(call{method: http.MethodPut, path: "/v1/any"}).status)
	e.PUT("/v1/*", late)
	requireProblem(t, http.StatusBadRequest, "key_missing", a.do(call{method: http.MethodPut, path: "/v1/any"}))
}

// Routes of hosts are known too.
func TestHosts(t *testing.T) {
	e := echo.New()
	guards := []echo.MiddlewareFunc{echoidem.JWTGuard(newVerifier(t)), echoidem.Idempotent(newModule(t, core.Config{}))}
	a := serve(t, e)
	host := strings.TrimPrefix(a.server.URL, "http://")
	e.Host(host, guards...).POST("/v1/pay", func(c echo.Context) error { return c.String(http.StatusCreated, "paid") })
	require.Equal(t, "paid", a.requireReplay(call{}).body)
	requireProblem(t, http.StatusBadRequest, "key_missing", a.do(call{}))
	require.Equal(t, http.StatusNotFound, a.do(call{path: "/v1/nope"}).status)
	require.Equal(t, http.StatusNotFound, a.do(call{method: http.MethodPut}).status)
}

// The handler reads the body as if nobody had read it before.
//
// CONTRACT H-5
func TestBody(t *testing.T) {
	e := echo.New()
	guarded(t, e, core.Config{}).POST("/pay", func(c echo.Context) error {
		body, err := io.ReadAll(c.Request().Body)
		assert.NoError(t, err)
		return c.String(http.StatusCreated, string(body))
	})
	require.Equal(t, `{"amount":1}`, serve(t, e).requireReplay(call{body: `{"amount":1}`}).body)
}

// Two shops that are told apart by their hosts, in one Echo and as Echo's virtual hosts.
//
// CONTRACT H-7
func TestTwoShopsAndOneKey(t *testing.T) {
	pay := func(c echo.Context) error { return c.String(http.StatusCreated, "paid at "+c.Request().Host) }
	one := echo.New()
	named := core.Policy{Recovery: core.Park, CommandHeaders: []string{"Host"}}
	guarded(t, one, core.Config{Policy: named}).POST("/pay", pay)
	two := echo.New()
	idem := newModule(t, core.Config{Routes: core.Routes{"POST /v1/pay": named}})
	for _, host := range []string{"a.example", "A.EXAMPLE", "b.example"} {
		two.Host(host, echoidem.JWTGuard(newVerifier(t)), echoidem.Idempotent(idem)).POST("/v1/pay", pay)
	}
	for _, e := range []*echo.Echo{one, two} {
		a := serve(t, e)
		require.Equal(t, "paid at a.example", a.requireReplay(call{host: "a.example"}).body)
		require.Equal(t, "reused", a.do(call{key: "key-1", host: "A.EXAMPLE"}).header.Get("Idempotency-Result"))
		requireProblem(t, http.StatusConflict, "key_reused", a.do(call{key: "key-1", host: "b.example"}))
		require.Equal(t, "paid at b.example", a.requireReplay(call{key: "key-2", host: "b.example"}).body)
	}
}
