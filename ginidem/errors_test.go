package ginidem_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/ginidem"
	"github.com/auth19/idem/internal/mustrun"
)

// renderErrors is an error middleware's way to answer.
func renderErrors(c *gin.Context) {
	status := http.StatusInternalServerError
	if errors.Is(c.Errors.Last(), errDeclined) {
		status = http.StatusPaymentRequired
	}
	c.JSON(status, gin.H{"error": c.Errors.Last().Error()})
}

// errorMiddleware is what apps of Gin mount to render errors, with no look at what is written already.
func errorMiddleware(c *gin.Context) {
	c.Next()
	if len(c.Errors) > 0 {
		renderErrors(c)
	}
}

// Errors are rendered inside the recording, and by the error middleware of the whole app not once more.
//
// CONTRACT R-1
func TestErrorRenderer(t *testing.T) {
	var seen atomic.Int64
	r := gin.New()
	r.Use(func(c *gin.Context) {
		c.Next()
		seen.Add(int64(len(c.Errors)))
	}, errorMiddleware)
	v1 := guarded(t, r, core.Config{}, ginidem.WithErrorRenderer(renderErrors))
	v1.POST("/declined", func(c *gin.Context) { _ = c.Error(errDeclined) })
	v1.POST("/aborted", func(c *gin.Context) { _ = c.AbortWithError(http.StatusConflict, errDeclined) })
	v1.POST("/bound", func(c *gin.Context) { _ = c.BindJSON(&struct{ Amount int }{}) })
	v1.POST("/answered", func(c *gin.Context) { c.JSON(http.StatusCreated, 1); _ = c.Error(errDeclined) })
	v1.POST("/empty", func(c *gin.Context) {
		c.Status(http.StatusNoContent)
		c.Writer.WriteHeaderNow()
		_ = c.Error(errDeclined)
	})
	v1.POST("/unmarshalable", func(c *gin.Context) { c.JSON(http.StatusCreated, make(chan int)) })
	a := serve(t, r)

	for path, want := range map[string]answer{
		"/v1/declined": {status: http.StatusPaymentRequired, body: `{"error":"declined"}`},
		"/v1/aborted":  {status: http.StatusConflict, body: `{"error":"declined"}`},
		"/v1/bound":    {status: http.StatusBadRequest, body: `{"error":"EOF"}`},
		"/v1/answered": {status: http.StatusCreated, body: "1"},
		"/v1/empty":    {status: http.StatusNoContent},
	} {
		seen.Store(0)
		got := a.requireReplay(call{path: path, key: path})
		require.Equal(t, want.status, got.status, path)
		require.Equal(t, want.body, got.body, path)
		require.EqualValues(t, 1, seen.Load(), "%s: outer middleware sees the error of the first request", path)
	}
	got := a.do(call{path: "/v1/unmarshalable", key: "key-1"})
	require.Equal(t, http.StatusInternalServerError, got.status)
	require.Contains(t, got.body, "unsupported type")
}

// Without a renderer nobody can know what the client will see: a failure, never free to run again where it may have
// done something. The error middleware of the app answers.
//
// CONTRACT R-1
func TestUnrenderedErrors(t *testing.T) {
	sqlite := newSQLite(t)
	for name, test := range map[string]struct {
		cfg    core.Config
		result string // of the first request
		again  func(t *testing.T, first, again answer, runs int64)
	}{
		"Park": {core.Config{}, "unknown", func(t *testing.T, _, again answer, runs int64) {
			requireProblem(t, http.StatusConflict, "outcome_unknown", again)
			require.EqualValues(t, 1, runs)
		}},
		"Rollback": {sqlite.config(), "",
			func(t *testing.T, first, again answer, runs int64) {
				require.Equal(t, first.status, again.status)
				require.Equal(t, first.body, again.body)
				require.EqualValues(t, 2, runs)
				require.Zero(t, sqlite.payments(t))
			}},
	} {
		for mounted, want := range map[string]answer{
			"with":    {status: http.StatusPaymentRequired, body: `{"error":"declined"}`},
			"without": {status: http.StatusInternalServerError},
		} {
			t.Run(name+" "+mounted+" error middleware", func(t *testing.T) {
				var runs atomic.Int64
				r := gin.New()
				if mounted == "with" {
					r.Use(errorMiddleware)
				}
				guarded(t, r, test.cfg).POST("/pay", func(c *gin.Context) {
					runs.Add(1)
					pay(t, c)
					_ = c.Error(errDeclined)
				})
				a := serve(t, r)
				key := "key-" + mounted
				first := a.do(call{key: key})
				require.Equal(t, want.status, first.status)
				require.Equal(t, want.body, first.body)
				require.Equal(t, test.result, first.header.Get("Idempotency-Result"))
				require.Equal(t, key, first.header.Get("Idempotency-Key"))
				test.again(t, first, a.do(call{key: key}), runs.Load())
			})
		}
	}
}

