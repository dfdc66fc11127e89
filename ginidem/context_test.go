package ginidem_test

import (
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/internal/adaptertest"
)

// A *gin.Context is no request context: Tx says so instead of writing past the attempt.
func TestGinContextAsContext(t *testing.T) {
	for _, fallback := range []bool{false, true} {
		sqlite := adaptertest.NewSQLite(t)
		var said any
		r := gin.New()
		r.ContextWithFallback = fallback
		r.Use(gin.CustomRecoveryWithWriter(nil, func(c *gin.Context, v any) {
			said = v
			c.Status(http.StatusInternalServerError)
		}))
		guarded(t, r, sqlite.Config()).POST("/pay", func(c *gin.Context) {
			tx := gormstore.Tx(c) // its statements need the request's context all the same: see the package's comment
			adaptertest.PayWith(t, tx.WithContext(c.Request.Context()))
			c.Status(http.StatusCreated)
		})
		got := adaptertest.Serve(t, r).Do(adaptertest.Call{Key: "key-1"})
		if fallback {
			require.Equal(t, http.StatusCreated, got.Status)
			require.EqualValues(t, 1, sqlite.Payments(t))
			continue
		}
		require.Equal(t, http.StatusInternalServerError, got.Status)
		require.Contains(t, said, "c.Request.Context() in Gin")
		require.Zero(t, sqlite.Payments(t))
	}
}
