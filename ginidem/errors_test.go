package ginidem_test

import (
	"fmt"
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

// Outer middleware sees the error of the first request, and of no replay. Nothing is rendered that nobody could send, and
// what Gin itself could not render is an error, too.
//
// CONTRACT R-1
func TestErrorRenderer(t *testing.T) {
	var seen atomic.Int64
	r := gin.New()
	r.Use(func(c *gin.Context) {
		c.Next()
		seen.Add(int64(len(c.Errors)))
	}, errorMiddleware(renderErrors))
	v1 := guarded(t, r, core.Config{}, ginidem.WithErrorRenderer(renderErrors))
	client := adaptertest.Serve(t, r)
	for path, handler := range map[string]gin.HandlerFunc{
		"/402": func(c *gin.Context) { _ = c.Error(errDeclined) },
		"/409": func(c *gin.Context) { _ = c.AbortWithError(http.StatusConflict, errDeclined) },
		"/204": func(c *gin.Context) { _ = c.AbortWithError(http.StatusNoContent, errDeclined) },
		"/304": func(c *gin.Context) { _ = c.AbortWithError(http.StatusNotModified, errDeclined) },
	} {
		v1.POST(path, handler)
		seen.Store(0)
		got := client.RequireReplay(adaptertest.Call{Path: "/v1" + path, Key: path})
		require.Equal(t, path, fmt.Sprint("/", got.Status))
		require.EqualValues(t, 1, seen.Load(), path)
	}
	v1.POST("/unmarshalable", func(c *gin.Context) { c.JSON(http.StatusCreated, make(chan int)) })
	require.Contains(t, client.RequireReplay(adaptertest.Call{Path: "/v1/unmarshalable"}).Body, "unsupported type")
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
