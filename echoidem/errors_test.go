package echoidem_test

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/internal/adaptertest"
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
			return func(c echo.Context) error {
				if err := next(c); err != nil {
					c.Error(err)
				}
				return nil
			}
		},
		"a middleware that renders and returns": func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c echo.Context) error {
				err := next(c)
				if err != nil {
					c.Error(err)
				}
				return err
			}
		},
		"a middleware that turns it into another": func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c echo.Context) error {
				if next(c) != nil {
					return echo.NewHTTPError(http.StatusTeapot, "another")
				}
				return nil
			}
		},
		"logger": middleware.RequestLoggerWithConfig(middleware.RequestLoggerConfig{
			HandleError: true, LogStatus: true, LogResponseSize: true, LogError: true,
			LogValuesFunc: func(_ echo.Context, v middleware.RequestLoggerValues) error {
				if v.Error != nil {
					assert.Equal(t, http.StatusPaymentRequired, v.Status)
				}
				return nil
			},
		}),
		"gzip": middleware.Gzip(),
		"dump": middleware.BodyDump(func(_ echo.Context, _, answer []byte) { assert.NotEmpty(t, answer) }),
	} {
		for style, handler := range map[string]echo.HTTPErrorHandler{"default": nil, "careless": careless} {
			t.Run(name+", "+style, func(t *testing.T) {
				var seen atomic.Int64
				e := echo.New()
				e.Logger.SetOutput(io.Discard)
				if handler != nil {
					e.HTTPErrorHandler = handler
				}
				e.Use(outer, func(next echo.HandlerFunc) echo.HandlerFunc {
					return func(c echo.Context) error {
						err := next(c)
						if err != nil {
							seen.Add(1)
							assert.Same(t, declined, err)
							assert.True(t, c.Response().Committed)
							assert.Equal(t, http.StatusPaymentRequired, c.Response().Status)
							assert.Positive(t, c.Response().Size)
						}
						return err
					}
				})
				guarded(t, e, core.Config{}).POST("/pay", func(c echo.Context) error {
					c.Response().WriteHeader(http.StatusEarlyHints) // no answer that an error would come too late for
					return declined
				})
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
		e.HTTPErrorHandler = func(error, echo.Context) {}
		guarded(t, e, test.cfg).POST("/pay", func(c echo.Context) error { adaptertest.Pay(t, c.Request().Context()); return errDeclined })
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
		func(echo.Context) error { return echo.NewHTTPError(http.StatusPaymentRequired, "declined") },
		func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c echo.Context) error {
				c.Response().Writer = closedWriter{c.Response().Writer}
				c.SetResponse(echo.NewResponse(closedWriter{c.Response().Writer}, c.Echo()))
				return next(c)
			}
		})
	require.JSONEq(t, `{"message":"declined"}`, adaptertest.Serve(t, e).RequireReplay(adaptertest.Call{}).Body)
}

type closedWriter struct{ http.ResponseWriter }

func (closedWriter) WriteHeader(int)           {}
func (closedWriter) Write([]byte) (int, error) { return 0, errors.New("closed") }

// A panic of the error handler is one of the attempt.
func TestPanicInErrorHandler(t *testing.T) {
	sqlite := adaptertest.NewSQLite(t)
	e := echo.New()
	e.HTTPErrorHandler = func(error, echo.Context) { panic("boom") }
	guarded(t, e, sqlite.Config()).POST("/pay", func(c echo.Context) error { adaptertest.Pay(t, c.Request().Context()); return errDeclined })
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
