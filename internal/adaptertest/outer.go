package adaptertest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/internal/mustrun"
)

// What a handler leaves in the framework's context is there for the middleware around the interceptor, and the request and
// the writer are its own again.
func outerContext(t *testing.T, a Adapter) {
	outer := a.Middleware(func(c Context, next func() error) error {
		request, writer := c.Request(), c.Writer()
		err := next()
		assert.Equal(t, "worked", c.Get("handler"))
		assert.Same(t, writer, c.Writer())
		assert.Equal(t, request.URL, c.Request().URL)
		assert.NoError(t, c.Request().Context().Err(), "not the attempt's")
		_, inAttempt := core.Operation(c.Request().Context())
		assert.False(t, inAttempt)
		assert.False(t, c.Untouched())
		status, size := c.Sent()
		assert.Equal(t, http.StatusConflict, status)
		assert.EqualValues(t, len("refused"), size)
		return err
	})
	client := paying(t, a, core.Config{}, func(c Context) error {
		_, inAttempt := core.Operation(c.Request().Context())
		assert.True(t, inAttempt)
		assert.True(t, c.Untouched(), "as the framework's own begins")
		c.Set("handler", "worked")
		return c.String(http.StatusConflict, "refused")
	}, outer)
	require.Equal(t, "refused", client.Do(Call{Key: "key-1"}).Body)
}

// After an answer with an error, outer middleware reads what was sent, and what it writes is dropped.
func sealed(t *testing.T, a Adapter) {
	var requests atomic.Int64
	looked := mustrun.New(t)
	app, a := Careless(a, http.StatusPaymentRequired)
	app.Use(a.Middleware(func(c Context, next func() error) error {
		own := c.Writer()
		err := next()
		if requests.Add(1) > 1 {
			return err
		}
		looked()
		status, size := c.Sent()
		assert.Equal(t, http.StatusConflict, status)
		assert.EqualValues(t, len("refused"), size)
		assert.False(t, c.Untouched())
		c.Writer().Header().Set("Content-Type", "application/json")
		assert.Contains(t, own.Header().Get("Content-Type"), "text/plain", "for a writer that sends later")
		assert.NoError(t, c.NoContent(http.StatusTeapot))
		n, writeErr := io.WriteString(c.Writer(), "more")
		assert.Equal(t, len("more"), n)
		assert.NoError(t, writeErr)
		n, writeErr = c.Writer().Write([]byte("more"))
		assert.Equal(t, len("more"), n)
		assert.NoError(t, writeErr)
		assert.NoError(t, c.String(http.StatusTeapot, "and more"))
		c.Writer().(http.Flusher).Flush()
		status, _ = c.Sent()
		assert.Equal(t, http.StatusConflict, status)
		return err
	}))
	Guarded(t, a, app, core.Config{}).Handle(http.MethodPost, "/pay", a.Handler(func(c Context) error {
		return errors.Join(c.String(http.StatusConflict, "refused"), errDeclined)
	}))
	client := Serve(t, app)
	got := client.RequireReplay(Call{})
	require.Equal(t, "refused", got.Body)
	require.Contains(t, got.Header.Get("Content-Type"), "text/plain")
	for range 10 { // the context is used again, with a writer that is open
		require.GreaterOrEqual(t, client.Do(Call{Path: "/nope"}).Status, 400)
	}
}

// A request that is not derived from the attempt's says nothing of the attempt. The client is told, and not with 200.
//
// CONTRACT X-12
func requestWithoutTheAttempt(t *testing.T, a Adapter) {
	for name, end := range map[string]func(c Context) error{
		"answer": func(c Context) error { return c.String(http.StatusCreated, "paid") },
		"error":  func(Context) error { return errDeclined },
		"panic":  func(Context) error { panic("declined") },
	} {
		t.Run(name, func(t *testing.T) {
			paying(t, a, core.Config{}, func(c Context) error {
				c.SetRequest(c.Request().WithContext(context.Background()))
				return end(c)
			}, a.Recover()).requireUnknown(name != "panic")
		})
	}
}

// 1xx is no status, and an answer that comes after it is the answer.
//
// CONTRACT R-4
func informational(t *testing.T, a Adapter) {
	hints := func(w http.ResponseWriter) {
		w.Header().Set("Link", "</a>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		if now, ok := w.(interface{ WriteHeaderNow() }); ok { // Gin's waits
			now.WriteHeaderNow()
		}
	}
	app := a.New()
	v1 := Guarded(t, a, app, core.Config{})
	client := Serve(t, app)
	for path, answer := range map[string]func(c Context) error{
		"/200/written": func(c Context) error { hints(c.Writer()); _, err := io.WriteString(c.Writer(), "paid"); return err },
		"/200/alone":   func(c Context) error { hints(c.Writer()); return nil },
		// By the inner writer: Echo's own takes 103 for the status.
		"/201/created": func(c Context) error { hints(c.Inner()); return c.JSON(http.StatusCreated, 1) },
		"/402/refused": func(c Context) error { hints(c.Inner()); return c.String(http.StatusPaymentRequired, "declined") },
	} {
		v1.Handle(http.MethodPost, path, a.Handler(answer))
		t.Run(path, func(t *testing.T) {
			got := client.With(t).RequireReplay(Call{Path: "/v1" + path, Key: path})
			require.Equal(t, path[1:4], strconv.Itoa(got.Status))
		})
	}
}
