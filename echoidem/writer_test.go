package echoidem_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/echoidem"
	"github.com/auth19/idem/internal/adaptertest"
)

// Outside, compression is each answer's own; inside, it is part of what is recorded.
//
// CONTRACT
func TestCompression(t *testing.T) {
	handler := func(c echo.Context) error {
		return c.JSON(http.StatusCreated, echo.Map{"long": strings.Repeat("x", 1000)})
	}
	failing := func(echo.Context) error { return echo.NewHTTPError(http.StatusPaymentRequired, "declined") }
	short := middleware.GzipWithConfig(middleware.GzipConfig{MinLength: 500}) // keeps a short answer back, and its header
	for name, errorHandler := range map[string]echo.HTTPErrorHandler{"default": nil, "careless": careless} {
		t.Run(name, func(t *testing.T) {
			e := echo.New()
			e.Logger.SetOutput(io.Discard)
			declined := `{"message":"declined"}` + "\n"
			if errorHandler != nil {
				e.HTTPErrorHandler = errorHandler
				declined = "careless: code=402, message=declined"
			}
			guard, money := echoidem.JWTGuard(adaptertest.NewVerifier(t)), echoidem.Idempotent(adaptertest.NewModule(t, core.Config{}))
			e.POST("/outside", handler, middleware.Gzip(), guard, money)
			e.POST("/outside/failing", failing, middleware.Gzip(), guard, money)
			e.POST("/outside/short", failing, short, guard, money)
			e.POST("/inside", handler, guard, money, middleware.Gzip())
			e.POST("/inside/failing", failing, guard, money, middleware.Gzip())
			adaptertest.Compression(t, e, `{"long":"`+strings.Repeat("x", 1000)+`"}`+"\n", declined,
				"/outside/short", "/inside/failing")
		})
	}
}

// Echo's hooks run when the answer leaves. What those of outer middleware set is each answer's own, and what the handler's
// set is recorded.
//
// CONTRACT R-3
func TestHooks(t *testing.T) {
	var befores, afters atomic.Int64
	e := echo.New()
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			c.Response().Before(func() {
				befores.Add(1)
				c.SetCookie(&http.Cookie{Name: "session", Value: "outer"})
				c.Response().Header().Set("Link", "</outer>")
			})
			c.Response().After(func() { afters.Add(1) })
			return next(c)
		}
	})
	guarded(t, e, core.Config{}).POST("/pay", func(c echo.Context) error {
		assert.Zero(t, befores.Load())
		c.SetCookie(&http.Cookie{Name: "card", Value: "handler"})
		c.Response().Before(func() { c.Response().Header().Set("ETag", `"1"`) })
		return c.JSON(http.StatusCreated, 1)
	})
	a := adaptertest.Serve(t, e)
	first := a.Do(adaptertest.Call{Key: "key-1"})
	require.EqualValues(t, 1, befores.Load())
	require.EqualValues(t, 1, afters.Load())
	require.Equal(t, `"1"`, first.Header.Get("ETag"))
	require.Len(t, first.Header["Set-Cookie"], 2)

	again := a.Do(adaptertest.Call{Key: "key-1"})
	require.EqualValues(t, 2, befores.Load())
	require.Equal(t, `"1"`, again.Header.Get("ETag"))
	require.Equal(t, []string{"</outer>"}, again.Header["Link"])
	require.Len(t, again.Header["Set-Cookie"], 1)
	require.Contains(t, again.Header.Get("Set-Cookie"), "session=outer")
}

// BodyDump inside the guard sees what the handler saw and wrote, and renders errors first. They are answered and recorded
// once.
//
// CONTRACT R-1, H-5
func TestBodyDump(t *testing.T) {
	for name, errorHandler := range map[string]echo.HTTPErrorHandler{"default": echo.New().DefaultHTTPErrorHandler, "careless": careless} {
		t.Run(name, func(t *testing.T) {
			var dumps []string
			e := echo.New()
			e.HTTPErrorHandler = errorHandler
			v1 := guarded(t, e, core.Config{})
			v1.Use(middleware.BodyDump(func(_ echo.Context, in, out []byte) { dumps = append(dumps, string(in), string(out)) }))
			v1.POST("/pay", func(c echo.Context) error { return c.Stream(http.StatusCreated, "text/plain", c.Request().Body) })
			v1.POST("/failing", func(echo.Context) error { return echo.NewHTTPError(http.StatusPaymentRequired, "declined") })
			a := adaptertest.Serve(t, e)
			paid := a.RequireReplay(adaptertest.Call{Key: "key-1", Body: "ten"})
			declined := a.RequireReplay(adaptertest.Call{Path: "/v1/failing", Key: "key-2", Body: "two"})
			require.Equal(t, http.StatusPaymentRequired, declined.Status)
			require.Equal(t, []string{"ten", paid.Body, "two", declined.Body}, dumps, "of the attempts, not of the replays")
		})
	}
}
