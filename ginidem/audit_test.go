package ginidem_test

import (
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/ginidem"
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
	never := func(c *gin.Context) { t.Error("a handler ran") }
	jwtGuard, bridge := ginidem.JWTGuard(verifier), ginidem.Bridge(func(*gin.Context) (authctx.Principal, error) {
		t.Error("a bridge ran")
		return authctx.Principal{}, nil
	})
	roles, key, interceptor := ginidem.RolesGuard(idem), ginidem.KeyGuard(idem), ginidem.Interceptor(idem)
	money := ginidem.Idempotent(idem, ginidem.WithErrorRenderer(never))

	// The rest of the app, with POST /v1/pay left to the test.
	rest := func(r *gin.Engine) {
		r.GET("/healthz", never)
		v1 := r.Group("/v1", jwtGuard, never)
		v1.GET("/ledger", money, never)
		v1.PATCH("/profile", never)
		v1.Group("/orders/:id", roles).POST("/refunds", never, key, interceptor, never)
	}
	for name, test := range map[string]struct {
		mount func(r *gin.Engine)
		want  []string
	}{
		"on a group": {func(r *gin.Engine) { r.Group("/v1", jwtGuard, money).POST("/pay", never) }, nil},
		"on the engine": {func(r *gin.Engine) {
			r.Use(jwtGuard)
			r.POST("/v1/pay", money, never)
		}, nil},
		"on the route":       {func(r *gin.Engine) { r.POST("/v1/pay", bridge, roles, key, interceptor, never) }, nil},
		"on group and route": {func(r *gin.Engine) { r.Group("/v1", bridge, roles).POST("/pay", key, interceptor, never) }, nil},
		"without guard": {func(r *gin.Engine) { r.POST("/v1/pay", never) }, []string{
			"POST /v1/pay: is not behind the JWT guard, roles guard, key guard, interceptor",
		}},
		"without JWT guard": {func(r *gin.Engine) { r.POST("/v1/pay", money, never) }, []string{
			"POST /v1/pay: is not behind the JWT guard",
		}},
		"without interceptor": {func(r *gin.Engine) {
			r.POST("/v1/pay", jwtGuard, roles, key, never)
		}, []string{
			"POST /v1/pay: is not behind the interceptor",
		}},
		"without roles guard": {func(r *gin.Engine) {
			r.POST("/v1/pay", jwtGuard, key, interceptor, never)
		}, []string{
			"POST /v1/pay: is not behind the roles guard",
		}},
		"roles guard on route": {func(r *gin.Engine) {
			r.Group("/v1", jwtGuard, key, interceptor).POST("/pay", roles, never)
		}, []string{
			"POST /v1/pay: has its guards in the wrong order",
		}},
		"JWT guard last": {func(r *gin.Engine) {
			r.Group("/v1", money).POST("/pay", jwtGuard, never)
		}, []string{
			"POST /v1/pay: has its guards in the wrong order",
		}},
		"money twice": {func(r *gin.Engine) {
			r.Group("/v1", jwtGuard, money).POST("/pay", money, never)
		}, []string{
			"POST /v1/pay: has more than one roles guard, key guard, interceptor",
		}},
		"used after the route": {func(r *gin.Engine) {
			r.POST("/v1/pay", never)
			r.Use(jwtGuard, money)
		}, []string{
			"POST /v1/pay: is not behind",
		}},
		"hidden in a function": {func(r *gin.Engine) {
			r.POST("/v1/pay", jwtGuard, func(c *gin.Context) { money(c) }, never)
		}, []string{
			"POST /v1/pay: is not behind the roles guard, key guard, interceptor",
		}},
		"undeclared": {func(r *gin.Engine) {
			r.Group("/v1", jwtGuard, money).POST("/pay", never).POST("/else", never)
		}, []string{
			"POST /v1/else: this route is not in the table",
		}},
		"any method": {func(r *gin.Engine) { r.Group("/v1", jwtGuard, money).Any("/pay", never) }, []string{
			"CONNECT /v1/pay: this route is not",
			"DELETE /v1/pay: this route is not",
			"PUT /v1/pay: this route is not",
		}},
		"declared only": {func(*gin.Engine) {}, []string{
			"POST /v1/pay: is declared, but the router has no such route",
		}},
		"another parameter": {func(r *gin.Engine) {
			r.Group("/v1", jwtGuard, money).POST("/:pay", never)
		}, []string{
			"POST /v1/:pay: this route is not",
			"POST /v1/pay: is declared, but",
		}},
		"several at once": {func(r *gin.Engine) {
			r.POST("/v1/pay", never)
			r.DELETE("/v1/pay", never)
		}, []string{
			"POST /v1/pay: is not behind",
			"DELETE /v1/pay: this route is not",
		}},
		"static files, 404, 405": {func(r *gin.Engine) {
			r.Static("/static", ".")
			r.NoRoute(never)
			r.NoMethod(never)
			r.Group("/v1", jwtGuard, money).POST("/pay", never)
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := gin.New()
			rest(r)
			test.mount(r)
			err := ginidem.Audit(r, idem)
			if test.want == nil {
				require.NoError(t, err)
			}
			for _, want := range test.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
}

// An escaped colon is spelled as c.FullPath spells it, before the first request and after it.
func TestAuditEscapedColon(t *testing.T) {
	idem := newModule(t, core.Config{Routes: core.Routes{"POST /v1/pay:now": {Recovery: core.Park}}})
	r := gin.New()
	v1 := r.Group("/v1", ginidem.JWTGuard(newVerifier(t)), ginidem.Idempotent(idem))
	v1.POST(`/pay\:now`, func(c *gin.Context) { c.String(http.StatusCreated, c.FullPath()) })
	require.NoError(t, ginidem.Audit(r, idem))
	require.Equal(t, "/v1/pay:now", serve(t, r).requireReplay(call{path: "/v1/pay:now"}).body)
	require.NoError(t, ginidem.Audit(r, idem))
}

// Without a table, the module's own policy holds for every unsafe route.
func TestAuditOwnPolicy(t *testing.T) {
	idem := newModule(t, core.Config{})
	r := gin.New()
	r.Group("/v1", ginidem.JWTGuard(newVerifier(t)), ginidem.Idempotent(idem)).POST("/pay", func(*gin.Context) {})
	r.GET("/open", func(*gin.Context) {})
	require.NoError(t, ginidem.Audit(r, idem))
	r.POST("/open", func(*gin.Context) {})
	require.ErrorContains(t, ginidem.Audit(r, idem),
		"POST /open: is not behind the JWT guard, roles guard, key guard, interceptor")
}
