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
	require.Equal(t, map[route]bool{{"POST", "/a"}: true, {"PUT", "/b/:id"}: true}, *p.known.Load())
	require.Zero(t, testing.AllocsPerRun(100, func() { p.of(a); p.of(b) }))
}
