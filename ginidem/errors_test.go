package ginidem_test

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/ginidem"
	"github.com/auth19/idem/internal/adaptertest"
)

// renderErrors is an error middleware's way to answer.
func renderErrors(c *gin.Context) {
	c.JSON(http.StatusPaymentRequired, gin.H{"error": c.Errors.Last().Error()})
}

// Outer middleware sees the errors of the first request, and of no replay. What Gin itself could not render is an error, too.
//
// CONTRACT R-1
func TestErrorRenderer(t *testing.T) {
	var seen atomic.Int64
	r := gin.New()
	r.Use(func(c *gin.Context) {
		c.Next()
		seen.Add(int64(len(c.Errors)))
	}, errorMiddleware(renderErrors))
	v1 := guarded(t, r, core.Config{}, ginidem.WithErrorRenderer(func(c *gin.Context) {
		if c.Writer.Written() {
			_, _ = c.Writer.WriteString("with the status that is set")
			return
		}
		renderErrors(c)
	}))
	v1.POST("/declined", func(c *gin.Context) { _ = c.Error(errDeclined) })
	v1.POST("/aborted", func(c *gin.Context) { _ = c.AbortWithError(http.StatusConflict, errDeclined) })
	v1.POST("/unmarshalable", func(c *gin.Context) { c.JSON(http.StatusCreated, make(chan int)) })
	client := adaptertest.Serve(t, r)
	got := client.RequireReplay(adaptertest.Call{Path: "/v1/declined"})
	require.Equal(t, http.StatusPaymentRequired, got.Status)
	require.EqualValues(t, 1, seen.Load())
	got = client.RequireReplay(adaptertest.Call{Path: "/v1/aborted", Key: "key-2"})
	require.Equal(t, http.StatusConflict, got.Status)
	require.Equal(t, "with the status that is set", got.Body)
	require.EqualValues(t, 2, seen.Load())
	got = client.RequireReplay(adaptertest.Call{Path: "/v1/unmarshalable", Key: "key-3"})
	require.Contains(t, got.Body, "unsupported type")
	require.EqualValues(t, 3, seen.Load())
}

// Without a renderer the error middleware of the app answers, or nobody.
//
// CONTRACT R-1
func TestUnrenderedErrors(t *testing.T) {
	for name, want := range map[string]adaptertest.Answer{
		"with":    {Status: http.StatusPaymentRequired, Body: `{"error":"declined"}`},
		"without": {Status: http.StatusInternalServerError},
	} {
		t.Run(name+" error middleware", func(t *testing.T) {
			adaptertest.Unrendered(t, func() (adaptertest.App, adaptertest.Adapter) {
				app := newApp()
				if name == "with" {
					app.engine.Use(errorMiddleware(renderErrors))
				}
				return app, adapter
			}, want)
		})
	}
}
