package ginidem_test

import (
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
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

// HandleContext writes past every writer of middleware, also one that shows nothing of what is behind it. No success leaves,
// and a refusal does not say of a provider's call that nothing was carried out.
//
// CONTRACT X-12, C-2
func TestHandleContextBehindAHiddenWriter(t *testing.T) {
	type inner = gin.ResponseWriter
	for _, recovery := range []core.Recovery{core.Rollback, core.Park} {
		for _, status := range []int{http.StatusOK, http.StatusFound, http.StatusPaymentRequired} {
			sqlite, r := adaptertest.NewSQLite(t), gin.New()
			r.Use(func(c *gin.Context) { c.Writer = struct{ inner }{c.Writer} })
			guarded(t, r, core.Config{Store: sqlite.Store, Policy: core.Policy{Recovery: recovery}}).POST("/pay", func(c *gin.Context) {
				if recovery == core.Rollback {
					adaptertest.Pay(t, c.Request.Context())
				}
				c.Request.URL.Path = "/other"
				r.HandleContext(c)
			})
			r.POST("/other", func(c *gin.Context) { c.String(status, "paid") })
			got := adaptertest.Serve(t, r).Do(adaptertest.Call{Key: "key-1"})
			require.NoError(t, got.Err)
			require.GreaterOrEqual(t, got.Status, http.StatusBadRequest)
			require.Equal(t, recovery == core.Park, got.Result() == "unknown", "%s %d", recovery, status)
			require.Zero(t, sqlite.Payments(t))
		}
	}
}
