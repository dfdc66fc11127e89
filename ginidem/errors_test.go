package ginidem_test

import (
	"errors"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/ginidem"
	"github.com/auth19/idem/internal/adaptertest"
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
	v1.POST("/unchanged", func(c *gin.Context) {
		c.Status(http.StatusNotModified)
		c.Writer.WriteHeaderNow()
		_ = c.Error(errDeclined)
	})
	v1.POST("/fine", func(c *gin.Context) { c.Status(http.StatusAccepted) })
	v1.POST("/unmarshalable", func(c *gin.Context) { c.JSON(http.StatusCreated, make(chan int)) })
	a := adaptertest.Serve(t, r)

	for path, want := range map[string]adaptertest.Answer{
		"/v1/declined": {Status: http.StatusPaymentRequired, Body: `{"error":"declined"}`},
		"/v1/aborted":  {Status: http.StatusConflict, Body: `{"error":"declined"}`},
		"/v1/bound":    {Status: http.StatusBadRequest, Body: `{"error":"EOF"}`},
		"/v1/answered": {Status: http.StatusCreated, Body: "1"},
		"/v1/empty":    {Status: http.StatusNoContent},

		"/v1/unchanged": {Status: http.StatusNotModified},
	} {
		seen.Store(0)
		got := a.RequireReplay(adaptertest.Call{Path: path, Key: path})
		require.Equal(t, want.Status, got.Status, path)
		require.Equal(t, want.Body, got.Body, path)
		require.EqualValues(t, 1, seen.Load(), "%s: outer middleware sees the error of the first request", path)
	}
	require.Equal(t, http.StatusAccepted, a.RequireReplay(adaptertest.Call{Path: "/v1/fine", Key: "fine"}).Status,
		"nothing to render")
	got := a.Do(adaptertest.Call{Path: "/v1/unmarshalable", Key: "key-1"})
	require.Equal(t, http.StatusInternalServerError, got.Status)
	require.Contains(t, got.Body, "unsupported type")
}

// Without a renderer nobody can know what the client will see: a failure, never free to run again where it may have
// done something. The error middleware of the app answers.
//
// CONTRACT R-1
func TestUnrenderedErrors(t *testing.T) {
	sqlite := adaptertest.NewSQLite(t)
	for name, test := range map[string]struct {
		cfg    core.Config
		result string // of the first request
		again  func(t *testing.T, first, again adaptertest.Answer, runs int64)
	}{
		"Park": {core.Config{}, "unknown", func(t *testing.T, _, again adaptertest.Answer, runs int64) {
			adaptertest.RequireProblem(t, http.StatusConflict, "outcome_unknown", again)
			require.EqualValues(t, 1, runs)
		}},
		"Resume": {core.Config{Policy: core.Policy{Recovery: core.Resume}}, "",
			func(t *testing.T, first, again adaptertest.Answer, runs int64) {
				require.Equal(t, first.Status, again.Status, "nothing has committed: the key is free")
				require.EqualValues(t, 2, runs)
			}},
		"Rollback": {sqlite.Config(), "",
			func(t *testing.T, first, again adaptertest.Answer, runs int64) {
				require.Equal(t, first.Status, again.Status)
				require.Equal(t, first.Body, again.Body)
				require.EqualValues(t, 2, runs)
				require.Zero(t, sqlite.Payments(t))
			}},
	} {
		for mounted, want := range map[string]adaptertest.Answer{
			"with":    {Status: http.StatusPaymentRequired, Body: `{"error":"declined"}`},
			"without": {Status: http.StatusInternalServerError},
		} {
			t.Run(name+" "+mounted+" error middleware", func(t *testing.T) {
				var runs atomic.Int64
				r := gin.New()
				if mounted == "with" {
					r.Use(errorMiddleware)
				}
				guarded(t, r, test.cfg).POST("/pay", func(c *gin.Context) {
					runs.Add(1)
					adaptertest.Pay(t, c.Request.Context())
					_ = c.Error(errDeclined)
				})
				a := adaptertest.Serve(t, r)
				key := "key-" + mounted
				first := a.Do(adaptertest.Call{Key: key})
				require.Equal(t, want.Status, first.Status)
				require.Equal(t, want.Body, first.Body)
				require.Equal(t, test.result, first.Header.Get("Idempotency-Result"))
				require.Equal(t, key, first.Header.Get("Idempotency-Key"))
				test.again(t, first, a.Do(adaptertest.Call{Key: key}), runs.Load())
			})
		}
	}
}

// A renderer writes to the recording, whatever writer inner middleware has left in its place.
func TestRendererBehindInnerWriter(t *testing.T) {
	r := gin.New()
	guarded(t, r, core.Config{}, ginidem.WithErrorRenderer(renderErrors)).POST("/pay",
		func(c *gin.Context) { c.Writer = closedWriter{c.Writer} },
		func(c *gin.Context) { _ = c.Error(errDeclined) })
	require.JSONEq(t, `{"error":"declined"}`, adaptertest.Serve(t, r).RequireReplay(adaptertest.Call{}).Body)
}

type closedWriter struct{ gin.ResponseWriter }

func (closedWriter) Write([]byte) (int, error) { return 0, errors.New("closed") }

// A renderer that writes nothing has rendered nothing.
func TestSilentRenderer(t *testing.T) {
	r := gin.New()
	guarded(t, r, core.Config{}, ginidem.WithErrorRenderer(func(*gin.Context) {})).POST("/pay",
		func(c *gin.Context) { _ = c.Error(errDeclined) })
	a := adaptertest.Serve(t, r)
	got := a.Do(adaptertest.Call{Key: "key-1"})
	require.Equal(t, http.StatusInternalServerError, got.Status)
	require.Equal(t, "unknown", got.Header.Get("Idempotency-Result"))
}
