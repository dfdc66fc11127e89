package ginidem_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
)

// pay writes a row through the attempt's transaction, where there is one.
func pay(t testing.TB, c *gin.Context) {
	if tx, ok := gormstore.TxFrom(c.Request.Context()); ok {
		assert.NoError(t, tx.Create(&payment{Amount: 1}).Error)
	}
}

// A panic leaves nothing behind, and reaches the recovery middleware, or net/http, as it was.
//
// CONTRACT
func TestPanic(t *testing.T) {
	for name, test := range map[string]struct {
		recovery gin.HandlerFunc // nil: none is mounted
		value    any
		status   int // 0: the connection is broken off
		body     string
	}{
		"Gin's recovery": {gin.RecoveryWithWriter(nil), "boom", http.StatusInternalServerError, ""},
		"custom recovery": {gin.CustomRecoveryWithWriter(nil, func(c *gin.Context, v any) {
			c.String(http.StatusBadGateway, "%v", v)
		}), "boom", http.StatusBadGateway, "boom"},
		"aborted handler":  {gin.RecoveryWithWriter(nil), http.ErrAbortHandler, http.StatusInternalServerError, ""},
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
				r := gin.New()
				if test.recovery != nil {
					r.Use(test.recovery)
				}
				r.Use(func(c *gin.Context) {
					request, writer, panicked := c.Request, c.Writer, true
					defer func() {
						if !panicked {
							return
						}
						assert.Equal(t, request.URL, c.Request.URL)
						assert.Same(t, writer, c.Writer, "the writer is its own again")
						assert.False(t, c.Writer.Written())
						assert.Empty(t, c.Writer.Header().Get("X-Handler"))
						_, inAttempt := core.Operation(c.Request.Context())
						assert.False(t, inAttempt)
					}()
					c.Next()
					panicked = false
				})
				guarded(t, r, cfg).POST("/pay", func(c *gin.Context) {
					pay(t, c)
					c.Header("X-Handler", "1")
					c.String(http.StatusCreated, "paid")
					if runs.Add(1) == 1 {
						panic(test.value)
					}
				})
				a := serve(t, r)
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

// Answer and rows come and go together.
//
// CONTRACT
func TestRollback(t *testing.T) {
	sqlite := newSQLite(t)
	cfg := sqlite.config()
	cfg.Policy.MaxAnswer = 100
	r := gin.New()
	v1 := guarded(t, r, cfg)
	for _, status := range []int{201, 303, 402, 403, 409, 429, 500, 503} {
		v1.POST(fmt.Sprintf("/%d", status), func(c *gin.Context) { pay(t, c); c.JSON(status, gin.H{"status": status}) })
	}
	v1.POST("/large", func(c *gin.Context) { pay(t, c); c.Data(http.StatusCreated, "text/plain", make([]byte, 101)) })
	a := serve(t, r)

	for path, want := range map[string]struct {
		rows   int64
		replay bool
	}{
		"/201": {1, true}, "/303": {1, true},
		"/402": {0, true}, "/409": {0, true}, // the rows are undone, the answer is kept
		"/403": {0, false}, "/429": {0, false}, "/500": {0, false}, "/503": {0, false}, // the key is free
	} {
		t.Run(path, func(t *testing.T) {
			before := sqlite.payments(t)
			if want.replay {
				a.with(t).requireReplay(call{path: "/v1" + path, key: path})
			} else {
				for range 2 {
					got := a.do(call{path: "/v1" + path, key: path})
					require.Equal(t, `{"status":`+path[1:]+`}`, got.body)
					require.Empty(t, got.header.Get("Idempotency-Result"))
				}
			}
			require.Equal(t, want.rows, sqlite.payments(t)-before)
		})
	}

	before := sqlite.payments(t)
	// CONTRACT R-4
	requireProblem(t, http.StatusInternalServerError, "answer_too_large", a.do(call{path: "/v1/large", key: "large"}))
	require.Equal(t, before, sqlite.payments(t))
}

// A *gin.Context is no request context: Tx says so instead of writing past the attempt.
func TestGinContextAsContext(t *testing.T) {
	for _, fallback := range []bool{false, true} {
		sqlite := newSQLite(t)
		var said any
		r := gin.New()
		r.ContextWithFallback = fallback
		r.Use(gin.CustomRecoveryWithWriter(nil, func(c *gin.Context, v any) {
			said = v
			c.Status(http.StatusInternalServerError)
		}))
		guarded(t, r, sqlite.config()).POST("/pay", func(c *gin.Context) {
			tx := gormstore.Tx(c) // its statements need the request's context all the same: see the package's comment
			assert.NoError(t, tx.WithContext(c.Request.Context()).Create(&payment{Amount: 1}).Error)
			c.Status(http.StatusCreated)
		})
		got := serve(t, r).do(call{key: "key-1"})
		if fallback {
			require.Equal(t, http.StatusCreated, got.status)
			require.EqualValues(t, 1, sqlite.payments(t))
			continue
		}
		require.Equal(t, http.StatusInternalServerError, got.status)
		require.Contains(t, said, "c.Request.Context() in Gin")
		require.Zero(t, sqlite.payments(t))
	}
}

// A client that goes away does not end the attempt, and gets the answer when it comes again.
//
// CONTRACT R-5
func TestClientGoesAway(t *testing.T) {
	began := make(chan struct{})
	r := gin.New()
	r.Use(func(c *gin.Context) { c.Set("client", c.Request.Context()) })
	guarded(t, r, core.Config{}).POST("/pay", func(c *gin.Context) {
		close(began)
		<-c.MustGet("client").(context.Context).Done()
		assert.NoError(t, c.Request.Context().Err())
		_, bounded := c.Request.Context().Deadline()
		assert.True(t, bounded)
		select {
		case <-c.Writer.CloseNotify():
			t.Error("the writer said that the client went away")
		default:
		}
		c.String(http.StatusCreated, "paid")
	})
	a := serve(t, r)
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
	r := gin.New()
	v1 := guarded(t, r, cfg)
	answer := func(status int, ask func(ctx context.Context)) gin.HandlerFunc {
		return func(c *gin.Context) {
			ask(c.Request.Context())
			c.Status(status)
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
