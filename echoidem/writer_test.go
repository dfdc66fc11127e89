package echoidem_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/echoidem"
	"github.com/auth19/idem/internal/mustrun"
)

// Nothing leaves around the capture, through Echo's response or around it.
//
// CONTRACT R-4
func TestNoWayAround(t *testing.T) {
	sqlite, looked := newSQLite(t), mustrun.New(t)
	e := echo.New()
	v1 := guarded(t, e, sqlite.config())
	v1.POST("/pay", func(c echo.Context) error {
		controller := http.NewResponseController(c.Response())
		_, _, err := controller.Hijack()
		assert.ErrorIs(t, err, http.ErrNotSupported)
		_, _, err = c.Response().Hijack()
		assert.ErrorIs(t, err, http.ErrNotSupported)
		_, unwraps := c.Response().Writer.(interface{ Unwrap() http.ResponseWriter })
		assert.False(t, unwraps)
		assert.NoError(t, c.String(http.StatusCreated, "not yet paid"))
		assert.NoError(t, controller.Flush())
		c.Response().Flush()
		pay(t, c)
		looked()
		panic("after a flush")
	})
	a := serve(t, e)
	require.Error(t, a.do(call{key: "key-1"}).err, "no byte has left")
	require.Zero(t, sqlite.payments(t))
}

// 1xx is no status, and no answer that an error would come too late for.
//
// CONTRACT R-4
func TestInformational(t *testing.T) {
	hints := func(c echo.Context) {
		c.Response().Header().Set("Link", "</a>; rel=preload")
		c.Response().WriteHeader(http.StatusEarlyHints)
	}
	e := echo.New()
	e.Logger.SetOutput(io.Discard)
	v1 := guarded(t, e, core.Config{})
	v1.POST("/hints", func(c echo.Context) error { hints(c); _, err := io.WriteString(c.Response(), "paid"); return err })
	v1.POST("/around", func(c echo.Context) error {
		c.Response().Writer.WriteHeader(http.StatusEarlyHints)
		return c.JSON(http.StatusCreated, 1)
	})
	v1.POST("/alone", func(c echo.Context) error { hints(c); return nil })
	v1.POST("/failed", func(c echo.Context) error { hints(c); return echo.NewHTTPError(http.StatusPaymentRequired) })
	a := serve(t, e)
	for path, status := range map[string]int{"/v1/hints": 200, "/v1/around": 201, "/v1/alone": 200, "/v1/failed": 402} {
		require.Equal(t, status, a.requireReplay(call{path: path, key: path}).status, path)
	}
}

// A route that allows streaming flushes before it is recorded; a repeat is told where the answer is.
//
// CONTRACT R-4
func TestStreaming(t *testing.T) {
	idem := newModule(t, core.Config{Routes: core.Routes{
		"POST /v1/pay":   {Recovery: core.Park, Streaming: true},
		"POST /v1/large": {Recovery: core.Park, MaxAnswer: 10},
	}})
	proceed := make(chan struct{})
	var runs atomic.Int64
	e := echo.New()
	e.Logger.SetOutput(io.Discard)
	e.HTTPErrorHandler = careless
	v1 := e.Group("/v1", echoidem.JWTGuard(newVerifier(t)), echoidem.Idempotent(idem))
	v1.POST("/pay", func(c echo.Context) error {
		runs.Add(1)
		c.Response().Header().Set("Location", "/v1/payments/1")
		c.Response().WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(c.Response(), "first ")
		c.Response().Flush()
		<-proceed // until the client has it
		_, _ = io.WriteString(c.Response(), "second")
		return errDeclined // too late for the error handler
	})
	v1.POST("/large", func(c echo.Context) error { return c.String(http.StatusCreated, strings.Repeat("x", 11)) })
	a := serve(t, e)

	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.server.URL+"/v1/pay", http.NoBody)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+a.token)
	req.Header.Set("Idempotency-Key", "key-1")
	res, err := a.server.Client().Do(req)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	part := make([]byte, len("first "))
	_, err = io.ReadFull(res.Body, part)
	require.NoError(t, err)
	close(proceed)
	rest, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, "first second", string(part)+string(rest))
	require.Equal(t, http.StatusCreated, res.StatusCode)
	require.Equal(t, "key-1", res.Header.Get("Idempotency-Key"))

	again := a.do(call{key: "key-1"})
	requireProblem(t, http.StatusConflict, "response_not_replayable", again)
	require.Contains(t, again.body, `"answer_status":201,"answer_location":"/v1/payments/1"`)
	require.EqualValues(t, 1, runs.Load())

	require.Equal(t, strings.Repeat("x", 11), a.do(call{path: "/v1/large", key: "key-2"}).body)
	requireProblem(t, http.StatusConflict, "response_not_replayable", a.do(call{path: "/v1/large", key: "key-2"}))
}

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
			guard, money := echoidem.JWTGuard(newVerifier(t)), echoidem.Idempotent(newModule(t, core.Config{}))
			e.POST("/outside", handler, middleware.Gzip(), guard, money)
			e.POST("/outside/failing", failing, middleware.Gzip(), guard, money)
			e.POST("/outside/short", failing, short, guard, money)
			e.POST("/inside", handler, guard, money, middleware.Gzip())
			e.POST("/inside/failing", failing, guard, money, middleware.Gzip())
			a := serve(t, e)
			zip := map[string]string{"Accept-Encoding": "gzip"}
			long := `{"long":"` + strings.Repeat("x", 1000) + `"}` + "\n"

			for path, want := range map[string]string{"/outside": long, "/inside": long, "/outside/failing": declined} {
				got := a.requireReplay(call{path: path, key: path, headers: zip})
				require.Equal(t, "gzip", got.header.Get("Content-Encoding"), path)
				require.Equal(t, want, unzip(t, got.body), path)
			}
			for _, path := range []string{"/outside/short", "/inside/failing"} {
				got := a.requireReplay(call{path: path, key: path, headers: zip})
				require.Empty(t, got.header.Get("Content-Encoding"), path)
				require.Equal(t, declined, got.body, path)
			}
			require.Equal(t, long, a.do(call{path: "/outside", key: "/outside"}).body, "a replay without compression")
			inside := a.do(call{path: "/inside", key: "/inside"})
			require.Equal(t, "gzip", inside.header.Get("Content-Encoding"), "what is recorded is compressed, whoever asks")
			require.Equal(t, long, unzip(t, inside.body))
			require.Equal(t, strconv.Itoa(len(inside.body)), inside.header.Get("Content-Length"))
			require.Equal(t, long, a.do(call{path: "/outside", key: "plain-first"}).body)
			outside := a.do(call{path: "/outside", key: "plain-first", headers: zip})
			require.Equal(t, "reused", outside.header.Get("Idempotency-Result"))
			require.Equal(t, long, unzip(t, outside.body))
		})
	}
}

