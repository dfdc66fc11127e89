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
			bare := adaptertest.Serve(t, mount())
			a := adaptertest.Serve(t, mount(ginidem.JWTGuard(adaptertest.NewVerifier(t)), ginidem.Idempotent(adaptertest.NewModule(t, cfg))))
			for _, c := range []adaptertest.Call{
				{Method: "GET"}, {Method: "HEAD"}, {Method: "OPTIONS"},
				{Method: "PUT"}, {Method: "DELETE"}, {Method: "BREW"},
				{Path: "/v1/nope"}, {Path: "/"}, {Path: "/v1"}, {Path: "/v1/"}, {Path: "/v1/pay/"}, {Path: "/v1/orders/1/2"},
				{Method: "GET", Path: "/v1/orders/1"}, {Method: "GET", Path: "/v1/static/doc.go"}, {Path: "/v1/static/doc.go"},
				{Method: "GET", Path: "/v1/static/nope"}, {Method: "GET", Path: "/v1/nope", Key: "k"}, {Path: "/v1/nope", Key: "k"},
			} {
				want, got := bare.Do(c), a.Do(c)
				require.Equal(t, want.Status, got.Status, "%+v", c)
				require.Equal(t, want.Body, got.Body, "%+v", c)
				require.Empty(t, got.Header.Get("Idempotency-Result"), "%+v", c)
			}
			for _, c := range []adaptertest.Call{{Path: "/v1/pay"}, {Path: "/v1/orders/7"}, {Method: "PUT", Path: "/v1/files/a/b"}} {
				adaptertest.RequireProblem(t, http.StatusBadRequest, "key_missing", a.Do(c))
			}
			require.Equal(t, "/v1/orders/:id 7", a.RequireReplay(adaptertest.Call{Path: "/v1/orders/7", Key: "key-1"}).Body)
			adaptertest.RequireProblem(t, http.StatusConflict, "key_reused", a.Do(adaptertest.Call{Path: "/v1/orders/8", Key: "key-1"}))
		})
	}
}
