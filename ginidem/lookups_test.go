package ginidem_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/ginidem"
)

// lookups counts what is asked of a request's context.
type lookups struct {
	context.Context
	asked map[string]int
}

func (l lookups) Value(key any) any {
	l.asked[fmt.Sprintf("%T", key)]++
	return l.Context.Value(key)
}

// Roles guard, key guard and interceptor in one ask for the principal once.
func TestIdempotentAsksForThePrincipalOnce(t *testing.T) {
	asked := map[string]int{}
	r := gin.New()
	r.Use(ginidem.JWTGuard(newVerifier(t)), func(c *gin.Context) {
		c.Request = c.Request.WithContext(lookups{c.Request.Context(), asked})
	})
	idem := newModule(t, core.Config{Routes: core.Routes{"POST /v1/pay": {Recovery: core.Park, Roles: []string{"customer"}}}})
	r.POST("/v1/pay", ginidem.Idempotent(idem), func(c *gin.Context) { c.JSON(http.StatusCreated, 1) })
	a := serve(t, r)
	for range 2 { // the first request, and a replay
		clear(asked)
		require.Equal(t, http.StatusCreated, a.do(call{key: "key-1"}).status)
		require.Equal(t, 1, asked["authctx.contextKey"], asked)
	}
}
