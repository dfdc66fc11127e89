package ginidem

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"
)

// A route's method is looked up once, and then known. It is that of the engine's tree, not that of the request.
func TestMethodsLearn(t *testing.T) {
	m := &methods{}
	for range 2 { // two engines with the same guard
		r := gin.New()
		var allocations float64
		guard := func(c *gin.Context) {
			require.Empty(t, m.unguardable(c))
			allocations = testing.AllocsPerRun(100, func() { m.unguardable(c) })
			for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodHead} {
				was := c.Request.Method
				c.Request.Method = method
				refused := m.unguardable(c) != ""
				require.Equal(t, method != was && (was != http.MethodGet || method != http.MethodHead), refused, "%s %s", was, method)
				c.Request.Method = was
			}
		}
		for _, method := range []string{http.MethodPost, http.MethodGet} {
			r.Handle(method, "/a", guard)
		}
		for _, method := range []string{http.MethodPost, http.MethodGet} {
			r.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), method, "/a", http.NoBody))
			require.Zero(t, allocations)
		}
		r.NoRoute(func(c *gin.Context) { require.Empty(t, m.unguardable(c)) })
		r.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/b", http.NoBody))
	}
	require.Len(t, *m.known.Load(), 4)
}
