package echoidem

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"
)

// A route is looked up once, and then known.
func TestPatternsLearn(t *testing.T) {
	e := echo.New()
	e.POST("/a", echo.NotFoundHandler)
	e.PUT("/b/:id", echo.NotFoundHandler)
	request := func(method, path string) echo.Context {
		c := e.NewContext(httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody), httptest.NewRecorder())
		e.Router().Find(method, path, c)
		return c
	}
	p := &patterns{}
	a, b := request(http.MethodPost, "/a"), request(http.MethodPut, "/b/7")
	for range 2 {
		require.Equal(t, "/a", p.of(a))
		require.Equal(t, "/b/:id", p.of(b))
		require.Empty(t, p.of(request(http.MethodPost, "/b/7")))
		require.Empty(t, p.of(request(http.MethodPost, "/c")))
	}
	require.Len(t, p.known.Load().byHandler, 2)
	require.Zero(t, testing.AllocsPerRun(100, func() { p.of(a); p.unguardable(b) }))

	e.GET("/a", echo.NotFoundHandler) // a route that comes later, and the same ones of another app
	require.Equal(t, "/a", p.of(request(http.MethodGet, "/a")))
	require.Len(t, p.known.Load().byHandler, 3)
}
