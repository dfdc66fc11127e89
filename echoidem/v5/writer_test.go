package echoidem_test

import (
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/echoidem/v5"
	"github.com/auth19/idem/internal/adaptertest"
)

// 1xx is no status, and no answer that an error would come too late for.
//
// CONTRACT R-4
func TestInformational(t *testing.T) {
	hints := func(c *echo.Context) {
		c.Response().Header().Set("Link", "</a>; rel=preload")
		c.Response().WriteHeader(http.StatusEarlyHints)
	}
	e := echo.New()
	e.Logger = slog.New(slog.DiscardHandler)
	v1 := guarded(t, e, core.Config{})
	v1.POST("/hints", func(c *echo.Context) error { hints(c); _, err := io.WriteString(c.Response(), "paid"); return err })
	v1.POST("/around", func(c *echo.Context) error {
		responseOf(c).ResponseWriter.WriteHeader(http.StatusEarlyHints)
		return c.JSON(http.StatusCreated, 1)
	})
	v1.POST("/alone", func(c *echo.Context) error { hints(c); return nil })
	v1.POST("/failed", func(c *echo.Context) error { hints(c); return echo.NewHTTPError(http.StatusPaymentRequired, "") })
	a := adaptertest.Serve(t, e)
	for path, status := range map[string]int{"/v1/hints": 200, "/v1/around": 201, "/v1/alone": 200, "/v1/failed": 402} {
		require.Equal(t, status, a.RequireReplay(adaptertest.Call{Path: path, Key: path}).Status, path)
	}
}

// Outside, compression is each answer's own; inside, it is part of what is recorded.
//
// CONTRACT
func TestCompression(t *testing.T) {
	handler := func(c *echo.Context) error {
		return c.JSON(http.StatusCreated, map[string]any{"long": strings.Repeat("x", 1000)})
	}
	failing := func(*echo.Context) error { return echo.NewHTTPError(http.StatusPaymentRequired, "declined") }
	short := middleware.GzipWithConfig(middleware.GzipConfig{MinLength: 500}) // keeps a short answer back, and its header
	e := echo.New()
	e.Logger = slog.New(slog.DiscardHandler)
	guard, money := echoidem.JWTGuard(adaptertest.NewVerifier(t)), echoidem.Idempotent(adaptertest.NewModule(t, core.Config{}))
	e.POST("/outside", handler, middleware.Gzip(), guard, money)
	e.POST("/outside/failing", failing, middleware.Gzip(), guard, money)
	e.POST("/outside/short", failing, short, guard, money)
	e.POST("/inside", handler, guard, money, middleware.Gzip())
	e.POST("/inside/failing", failing, guard, money, middleware.Gzip())
	adaptertest.Compression(t, e, `{"long":"`+strings.Repeat("x", 1000)+`"}`+"\n", `{"message":"declined"}`+"\n",
		"/outside/short", "/inside/failing")
}

// What outer middleware sets, hooks included, is each answer's own. What the handler sets reaches the first client
// whole, and a repeat as far as it may be recorded.
//
// CONTRACT R-3
func TestHeaders(t *testing.T) {
	var requests, befores, afters atomic.Int64
	e := echo.New()
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			h := c.Response().Header()
			h.Set("X-Request-Id", strconv.FormatInt(requests.Add(1), 10))
			h.Set("X-Removed", "outer")
			h.Set("X-Replaced", "outer")
			responseOf(c).Before(func() {
				befores.Add(1)
				c.SetCookie(&http.Cookie{Name: "session", Value: "outer"})
				h.Set("Link", "</outer>")
			})
			responseOf(c).After(func() { afters.Add(1) })
			return next(c)
		}
	})
	guarded(t, e, core.Config{}).POST("/pay", func(c *echo.Context) error {
		assert.Zero(t, befores.Load(), "hooks run when the answer leaves")
		h := c.Response().Header()
		assert.Equal(t, "outer", h.Get("X-Removed"), "the handler sees them")
		h.Del("X-Removed")
		h.Set("X-Replaced", "handler")
		h.Set("X-Handler", "1")
		h.Set("Location", "/v1/payments/1")
		h.Set("Retry-After", "7")
		c.SetCookie(&http.Cookie{Name: "card", Value: "handler"})
		responseOf(c).Before(func() { h.Set("ETag", `"1"`) }) // the handler's own hook
		return c.JSON(http.StatusCreated, 1)
	})
	a := adaptertest.Serve(t, e)
	first := a.Do(adaptertest.Call{Key: "key-1"})
	require.EqualValues(t, 1, befores.Load())
	require.EqualValues(t, 1, afters.Load())
	require.Equal(t, "1", first.Header.Get("X-Request-Id"))
	require.Empty(t, first.Header.Get("X-Removed"))
	require.Equal(t, []string{"handler"}, first.Header["X-Replaced"])
	require.Equal(t, "1", first.Header.Get("X-Handler"))
	require.Equal(t, `"1"`, first.Header.Get("ETag"))
	require.Len(t, first.Header["Set-Cookie"], 2)
	require.Equal(t, "7", first.Header.Get("Retry-After"))

	again := a.Do(adaptertest.Call{Key: "key-1"})
	require.EqualValues(t, 2, befores.Load())
	require.Equal(t, "/v1/payments/1", again.Header.Get("Location"))
	require.Equal(t, `"1"`, again.Header.Get("ETag"))
	require.Equal(t, "2", again.Header.Get("X-Request-Id"))
	require.Equal(t, "outer", again.Header.Get("X-Removed"))
	require.Equal(t, []string{"outer"}, again.Header["X-Replaced"])
	require.Equal(t, []string{"</outer>"}, again.Header["Link"])
	require.Empty(t, again.Header.Get("X-Handler"))
	require.Empty(t, again.Header.Get("Retry-After"))
	require.Len(t, again.Header["Set-Cookie"], 1)
	require.Contains(t, again.Header.Get("Set-Cookie"), "session=outer")
}

// BodyDump inside the guard sees what the handler saw and wrote. Errors are rendered behind it, and recorded once.
//
// CONTRACT R-1, H-5
func TestBodyDump(t *testing.T) {
	for name, errorHandler := range map[string]echo.HTTPErrorHandler{"default": echo.DefaultHTTPErrorHandler(false), "careless": careless} {
		t.Run(name, func(t *testing.T) {
			var dumps []string
			e := echo.New()
			e.HTTPErrorHandler = errorHandler
			v1 := guarded(t, e, core.Config{})
			v1.Use(middleware.BodyDump(func(_ *echo.Context, in, out []byte, _ error) { dumps = append(dumps, string(in), string(out)) }))
			v1.POST("/pay", func(c *echo.Context) error { return c.Stream(http.StatusCreated, "text/plain", c.Request().Body) })
			v1.POST("/failing", func(*echo.Context) error { return echo.NewHTTPError(http.StatusPaymentRequired, "declined") })
			a := adaptertest.Serve(t, e)
			paid := a.RequireReplay(adaptertest.Call{Key: "key-1", Body: "ten"})
			declined := a.RequireReplay(adaptertest.Call{Path: "/v1/failing", Key: "key-2", Body: "two"})
			require.Equal(t, http.StatusPaymentRequired, declined.Status)
			require.Equal(t, []string{"ten", paid.Body, "two", ""}, dumps, "of the attempts, not of the replays")
		})
	}
}
