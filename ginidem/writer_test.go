package ginidem_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/ginidem"
	"github.com/auth19/idem/internal/adaptertest"
)

// The handler's writer behaves as Gin's own does.
func TestWriter(t *testing.T) {
	r := gin.New()
	mount := func(path string, guards ...gin.HandlerFunc) {
		r.POST(path, append(guards, func(c *gin.Context) {
			w := c.Writer
			assert.Equal(t, http.StatusOK, w.Status())
			assert.Equal(t, -1, w.Size())
			assert.False(t, w.Written())
			w.WriteHeader(http.StatusCreated)
			w.WriteHeader(-1) // no status
			w.WriteHeader(0)
			assert.Equal(t, http.StatusCreated, w.Status())
			assert.False(t, w.Written())
			w.WriteHeaderNow()
			assert.True(t, w.Written())
			assert.Equal(t, 0, w.Size())
			w.WriteHeader(http.StatusTeapot) // too late
			assert.Equal(t, http.StatusCreated, w.Status())
			n, err := w.Write([]byte("ab"))
			assert.NoError(t, err)
			assert.Equal(t, 2, n)
			n, err = io.WriteString(w, "cde")
			assert.NoError(t, err)
			assert.Equal(t, 3, n)
			assert.Equal(t, 5, w.Size())
			assert.Nil(t, w.Pusher())
			w.Flush()
			w.WriteHeaderNow()
		})...)
	}
	mount("/bare")
	mount("/v1/pay", ginidem.JWTGuard(adaptertest.NewVerifier(t)), ginidem.Idempotent(adaptertest.NewModule(t, core.Config{})))
	a := adaptertest.Serve(t, r)
	want, got := a.Do(adaptertest.Call{Path: "/bare"}), a.RequireReplay(adaptertest.Call{})
	require.Equal(t, want.Status, got.Status)
	require.Equal(t, want.Body, got.Body)
}

// A status that outer middleware has set is the handler's to begin with, and an answer without a body has left when
// outer middleware goes on.
func TestOuterStatus(t *testing.T) {
	r := gin.New()
	r.Use(func(c *gin.Context) {
		c.Status(http.StatusAccepted)
		c.Next()
		assert.True(t, c.Writer.Written())
	})
	guarded(t, r, core.Config{}).POST("/pay", func(*gin.Context) {})
	require.Equal(t, http.StatusAccepted, adaptertest.Serve(t, r).RequireReplay(adaptertest.Call{}).Status)
}

// A renderer writes past the compression of inner middleware, whose encoding is not announced. That of outer middleware is.
//
// CONTRACT R-1
func TestRenderedPastCompression(t *testing.T) {
	announce := func(encoding string) gin.HandlerFunc {
		return func(c *gin.Context) { c.Header("Content-Encoding", encoding) }
	}
	r := gin.New()
	guard := ginidem.JWTGuard(adaptertest.NewVerifier(t))
	money := ginidem.Idempotent(adaptertest.NewModule(t, core.Config{}), ginidem.WithErrorRenderer(renderErrors))
	failing := func(c *gin.Context) { _ = c.Error(errDeclined) }
	r.POST("/both", announce("x-outer"), guard, money, announce("x-inner"), failing)
	r.POST("/inside", guard, money, announce("x-inner"), failing)
	client := adaptertest.Serve(t, r)
	for path, encoding := range map[string]string{"/both": "x-outer", "/inside": ""} {
		got := client.RequireReplay(adaptertest.Call{Path: path, Key: path})
		require.JSONEq(t, `{"error":"declined"}`, got.Body)
		require.Equal(t, encoding, got.Header.Get("Content-Encoding"))
	}
}

// Without a server that can hijack or flush, guarded routes work as well.
func TestRecorder(t *testing.T) {
	r := gin.New()
	guarded(t, r, core.Config{}).POST("/pay", func(c *gin.Context) {
		c.Writer.Flush()
		c.Stream(func(w io.Writer) bool { _, _ = io.WriteString(w, "x"); return false })
	})
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/pay", strings.NewReader("{}"))
	req.Header.Set("Authorization", "Bearer "+adaptertest.Sign(t, adaptertest.ClaimsOf("customer-1")))
	req.Header.Set("Idempotency-Key", "key-1")
	rec := httptest.NewRecorder()
	r.ServeHTTP(struct{ http.ResponseWriter }{rec}, req)
	require.Equal(t, http.StatusOK, rec.Code)
	require.Equal(t, "x", rec.Body.String())
}
