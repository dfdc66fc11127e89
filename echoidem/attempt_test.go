package echoidem_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
)

// pay writes a row through the attempt's transaction, where there is one.
func pay(t testing.TB, c echo.Context) {
	if tx, ok := gormstore.TxFrom(c.Request().Context()); ok {
		assert.NoError(t, tx.Create(&payment{Amount: 1}).Error)
	}
}

// A panic leaves nothing behind, and reaches the recovery middleware, or net/http, as it was.
//
// CONTRACT
func TestPanic(t *testing.T) {
	recovers := middleware.RecoverWithConfig(middleware.RecoverConfig{DisablePrintStack: true})
	for name, test := range map[string]struct {
		recovery echo.MiddlewareFunc // nil: none is mounted
		value    any
		status   int // 0: the connection is broken off
		body     string
	}{
		"Echo's recovery": {recovers, "boom", http.StatusInternalServerError, `{"message":"Internal Server Error"}` + "\n"},
		"an HTTP error": {recovers, echo.NewHTTPError(http.StatusBadGateway, "boom"), http.StatusBadGateway,
			`{"message":"boom"}` + "\n"},
		"custom recovery": {func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c echo.Context) (err error) {
				defer func() {
					if v := recover(); v != nil {
						err = c.String(http.StatusBadGateway, v.(string))
					}
				}()
				return next(c)
			}
		}, "boom", http.StatusBadGateway, "boom"},
		"aborted handler":  {recovers, http.ErrAbortHandler, 0, ""},
		"no recovery":      {nil, "boom", 0, ""},
		"abort, uncovered": {nil, http.ErrAbortHandler, 0, ""},
	} {
		for _, recovery := range []core.Recovery{core.Park, core.Rollback} {
			t.Run(name+" "+recovery.String(), func(t *testing.T) {
				var cfg core.Config // Park, in memory
				sqlite := newSQLite(t)
				if recovery == core.Rollback {
					cfg = sqlite.config()
				}
				var runs atomic.Int64
				e := echo.New()
				e.Logger.SetOutput(io.Discard)
				if test.recovery != nil {
					e.Use(test.recovery)
				}
				e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
					return func(c echo.Context) error {
						request, response, panicked := c.Request(), c.Response(), true
						defer func() {
							if !panicked {
								return
							}
							assert.Equal(t, request.URL, c.Request().URL)
							assert.Same(t, response, c.Response(), "the response is its own again")
							assert.False(t, response.Committed)
							assert.Equal(t, http.StatusOK, response.Status)
							assert.Zero(t, response.Size)
							assert.Empty(t, response.Header().Get("X-Handler"))
							_, inAttempt := core.Operation(c.Request().Context())
							assert.False(t, inAttempt)
						}()
						err := next(c)
						panicked = false
						return err
					}
				})
				guarded(t, e, cfg).POST("/pay", func(c echo.Context) error {
					pay(t, c)
					c.Response().Header().Set("X-Handler", "1")
					err := c.String(http.StatusCreated, "paid")
					if runs.Add(1) == 1 {
						panic(test.value)
					}
					return err
				})
				a := serve(t, e)
				first := a.do(call{key: "key-1"})
				if test.status == 0 {
					require.Error(t, first.err)
				} else {
					require.NoError(t, first.err)
					require.Equal(t, test.status, first.status)
					require.Equal(t, test.body, first.body)
					require.Empty(t, first.header.Get("X-Handler"))
				}
				require.Zero(t, sqlite.payments(t))
				again := a.do(call{key: "key-1"})
				if recovery == core.Park {
					if test.status != 0 {
						require.Equal(t, "unknown", first.header.Get("Idempotency-Result"))
					}
					requireProblem(t, http.StatusConflict, "outcome_unknown", again)
					require.EqualValues(t, 1, runs.Load())
					return
				}
				require.Equal(t, http.StatusCreated, again.status)
				require.Equal(t, "created", again.header.Get("Idempotency-Result"))
				require.EqualValues(t, 1, sqlite.payments(t))
			})
		}
	}
}

// A panic of the error handler is one of the attempt.
func TestPanicInErrorHandler(t *testing.T) {
	sqlite := newSQLite(t)
	e := echo.New()
	e.HTTPErrorHandler = func(error, echo.Context) { panic("boom") }
	guarded(t, e, sqlite.config()).POST("/pay", func(c echo.Context) error { pay(t, c); return errDeclined })
	require.Error(t, serve(t, e).do(call{key: "key-1"}).err)
	require.Zero(t, sqlite.payments(t))
}

