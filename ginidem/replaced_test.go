package ginidem_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/internal/adaptertest"
)

// Handlers and inner middleware may replace request and writer, and leave them so.
//
// CONTRACT X-12
func TestReplacedRequestAndWriter(t *testing.T) {
	type own struct{}
	for name, inner := range map[string]gin.HandlerFunc{
		"request": func(c *gin.Context) {
			c.Request = c.Request.WithContext(context.WithValue(c.Request.Context(), own{}, 1))
		},
		"writer": func(c *gin.Context) { c.Writer = struct{ gin.ResponseWriter }{c.Writer} },
		"buffer": func(c *gin.Context) {
			b := &buffer{ResponseWriter: c.Writer, header: http.Header{}}
			c.Writer = b
			c.Next()
			b.ResponseWriter.WriteHeader(http.StatusCreated)
			_, _ = b.ResponseWriter.Write(b.body.Bytes())
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := gin.New()
			guarded(t, r, core.Config{}).POST("/pay", inner, func(c *gin.Context) { c.String(http.StatusCreated, "paid") })
			got := adaptertest.Serve(t, r).RequireReplay(adaptertest.Call{})
			require.Equal(t, http.StatusCreated, got.Status)
			require.Equal(t, "paid", got.Body)
		})
	}
}
