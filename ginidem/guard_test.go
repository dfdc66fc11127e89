package ginidem_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/ginidem"
)

// CONTRACT O-1, P-1
func TestJWTGuard(t *testing.T) {
	r := gin.New()
	r.Use(ginidem.JWTGuard(newVerifier(t)))
	r.GET("/v1/me", func(c *gin.Context) {
		p, ok := authctx.FromContext(c.Request.Context())
		assert.True(t, ok)
		c.String(http.StatusOK, "%s %s %v", p.Issuer, p.Subject, p.Roles)
	})
	a := serve(t, r)
	me := call{method: http.MethodGet, path: "/v1/me"}
	require.Equal(t, "https://issuer.example customer-1 [customer]", a.do(me).body)

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
	var left func(c *gin.Context) // what the app's middleware leaves behind
	var told []core.Event
	observer := core.ObserverFunc(func(_ context.Context, e core.Event) { told = append(told, e) })
	r := gin.New()
	r.Use(func(c *gin.Context) { left(c) })
	me := func(c *gin.Context) {
		p, _ := authctx.FromContext(c.Request.Context())
		c.String(http.StatusOK, p.Subject)
	}
	r.GET("/token", ginidem.Bridge(func(c *gin.Context) (authctx.Principal, error) {
		value, _ := c.Get("user")
		token, _ := value.(*jwt.Token)
		return claims.FromToken(token)
	}), me)
	r.GET("/claims", ginidem.Bridge(func(c *gin.Context) (authctx.Principal, error) {
		value, _ := c.Get("JWT_PAYLOAD")
		payload, _ := value.(jwt.MapClaims)
		return claims.Principal(payload)
	}), me)
	r.GET("/careless", ginidem.Bridge(func(*gin.Context) (authctx.Principal, error) { return authctx.Principal{}, nil }), me)
	r.GET("/error", ginidem.Bridge(func(*gin.Context) (authctx.Principal, error) {
		return authctx.Principal{Issuer: issuer, Subject: "customer-1"}, errors.New("secret reason")
	}, observer), me)
	a := serve(t, r)
	get := func(path string) answer { return a.do(call{method: http.MethodGet, path: path}) }

	left = func(c *gin.Context) {
		c.Set("user", &jwt.Token{Valid: true, Claims: verified})
		c.Set("JWT_PAYLOAD", verified)
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
	for name, leaves := range map[string]func(c *gin.Context){
		"nothing": func(*gin.Context) {},
		"nil":     func(c *gin.Context) { c.Set("user", (*jwt.Token)(nil)); c.Set("JWT_PAYLOAD", jwt.MapClaims(nil)) },
		"another type": func(c *gin.Context) {
			c.Set("user", "customer-1")
			c.Set("JWT_PAYLOAD", map[string]string{"sub": "customer-1"})
		},
		"not valid": func(c *gin.Context) { c.Set("user", &jwt.Token{Claims: verified}) },
		"no subject": func(c *gin.Context) {
			c.Set("user", &jwt.Token{Valid: true, Claims: nobody})
			c.Set("JWT_PAYLOAD", nobody)
		},
		"empty":       func(c *gin.Context) { c.Set("JWT_PAYLOAD", jwt.MapClaims{}) },
		"some claims": func(c *gin.Context) { c.Set("JWT_PAYLOAD", jwt.MapClaims{"sub": "customer-1", "iss": issuer}) },
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
	composed, parts := gin.New(), gin.New()
	handler := func(c *gin.Context) { runs.Add(1); c.JSON(http.StatusCreated, 1) }
	composed.Group("/v1", ginidem.JWTGuard(verifier), ginidem.Idempotent(idem)).POST("/pay", handler)
	parts.Group("/v1", ginidem.JWTGuard(verifier), ginidem.RolesGuard(idem)).
		POST("/pay", ginidem.KeyGuard(idem), ginidem.Interceptor(idem), handler)
	for name, r := range map[string]*gin.Engine{"Idempotent": composed, "its parts": parts} {
		t.Run(name, func(t *testing.T) {
			runs.Store(0)
			a := serve(t, r)
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
	r := gin.New()
	r.POST("/money", ginidem.Idempotent(idem), func(*gin.Context) { t.Error("ran") })
	r.POST("/roles", ginidem.RolesGuard(idem), func(*gin.Context) { t.Error("ran") })
	r.POST("/key", ginidem.KeyGuard(idem), func(*gin.Context) { t.Error("ran") })
	r.POST("/interceptor", ginidem.Interceptor(idem), func(*gin.Context) { t.Error("ran") })
	a := serve(t, r)
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
	r := gin.New()
	r.Group("/v1", ginidem.JWTGuard(newVerifier(t)), ginidem.Idempotent(idem)).
		POST("/pay", func(c *gin.Context) { c.JSON(http.StatusCreated, 1) })
	a := serve(t, r)
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
	r := gin.New()
	r.Use(ginidem.JWTGuard(newVerifier(t)))
	money := ginidem.Idempotent(idem)
	never := func(*gin.Context) { t.Error("ran") }
	r.POST("/undeclared", money, never)
	r.POST("/twice", money, money, never)
	r.POST("/nested", money, ginidem.Interceptor(idem), never)
	r.POST("/keyless", ginidem.RolesGuard(idem), ginidem.Interceptor(idem), never)
	a := serve(t, r)
	requireProblem(t, http.StatusInternalServerError, "route_undeclared", a.do(call{path: "/undeclared", key: "key-1"}))
	requireProblem(t, http.StatusInternalServerError, "misconfigured", a.do(call{path: "/keyless", key: "key-2"}))
	requireProblem(t, http.StatusInternalServerError, "misconfigured", a.do(call{path: "/twice", key: "key-3"}))
	requireProblem(t, http.StatusInternalServerError, "misconfigured", a.do(call{path: "/nested", key: "key-4"}))
}

// Safe methods, unknown paths and wrong methods get what the router would give them without guards.
//
// CONTRACT K-8
func TestPassThrough(t *testing.T) {
	read := func(c *gin.Context) {
		_, plain := c.Writer.(interface{ Unwrap() http.ResponseWriter })
		c.String(http.StatusOK, "%s %v", c.FullPath(), plain) // Gin's own writer
	}
	pay := func(c *gin.Context) { c.String(http.StatusCreated, "%s %s", c.FullPath(), c.Param("id")) }
	mount := func(guards ...gin.HandlerFunc) *gin.Engine {
		r := gin.New()
		r.HandleMethodNotAllowed = true
		r.NoRoute(func(c *gin.Context) { c.String(http.StatusNotFound, "no route") })
		r.NoMethod(func(c *gin.Context) { c.String(http.StatusMethodNotAllowed, "no method") })
		r.Use(guards...) // for 404 and 405 too
		v1 := r.Group("/v1")
		v1.GET("/pay", read)
		v1.HEAD("/pay", read)
		v1.OPTIONS("/pay", read)
		v1.POST("/pay", pay)
		v1.POST("/orders/:id", pay)
		v1.PUT("/files/*path", pay)
		v1.Static("/static", ".")
		return r
	}
	for name, cfg := range map[string]core.Config{
		"own policy": {},
		"table": {Routes: core.Routes{"POST /v1/pay": {Recovery: core.Park}, "POST /v1/orders/:id": {Recovery: core.Park},
			"PUT /v1/files/*path": {Recovery: core.Park}}},
	} {
		t.Run(name, func(t *testing.T) {
			bare := serve(t, mount())
			a := serve(t, mount(ginidem.JWTGuard(newVerifier(t)), ginidem.Idempotent(newModule(t, cfg))))
			for _, c := range []call{
				{method: "GET"}, {method: "HEAD"}, {method: "OPTIONS"},
				{method: "PUT"}, {method: "DELETE"}, {method: "BREW"},
				{path: "/v1/nope"}, {path: "/"}, {path: "/v1"}, {path: "/v1/"}, {path: "/v1/pay/"}, {path: "/v1/orders/1/2"},
				{method: "GET", path: "/v1/orders/1"}, {method: "GET", path: "/v1/static/doc.go"}, {path: "/v1/static/doc.go"},
				{method: "GET", path: "/v1/static/nope"}, {method: "GET", path: "/v1/nope", key: "k"}, {path: "/v1/nope", key: "k"},
			} {
				want, got := bare.do(c), a.do(c)
				require.Equal(t, want.status, got.status, "%+v", c)
				require.Equal(t, want.body, got.body, "%+v", c)
				require.Empty(t, got.header.Get("Idempotency-Result"), "%+v", c)
			}
			for _, c := range []call{{path: "/v1/pay"}, {path: "/v1/orders/7"}, {method: "PUT", path: "/v1/files/a/b"}} {
				requireProblem(t, http.StatusBadRequest, "key_missing", a.do(c))
			}
			require.Equal(t, "/v1/orders/:id 7", a.requireReplay(call{path: "/v1/orders/7", key: "key-1"}).body)
			requireProblem(t, http.StatusConflict, "key_reused", a.do(call{path: "/v1/orders/8", key: "key-1"}))
		})
	}
}

// The handler reads the body as if nobody had read it before.
//
// CONTRACT H-5
func TestBody(t *testing.T) {
	r := gin.New()
	guarded(t, r, core.Config{}).POST("/pay", func(c *gin.Context) {
		body, err := io.ReadAll(c.Request.Body)
		assert.NoError(t, err)
		c.String(http.StatusCreated, "%s %d", body, c.Request.ContentLength)
	})
	a := serve(t, r)
	require.Equal(t, `{"amount":1} 12`, a.requireReplay(call{body: `{"amount":1}`}).body)
}

// Two shops that are told apart by their hosts.
//
// CONTRACT H-7
func TestTwoShopsAndOneKey(t *testing.T) {
	r := gin.New()
	guarded(t, r, core.Config{Policy: core.Policy{Recovery: core.Park, CommandHeaders: []string{"Host"}}}).
		POST("/pay", func(c *gin.Context) { c.String(http.StatusCreated, "paid at "+c.Request.Host) })
	a := serve(t, r)
	require.Equal(t, "paid at a.example", a.requireReplay(call{host: "a.example"}).body)
	require.Equal(t, "reused", a.do(call{key: "key-1", host: "A.EXAMPLE"}).header.Get("Idempotency-Result"))
	requireProblem(t, http.StatusConflict, "key_reused", a.do(call{key: "key-1", host: "b.example"}))
	require.Equal(t, "paid at b.example", a.requireReplay(call{key: "key-2", host: "b.example"}).body)
}
