package echoidem_test

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/internal/adaptertest"
	"github.com/auth19/idem/internal/mustrun"
)

// An error is rendered once, inside the recording; the middleware around the interceptor gets the very same error, and
// what it, or Echo, renders of it again is dropped.
//
// CONTRACT R-1
func TestReturnedError(t *testing.T) {
	declined := echo.NewHTTPError(http.StatusPaymentRequired, "declined")
	for name, outer := range map[string]echo.MiddlewareFunc{
		"Echo alone": func(next echo.HandlerFunc) echo.HandlerFunc { return next },
		"a middleware that renders": func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c *echo.Context) error {
				if err := next(c); err != nil {
					c.Echo().HTTPErrorHandler(c, err)
				}
				return nil
			}
		},
		"a middleware that renders and returns": func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c *echo.Context) error {
				err := next(c)
				if err != nil {
					c.Echo().HTTPErrorHandler(c, err)
				}
				return err
			}
		},
		"a middleware that turns it into another": func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c *echo.Context) error {
				if next(c) != nil {
					return echo.NewHTTPError(http.StatusTeapot, "another")
				}
				return nil
			}
		},
		"logger": middleware.RequestLoggerWithConfig(middleware.RequestLoggerConfig{
			HandleError: true, LogStatus: true, LogResponseSize: true,
			LogValuesFunc: func(_ *echo.Context, v middleware.RequestLoggerValues) error {
				if v.Error != nil {
					assert.Equal(t, http.StatusPaymentRequired, v.Status)
				}
				return nil
			},
		}),
		"gzip": middleware.Gzip(),
		"dump": middleware.BodyDump(func(_ *echo.Context, _, answer []byte, _ error) { assert.NotEmpty(t, answer) }),
	} {
		for style, handler := range map[string]echo.HTTPErrorHandler{"default": nil, "careless": careless} {
			t.Run(name+", "+style, func(t *testing.T) {
				var seen atomic.Int64
				e := echo.New()
				e.Logger = slog.New(slog.DiscardHandler)
				if handler != nil {
					e.HTTPErrorHandler = handler
				}
				e.Use(outer, func(next echo.HandlerFunc) echo.HandlerFunc {
					return func(c *echo.Context) error {
						err := next(c)
						if err != nil {
							seen.Add(1)
							assert.Same(t, declined, err)
							assert.True(t, responseOf(c).Committed)
							assert.Equal(t, http.StatusPaymentRequired, responseOf(c).Status)
							assert.Positive(t, responseOf(c).Size)
						}
						return err
					}
				})
				guarded(t, e, core.Config{}).POST("/pay", func(*echo.Context) error { return declined })
				got := adaptertest.Serve(t, e).RequireReplay(adaptertest.Call{})
				require.Equal(t, http.StatusPaymentRequired, got.Status)
				if handler == nil {
					require.JSONEq(t, `{"message":"declined"}`, got.Body)
				} else {
					require.Equal(t, "careless: code=402, message=declined", got.Body)
				}
				require.EqualValues(t, 1, seen.Load(), "of the first request, not of the replay")
			})
		}
	}
}

// An error handler that renders nothing leaves nobody knowing what happened: no success is told, or recorded.
//
// CONTRACT R-1
func TestSilentErrorHandler(t *testing.T) {
	sqlite := adaptertest.NewSQLite(t)
	for name, test := range map[string]struct {
		cfg  core.Config
		want string
	}{
		"Park":     {core.Config{}, "unknown"},
		"Rollback": {sqlite.Config(), ""},
	} {
		e := echo.New()
		e.HTTPErrorHandler = func(*echo.Context, error) {}
		guarded(t, e, test.cfg).POST("/pay", func(c *echo.Context) error { adaptertest.Pay(t, c.Request().Context()); return errDeclined })
		got := adaptertest.Serve(t, e).Do(adaptertest.Call{Key: "key-1"})
		require.Equal(t, http.StatusInternalServerError, got.Status, name)
		require.Empty(t, got.Body)
		require.Equal(t, test.want, got.Header.Get("Idempotency-Result"), name)
		require.Zero(t, sqlite.Payments(t))
	}
}

