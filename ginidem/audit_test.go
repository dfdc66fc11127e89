package ginidem_test

import (
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/ginidem"
	"github.com/auth19/idem/internal/adaptertest"
)

// CONTRACT D-2, O-4
func TestAudit(t *testing.T) {
	type guards = adaptertest.Guards
	engine := func(a adaptertest.App) *gin.Engine { return a.(app).engine }
	never := func(*gin.Context) { t.Error("a handler ran") }
	adaptertest.Audit(t, adapter{}, map[string]adaptertest.Audited{
		"on the engine": {Mount: func(a adaptertest.App, g guards) {
			a.Use(g.JWT)
			a.Handle(http.MethodPost, "/v1/pay", g.Never, g.Idempotent)
		}},
		"with options": {Mount: func(a adaptertest.App, g guards) {
			idem := adaptertest.NewModule(t, core.Config{})
			money := ginidem.Idempotent(idem, ginidem.WithErrorRenderer(never))
			a.Handle(http.MethodPost, "/v1/pay", g.Never, g.JWT, money)
		}},
		"hidden in a function": {Mount: func(a adaptertest.App, g guards) {
			hidden := func(c *gin.Context) { g.Idempotent.(gin.HandlerFunc)(c) }
			a.Handle(http.MethodPost, "/v1/pay", g.Never, g.JWT, gin.HandlerFunc(hidden))
		}, Want: []string{
			"POST /v1/pay: is not behind the roles guard, key guard, interceptor",
		}},
		"any method": {Mount: func(a adaptertest.App, g guards) {
			engine(a).Group("/v1", chain([]adaptertest.Middleware{g.JWT, g.Idempotent})...).Any("/pay", never)
		}, Want: []string{
			"CONNECT /v1/pay: this route is not",
			"DELETE /v1/pay: this route is not",
			"PUT /v1/pay: this route is not",
		}},
		"static files, 404, 405": {Mount: func(a adaptertest.App, g guards) {
			r := engine(a)
			r.Static("/static", ".")
			r.NoRoute(never)
			r.NoMethod(never)
			a.Group("/v1", g.JWT, g.Idempotent).Handle(http.MethodPost, "/pay", g.Never)
		}},
	})
}

// An escaped colon is spelled as c.FullPath spells it, before the first request and after it.
func TestAuditEscapedColon(t *testing.T) {
	idem := adaptertest.NewModule(t, core.Config{Routes: core.Routes{"POST /v1/pay:now": {Recovery: core.Park}}})
	r := gin.New()
	v1 := r.Group("/v1", ginidem.JWTGuard(adaptertest.NewVerifier(t)), ginidem.Idempotent(idem))
	v1.POST(`/pay\:now`, func(c *gin.Context) { c.String(http.StatusCreated, c.FullPath()) })
	require.NoError(t, ginidem.Audit(r, idem))
	require.Equal(t, "/v1/pay:now", adaptertest.Serve(t, r).RequireReplay(adaptertest.Call{Path: "/v1/pay:now"}).Body)
	require.NoError(t, ginidem.Audit(r, idem))
}

// A handler of NoRoute is no route: the guards let its requests pass, and the audit does not see it. Any is a route of each
// method.
//
// CONTRACT D-2, K-8
func TestAuditOfOwnedGroups(t *testing.T) {
	idem := adaptertest.NewModule(t, core.Config{Owns: []string{"/v1/pay"}, Routes: core.Routes{"POST /v1/pay": {Recovery: core.Park}}})
	never := func(*gin.Context) { t.Error("a handler ran") }
	r := gin.New()
	r.POST("/v1/pay", ginidem.JWTGuard(adaptertest.NewVerifier(t)), ginidem.Idempotent(idem), never)
	r.NoRoute(never)
	r.NoMethod(never)
	require.NoError(t, ginidem.Audit(r, idem))
	require.Empty(t, idem.Undeclared())
	r.Group("/v1").Any("/cart", never)
	require.NoError(t, ginidem.Audit(r, idem))
	require.Equal(t, []string{
		`"CONNECT /v1/cart": {Exempt: "TODO"},`, `"DELETE /v1/cart": {Exempt: "TODO"},`, `"PATCH /v1/cart": {Exempt: "TODO"},`,
		`"POST /v1/cart": {Exempt: "TODO"},`, `"PUT /v1/cart": {Exempt: "TODO"},`,
	}, idem.Undeclared())
	r.Group("/v1").Any("/pay/:id", never)
	require.ErrorContains(t, ginidem.Audit(r, idem), "PATCH /v1/pay/:id: this route is not in the table")
}