// Answer and rows come and go together, whether the handler writes the answer or returns it as an error.
//
// CONTRACT
func TestRollback(t *testing.T) {
	sqlite := newSQLite(t)
	cfg := sqlite.config()
	cfg.Policy.MaxAnswer = 100
	e := echo.New()
	v1 := guarded(t, e, cfg)
	for _, status := range []int{201, 303, 402, 403, 409, 429, 500, 503} {
		path := fmt.Sprintf("/%d", status)
		v1.POST("/written"+path, func(c echo.Context) error { pay(t, c); return c.JSON(status, echo.Map{"message": "m"}) })
		v1.POST("/returned"+path, func(c echo.Context) error { pay(t, c); return echo.NewHTTPError(status, "m") })
	}
	v1.POST("/large", func(c echo.Context) error {
		pay(t, c)
		return c.Blob(http.StatusCreated, "text/plain", make([]byte, 101))
	})
	a := serve(t, e)

	for path, want := range map[string]struct {
		rows   int64
		replay bool
	}{
		"/201": {1, true}, "/303": {1, true},
		"/402": {0, true}, "/409": {0, true}, // the rows are undone, the answer is kept
		"/403": {0, false}, "/429": {0, false}, "/500": {0, false}, "/503": {0, false}, // the key is free
	} {
		for _, way := range []string{"/written", "/returned"} {
			t.Run(way+path, func(t *testing.T) {
				before := sqlite.payments(t)
				c := call{path: "/v1" + way + path, key: way + path}
				if want.replay {
					require.JSONEq(t, `{"message":"m"}`, a.with(t).requireReplay(c).body)
				} else {
					for range 2 {
						got := a.do(c)
						require.JSONEq(t, `{"message":"m"}`, got.body)
						require.Empty(t, got.header.Get("Idempotency-Result"))
					}
				}
				require.Equal(t, want.rows, sqlite.payments(t)-before)
			})
		}
	}

	before := sqlite.payments(t)
	// CONTRACT R-4
	requireProblem(t, http.StatusInternalServerError, "answer_too_large", a.do(call{path: "/v1/large", key: "large"}))
	require.Equal(t, before, sqlite.payments(t))
}

// A client that goes away does not end the attempt, and gets the answer when it comes again.
//
// CONTRACT R-5
func TestClientGoesAway(t *testing.T) {
	began := make(chan struct{})
	e := echo.New()
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			c.Set("client", c.Request().Context())
			return next(c)
		}
	})
	guarded(t, e, core.Config{}).POST("/pay", func(c echo.Context) error {
		close(began)
		<-c.Get("client").(context.Context).Done()
		assert.NoError(t, c.Request().Context().Err())
		_, bounded := c.Request().Context().Deadline()
		assert.True(t, bounded)
		return c.String(http.StatusCreated, "paid")
	})
	a := serve(t, e)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-began; cancel() }()
	require.ErrorIs(t, a.in(ctx).do(call{key: "key-1"}).err, context.Canceled)

	again := a.do(call{key: "key-1"})
	for again.status == http.StatusConflict { // the attempt is still ending
		again = a.do(call{key: "key-1"})
	}
	require.Equal(t, http.StatusCreated, again.status)
	require.Equal(t, "reused", again.header.Get("Idempotency-Result"))
	require.Equal(t, "paid", again.body)
}

// A success that never asked for its transaction is told of, once for each route at full volume: its rows are not in it.
//
// CONTRACT X-11
func TestTransactionThatNobodyAskedFor(t *testing.T) {
	d := newSQLite(t)
	var log bytes.Buffer
	cfg := d.config()
	cfg.Observer = core.LogObserver(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})))
	r := echo.New()
	v1 := guarded(t, r, cfg)
	answer := func(status int, ask func(ctx context.Context)) echo.HandlerFunc {
		return func(c echo.Context) error {
			ask(c.Request().Context())
			return c.NoContent(status)
		}
	}
	never := func(context.Context) {}
	v1.POST("/pay", answer(http.StatusCreated, never))
	v1.POST("/see", answer(http.StatusSeeOther, never))
	v1.POST("/refused", answer(http.StatusConflict, never))
	v1.POST("/failed", answer(http.StatusInternalServerError, never))
	v1.POST("/asked", answer(http.StatusCreated, func(ctx context.Context) { gormstore.Tx(ctx) }))
	v1.POST("/asked/too", answer(http.StatusCreated, func(ctx context.Context) { gormstore.TxFrom(ctx) }))
	v1.POST("/asked/for/sql", answer(http.StatusCreated, func(ctx context.Context) { gormstore.SQLTx(ctx) }))
	a := serve(t, r)
	for path, warnings := range map[string]int{
		"/v1/pay": 1, "/v1/see": 1, "/v1/refused": 0, "/v1/failed": 0, "/v1/asked": 0, "/v1/asked/too": 0, "/v1/asked/for/sql": 0,
	} {
		log.Reset()
		for _, key := range []string{"key-1", "key-2", "key-3"} {
			require.NoError(t, a.do(call{path: path, key: path + key}).err)
		}
		require.Equal(t, warnings, strings.Count(log.String(), "idem: transaction_unused"), path)
		require.Equal(t, warnings, strings.Count(log.String(), "level=WARN"), path)
	}
}