func unzip(t testing.TB, body string) string {
	t.Helper()
	gz, err := gzip.NewReader(strings.NewReader(body))
	require.NoError(t, err)
	plain, err := io.ReadAll(gz)
	require.NoError(t, err)
	return string(plain)
}

// What outer middleware sets, hooks included, is each answer's own. What the handler sets reaches the first client
// whole, and a repeat as far as it may be recorded.
//
// CONTRACT R-3
func TestHeaders(t *testing.T) {
	var requests, befores, afters atomic.Int64
	e := echo.New()
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			h := c.Response().Header()
			h.Set("X-Request-Id", strconv.FormatInt(requests.Add(1), 10))
			h.Set("X-Removed", "outer")
			h.Set("X-Replaced", "outer")
			c.Response().Before(func() {
				befores.Add(1)
				c.SetCookie(&http.Cookie{Name: "session", Value: "outer"})
				h.Set("Link", "</outer>")
			})
			c.Response().After(func() { afters.Add(1) })
			return next(c)
		}
	})
	guarded(t, e, core.Config{}).POST("/pay", func(c echo.Context) error {
		assert.Zero(t, befores.Load(), "hooks run when the answer leaves")
		h := c.Response().Header()
		assert.Equal(t, "outer", h.Get("X-Removed"), "the handler sees them")
		h.Del("X-Removed")
		h.Set("X-Replaced", "handler")
		h.Set("X-Handler", "1")
		h.Set("Location", "/v1/payments/1")
		h.Set("Retry-After", "7")
		c.SetCookie(&http.Cookie{Name: "card", Value: "handler"})
		c.Response().Before(func() { h.Set("ETag", `"1"`) }) // the handler's own hook
		return c.JSON(http.StatusCreated, 1)
	})
	a := serve(t, e)
	first := a.do(call{key: "key-1"})
	require.EqualValues(t, 1, befores.Load())
	require.EqualValues(t, 1, afters.Load())
	require.Equal(t, "1", first.header.Get("X-Request-Id"))
	require.Empty(t, first.header.Get("X-Removed"))
	require.Equal(t, []string{"handler"}, first.header["X-Replaced"])
	require.Equal(t, "1", first.header.Get("X-Handler"))
	require.Equal(t, `"1"`, first.header.Get("ETag"))
	require.Len(t, first.header["Set-Cookie"], 2)
	require.Equal(t, "7", first.header.Get("Retry-After"))

	again := a.do(call{key: "key-1"})
	require.EqualValues(t, 2, befores.Load())
	require.Equal(t, "/v1/payments/1", again.header.Get("Location"))
	require.Equal(t, `"1"`, again.header.Get("ETag"))
	require.Equal(t, "2", again.header.Get("X-Request-Id"))
	require.Equal(t, "outer", again.header.Get("X-Removed"))
	require.Equal(t, []string{"outer"}, again.header["X-Replaced"])
	require.Equal(t, []string{"</outer>"}, again.header["Link"])
	require.Empty(t, again.header.Get("X-Handler"))
	require.Empty(t, again.header.Get("Retry-After"))
	require.Len(t, again.header["Set-Cookie"], 1)
	require.Contains(t, again.header.Get("Set-Cookie"), "session=outer")
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
			a := serve(t, e)
			paid := a.requireReplay(call{key: "key-1", body: "ten"})
			declined := a.requireReplay(call{path: "/v1/failing", key: "key-2", body: "two"})
			require.Equal(t, http.StatusPaymentRequired, declined.status)
			require.Equal(t, []string{"ten", paid.body, "two", declined.body}, dumps, "of the attempts, not of the replays")
		})
	}
}
