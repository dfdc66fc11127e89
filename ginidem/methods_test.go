package ginidem_test

import (
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/ginidem"
)

// A method that nobody has heard of is not safe: it needs a key, or its route is refused.
//
// CONTRACT K-8, O-4
func TestCustomMethods(t *testing.T) {
	methods := []string{"PURGE", "LINK", "PROPFIND", "CONNECTED"} // Gin takes no others
	undeclared, err := core.New(core.Config{Store: memstore.New(), Routes: core.Routes{"POST /v1/pay": {Recovery: core.Park}}})
	require.NoError(t, err)
	r := gin.New()
	guard := ginidem.JWTGuard(newVerifier(t))
	guarded, table := r.Group("/v1", guard, ginidem.Idempotent(newModule(t, core.Config{}))), r.Group("/table", guard, ginidem.Idempotent(undeclared))
	only := r.Group("/only", guard, ginidem.Idempotent(newModule(t, core.Config{})))
	pay := func(c *gin.Context) { c.String(http.StatusCreated, c.Request.Method) }
	only.POST("/pay", pay)
	for _, method := range methods {
		guarded.Handle(method, "/pay", pay)
		table.Handle(method, "/pay", pay)
	}
	a := serve(t, r)
	for _, method := range methods {
		requireProblem(t, http.StatusBadRequest, "key_missing", a.do(call{method: method}))
		require.Equal(t, method, a.requireReplay(call{method: method, key: method}).body)
		requireProblem(t, http.StatusConflict, "key_reused", a.do(call{method: "LINK", key: method, path: "/v1/pay", body: "x"}))
		requireProblem(t, http.StatusInternalServerError, "route_undeclared", a.do(call{method: method, path: "/table/pay", key: method}))
	}
	for _, method := range append(methods, "post", "Post", "get") { // the router knows no such route
		require.Equal(t, http.StatusNotFound, a.do(call{method: method, path: "/only/pay"}).status, method)
	}
}
