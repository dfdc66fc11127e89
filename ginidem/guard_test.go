package ginidem_test

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/ginidem"
)

func TestFirst(t *testing.T) {
	var runs atomic.Int64
	r := gin.New()
	v1 := r.Group("/v1", ginidem.JWTGuard(newVerifier(t)), ginidem.Money(newModule(t, core.Config{})))
	v1.POST("/pay", func(c *gin.Context) { c.JSON(http.StatusCreated, gin.H{"run": runs.Add(1)}) })
	a := serve(t, r)
	first := a.requireReplay(call{})
	require.Equal(t, http.StatusCreated, first.status)
	requireProblem(t, 400, "key_missing", a.do(call{}))
	requireProblem(t, 401, "unauthenticated", a.do(call{token: "-", key: "k"}))
	require.Equal(t, 404, a.do(call{path: "/v1/nope"}).status)
}
