package ginidem_test

import (
	"context"
	"io"
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

// A request that is not derived from the attempt's says nothing of the attempt. The client is told, and not with 200.
//
// CONTRACT X-12
func TestRequestWithoutTheAttempt(t *testing.T) {
	for name, end := range map[string]gin.HandlerFunc{
		"answer": func(c *gin.Context) { c.String(http.StatusCreated, "paid") },
		"error":  func(c *gin.Context) { _ = c.Error(errDeclined) },
		"panic":  func(*gin.Context) { panic("declined") },
	} {
		t.Run(name, func(t *testing.T) {
			r := gin.New()
			r.Use(gin.CustomRecoveryWithWriter(io.Discard, func(c *gin.Context, _ any) { c.Status(http.StatusInternalServerError) }))
			guarded(t, r, core.Config{}).POST("/pay", func(c *gin.Context) {
				c.Request = c.Request.WithContext(context.Background())
				end(c)
			})
			adaptertest.Serve(t, r).RequireUnknown(name != "panic")
		})
	}
}
