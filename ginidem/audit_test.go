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
	never := func(*gin.Context) { t.Error("a handler ran") }
	adaptertest.Audit(t, adapter, map[string]adaptertest.Audited{
		"on the engine": {Mount: func(a adaptertest.App, g guards) {
			a.Use(g.JWT)
			a.Handle(http.MethodPost, "/v1/pay", g.Never, g.Idempotent)
		}},
		"with options": {Mount: func(a adaptertest.App, g guards) {
			idem := adaptertest.NewModule(t, core.Config{})
			money := ginidem.Idempotent(idem, ginidem.WithErrorRenderer(never))
			a.Handle(http.MethodPost, "/v1/pay", g.Never, g.JWT, money)
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

// Gin runs the handlers in the order in which they are given: a guard as the last one guards nothing.
//
// CONTRACT D-2, O-1
func TestAuditGuardIsLast(t *testing.T) {
	idem := adaptertest.NewModule(t, core.Config{Routes: core.Routes{
		"POST /v1/pay": {Recovery: core.Park}, "GET /v1/ledger": {Roles: []string{"operator"}},
	}})
	jwt, guard := ginidem.JWTGuard(adaptertest.NewVerifier(t)), ginidem.Idempotent(idem)
	never := func(*gin.Context) { t.Error("a handler ran") }
	const last = ": has a guard as its last handler"
	for name, test := range map[string]struct {
		pay, ledger []gin.HandlerFunc
		want        string
	}{
		"Gin's order":            {[]gin.HandlerFunc{jwt, guard, never}, []gin.HandlerFunc{jwt, guard, never}, ""},
		"Echo's order":           {[]gin.HandlerFunc{never, jwt, guard}, []gin.HandlerFunc{jwt, guard, never}, "POST /v1/pay" + last},
		"between the guards":     {[]gin.HandlerFunc{jwt, never, guard}, []gin.HandlerFunc{jwt, guard, never}, "POST /v1/pay" + last},
		"no handler":             {[]gin.HandlerFunc{jwt, guard}, []gin.HandlerFunc{jwt, guard, never}, "POST /v1/pay" + last},
		"a read of Echo's order": {[]gin.HandlerFunc{jwt, guard, never}, []gin.HandlerFunc{never, jwt, guard}, "GET /v1/ledger" + last},
	} {
		t.Run(name, func(t *testing.T) {
			r := gin.New()
			r.POST("/v1/pay", test.pay...)
			r.GET("/v1/ledger", test.ledger...)
			if err := ginidem.Audit(r, idem); test.want != "" {
				require.ErrorContains(t, err, test.want)
			} else {
				require.NoError(t, err)
			}
		})
	}
	// With something behind the guards it is in the table, where a rate limiter would stand, too.
	r := gin.New()
	r.POST("/v1/pay", never, jwt, guard, func(*gin.Context) {})
	r.GET("/v1/ledger", jwt, guard, never)
	require.NoError(t, ginidem.Audit(r, idem))
	require.Contains(t, idem.Table()[1], "POST /v1/pay: Park; in front of its guards: ginidem_test.TestAuditGuardIsLast.func")
}

// Gin copies the handlers of a route, so what the app does to its slice afterwards changes neither the route nor the audit.
//
// CONTRACT D-2
func TestAuditOfSharedSlices(t *testing.T) {
	idem := adaptertest.NewModule(t, core.Config{})
	jwt, guard := ginidem.JWTGuard(adaptertest.NewVerifier(t)), ginidem.Idempotent(idem)
	never, open := func(*gin.Context) { t.Error("a handler ran") }, func(*gin.Context) {}
	base := append(make([]gin.HandlerFunc, 0, 4), jwt)
	r := gin.New()
	v1 := r.Group("/v1")
	v1.POST("/open", append(base, open, never)...)
	r.Group("/v2", append(base, open)...).POST("/open", never)
	v1.POST("/pay", append(base, guard, never)...) // over the same array
	v1.Use(guard)                                  // too late
	err := ginidem.Audit(r, idem)
	for _, path := range []string{"/v1/open", "/v2/open"} {
		require.ErrorContains(t, err, "POST "+path+": is not behind the roles guard, key guard, interceptor")
	}
	require.NotContains(t, err.Error(), "/pay")
	base[0] = open // nothing changes
	require.EqualError(t, ginidem.Audit(r, idem), err.Error())
}
