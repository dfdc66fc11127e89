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