// A conflict in the database is answered by the library, whatever error the handler has made of it: the error middleware
// of the app writes nothing behind that.
//
// CONTRACT X-0
func TestConflict(t *testing.T) {
	cfg := newSQLite(t).config()
	cfg.Store = conflicting{cfg.Store.(core.Transactor)}
	r := gin.New()
	r.Use(errorMiddleware)
	guarded(t, r, cfg).POST("/pay", func(c *gin.Context) { _ = c.Error(errDeclined) })
	got := serve(t, r).do(call{key: "key-1"})
	requireProblem(t, http.StatusServiceUnavailable, "rolled_back", got)
	require.True(t, json.Valid([]byte(got.body)), got.body)
}

// conflicting is a store whose transactions end in a conflict.
type conflicting struct{ core.Transactor }

func (s conflicting) Begin(ctx context.Context, c core.Claim) (core.Tx, core.Claimed, error) {
	tx, claimed, err := s.Transactor.Begin(ctx, c)
	return conflict{tx}, claimed, err
}

type conflict struct{ core.Tx }

func (c conflict) Rollback() error { return errors.Join(core.ErrRetryable, c.Tx.Rollback()) }

// A renderer writes to the recording, whatever writer inner middleware has left in its place.
func TestRendererBehindInnerWriter(t *testing.T) {
	r := gin.New()
	guarded(t, r, core.Config{}, ginidem.WithErrorRenderer(renderErrors)).POST("/pay",
		func(c *gin.Context) { c.Writer = closedWriter{c.Writer} },
		func(c *gin.Context) { _ = c.Error(errDeclined) })
	require.JSONEq(t, `{"error":"declined"}`, serve(t, r).requireReplay(call{}).body)
}

type closedWriter struct{ gin.ResponseWriter }

func (closedWriter) Write([]byte) (int, error) { return 0, errors.New("closed") }

// A renderer that writes nothing has rendered nothing.
func TestSilentRenderer(t *testing.T) {
	r := gin.New()
	guarded(t, r, core.Config{}, ginidem.WithErrorRenderer(func(*gin.Context) {})).POST("/pay",
		func(c *gin.Context) { _ = c.Error(errDeclined) })
	a := serve(t, r)
	got := a.do(call{key: "key-1"})
	require.Equal(t, http.StatusInternalServerError, got.status)
	require.Equal(t, "unknown", got.header.Get("Idempotency-Result"))
}

// What a handler leaves in Gin's context is there for the middleware around the interceptor, and the request and the
// writer are its own again.
func TestOuterContext(t *testing.T) {
	r := gin.New()
	r.Use(func(c *gin.Context) {
		request, writer := c.Request, c.Writer
		c.Next()
		assert.True(t, c.IsAborted())
		assert.True(t, c.GetBool("worked"))
		assert.Same(t, writer, c.Writer)
		assert.Equal(t, request.URL, c.Request.URL)
		assert.NoError(t, c.Request.Context().Err(), "not the attempt's")
		_, inAttempt := core.Operation(c.Request.Context())
		assert.False(t, inAttempt)
		assert.Equal(t, http.StatusConflict, c.Writer.Status())
		assert.Equal(t, 2, c.Writer.Size())
		assert.True(t, c.Writer.Written())
	})
	guarded(t, r, core.Config{}).POST("/pay", func(c *gin.Context) {
		_, inAttempt := core.Operation(c.Request.Context())
		assert.True(t, inAttempt)
		c.Set("worked", true)
		c.AbortWithStatusJSON(http.StatusConflict, 42)
	})
	require.Equal(t, "42", serve(t, r).do(call{key: "key-1"}).body)
}

// After an answer with errors, outer middleware reads what was sent, and what it writes is dropped.
func TestSealed(t *testing.T) {
	looked := mustrun.New(t)
	r := gin.New()
	r.Use(func(c *gin.Context) {
		own := c.Writer
		c.Next()
		if len(c.Errors) == 0 {
			return
		}
		looked()
		assert.Equal(t, http.StatusConflict, c.Writer.Status())
		assert.Equal(t, 3, c.Writer.Size())
		assert.True(t, c.Writer.Written())
		c.Header("Content-Type", "text/plain")
		assert.Equal(t, "application/json; charset=utf-8", own.Header().Get("Content-Type"), "for a writer that sends later")
		c.Status(http.StatusTeapot)
		c.Writer.WriteHeaderNow()
		for _, s := range []string{"more", "and more"} {
			n, err := c.Writer.WriteString(s)
			assert.Equal(t, len(s), n)
			assert.NoError(t, err)
			_, err = c.Writer.Write([]byte(s))
			assert.NoError(t, err)
		}
		c.Writer.Flush()
		assert.Equal(t, http.StatusConflict, c.Writer.Status())
	})
	guarded(t, r, core.Config{}).POST("/pay", func(c *gin.Context) {
		c.AbortWithStatusJSON(http.StatusConflict, 402)
		_ = c.Error(errDeclined)
	})
	got := serve(t, r).requireReplay(call{})
	require.Equal(t, "402", got.body)
	require.Equal(t, "application/json; charset=utf-8", got.header.Get("Content-Type"))
}