// An error is rendered into the recording, whatever response inner middleware has left in its place.
func TestErrorBehindInnerResponse(t *testing.T) {
	e := echo.New()
	guarded(t, e, core.Config{}).POST("/pay",
		func(*echo.Context) error { return echo.NewHTTPError(http.StatusPaymentRequired, "declined") },
		func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c *echo.Context) error {
				responseOf(c).ResponseWriter = closedWriter{responseOf(c).ResponseWriter}
				c.SetResponse(echo.NewResponse(closedWriter{responseOf(c).ResponseWriter}, c.Logger()))
				return next(c)
			}
		})
	require.JSONEq(t, `{"message":"declined"}`, adaptertest.Serve(t, e).RequireReplay(adaptertest.Call{}).Body)
}

type closedWriter struct{ http.ResponseWriter }

func (closedWriter) WriteHeader(int)           {}
func (closedWriter) Write([]byte) (int, error) { return 0, errors.New("closed") }

// What a handler leaves in Echo's context is there for the middleware around the interceptor, and the request and the
// response are its own again.
func TestOuterContext(t *testing.T) {
	e := echo.New()
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			request, response := c.Request(), c.Response()
			failed := next(c)
			assert.Equal(t, "worked", c.Get("handler"))
			assert.Same(t, response, c.Response())
			assert.Equal(t, request.URL, c.Request().URL)
			assert.NoError(t, c.Request().Context().Err(), "not the attempt's")
			_, inAttempt := core.Operation(c.Request().Context())
			assert.False(t, inAttempt)
			sent, err := echo.UnwrapResponse(response)
			assert.NoError(t, err)
			assert.True(t, sent.Committed)
			assert.Equal(t, http.StatusConflict, sent.Status)
			assert.EqualValues(t, 3, sent.Size)
			return failed
		}
	})
	guarded(t, e, core.Config{}).POST("/pay", func(c *echo.Context) error {
		_, inAttempt := core.Operation(c.Request().Context())
		assert.True(t, inAttempt)
		assert.Equal(t, http.StatusOK, responseOf(c).Status, "as Echo's own begins")
		c.Set("handler", "worked")
		return c.JSON(http.StatusConflict, 42)
	})
	require.Equal(t, "42\n", adaptertest.Serve(t, e).Do(adaptertest.Call{Key: "key-1"}).Body)
}

// After an answer with an error, outer middleware reads what was sent, and what it writes is dropped.
func TestSealed(t *testing.T) {
	looked := mustrun.New(t)
	e := echo.New()
	e.Logger = slog.New(slog.DiscardHandler)
	e.HTTPErrorHandler = careless
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			own := c.Response()
			err := next(c)
			if err == nil || c.Path() == "" {
				return err
			}
			looked()
			assert.Equal(t, http.StatusConflict, responseOf(c).Status)
			assert.True(t, responseOf(c).Committed)
			c.Response().Header().Set("Content-Type", "text/plain")
			assert.Equal(t, "application/json", own.Header().Get("Content-Type"), "for a writer that sends later")
			c.Response().WriteHeader(http.StatusTeapot)
			responseOf(c).Flush()
			n, writeErr := io.WriteString(c.Response(), "more")
			assert.Equal(t, 4, n)
			assert.NoError(t, writeErr)
			assert.NoError(t, c.String(http.StatusTeapot, "and more"))
			return err
		}
	})
	guarded(t, e, core.Config{}).POST("/pay", func(c *echo.Context) error {
		_ = c.JSON(http.StatusConflict, 402)
		return errDeclined
	})
	a := adaptertest.Serve(t, e)
	got := a.RequireReplay(adaptertest.Call{})
	require.Equal(t, "402\n", got.Body)
	require.Equal(t, "application/json", got.Header.Get("Content-Type"))
	for range 10 { // the context is used again, with a response that is open
		require.Equal(t, http.StatusNotFound, a.Do(adaptertest.Call{Path: "/nope"}).Status)
	}
}

// A panic of the error handler is one of the attempt.
func TestPanicInErrorHandler(t *testing.T) {
	sqlite := adaptertest.NewSQLite(t)
	e := echo.New()
	e.HTTPErrorHandler = func(*echo.Context, error) { panic("boom") }
	guarded(t, e, sqlite.Config()).POST("/pay", func(c *echo.Context) error { adaptertest.Pay(t, c.Request().Context()); return errDeclined })
	require.Error(t, adaptertest.Serve(t, e).Do(adaptertest.Call{Key: "key-1"}).Err)
	require.Zero(t, sqlite.Payments(t))
}

// Answer and rows come and go together where the handler returns the answer as an error, too.
//
// CONTRACT
func TestRollbackOfReturnedError(t *testing.T) {
	adaptertest.Rollback(t, adapter{}, func(_ adaptertest.Context, status int) error {
		return echo.NewHTTPError(status, "m")
	})
}
