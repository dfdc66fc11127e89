package adaptertest

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
)

var errDeclined = errors.New("declined")

// declining is a handler that pays, and fails.
func declining(t testing.TB, a Adapter, ran func()) Handler {
	return a.Handler(func(c Context) error {
		ran()
		Pay(t, c.Request().Context())
		return errDeclined
	})
}

// A renderer that writes nothing has rendered nothing.
func unrenderedError(t *testing.T, a Adapter) {
	silent := func(Context, error) {}
	Unrendered(t, func() (App, Adapter) { return a.Rendering(silent) }, Answer{Status: http.StatusInternalServerError})
}

// Unrendered requires of apps in which nobody renders an error inside the guards: nobody can know what the client will see,
// so it is a failure, and never free to run again where it may have done something. The client gets want.
//
// CONTRACT R-1
func Unrendered(t *testing.T, newApp func() (App, Adapter), want Answer) {
	t.Helper()
	sqlite := NewSQLite(t)
	for result, cfg := range map[string]core.Config{
		"unknown":   {},
		"resumed":   {Policy: core.Policy{Recovery: core.Resume}},
		"continued": {Policy: core.Policy{Recovery: core.Resume}},
		"undone":    sqlite.Config(),
	} {
		t.Run(result, func(t *testing.T) {
			var runs atomic.Int64
			app, a := newApp()
			Guarded(t, a, app, cfg).Handle(http.MethodPost, "/pay", a.Handler(func(c Context) error {
				runs.Add(1)
				Pay(t, c.Request().Context())
				if result == "continued" {
					commit(t, c)
				}
				return errDeclined
			}))
			client := Serve(t, app)
			first, again := client.Do(Call{Key: "key-1"}), client.Do(Call{Key: "key-1"})
			require.Equal(t, want.Status, first.Status)
			require.Equal(t, want.Body, first.Body)
			require.Equal(t, "key-1", first.Header.Get("Idempotency-Key"))
			require.Zero(t, sqlite.Payments(t))
			if result == "unknown" {
				require.Equal(t, "unknown", first.Result())
				RequireProblem(t, http.StatusConflict, "outcome_unknown", again)
				require.Empty(t, first.Header.Get("Retry-After"))
				require.EqualValues(t, 1, runs.Load())
				return
			}
			if result == "continued" {
				require.Equal(t, "unknown", first.Result())
				require.Equal(t, "2", first.Header.Get("Retry-After"), "a repeat continues")
			} else { // nothing has committed: the key is free
				require.Empty(t, first.Result())
			}
			require.Equal(t, want.Status, again.Status)
			require.Equal(t, want.Body, again.Body)
			require.EqualValues(t, 2, runs.Load())
		})
	}
}

// commit commits a segment of a Resume handler.
func commit(t testing.TB, c Context) {
	ctx := c.Request().Context()
	_, err := core.Step(ctx, "book", func(context.Context) (int, error) { return 0, nil })
	assert.NoError(t, errors.Join(err, core.Checkpoint(ctx)))
}

// A panic of the renderer is one of the attempt.
func panicOfTheRenderer(t *testing.T, a Adapter) {
	sqlite := NewSQLite(t)
	app, a := a.Rendering(func(Context, error) { panic("boom") })
	Guarded(t, a, app, sqlite.Config()).Handle(http.MethodPost, "/pay", declining(t, a, func() {}))
	require.Error(t, Serve(t, app).Do(Call{Key: "key-1"}).Err)
	require.Zero(t, sqlite.Payments(t))
}

// An error is rendered into the recording, whatever writer and response inner middleware has left in its place.
//
// CONTRACT R-1
func rendererBehindInnerWriter(t *testing.T, a Adapter) {
	app, a := Careless(a, http.StatusPaymentRequired)
	Guarded(t, a, app, core.Config{}).Handle(http.MethodPost, "/pay", declining(t, a, func() {}),
		a.Middleware(func(c Context, next func() error) error {
			c.SetWriter(closedWriter{c.Inner()})
			if a.Replace != nil {
				a.Replace(c, closedWriter{c.Inner()})
			}
			return next()
		}))
	require.Equal(t, Behind+"declined", Serve(t, app).RequireReplay(Call{}).Body)
}

type closedWriter struct{ http.ResponseWriter }

func (closedWriter) WriteHeader(int)           {}
func (closedWriter) WriteHeaderNow()           {}
func (closedWriter) Write([]byte) (int, error) { return 0, errors.New("closed") }
