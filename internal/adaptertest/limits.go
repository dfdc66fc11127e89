package adaptertest

import (
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
)

// limit is how many bytes of a body the limits in front take.
const limit = 1024

// tooLarge is an error of reading that says its status.
type tooLarge struct{}

func (tooLarge) Error() string   { return "too large" }
func (tooLarge) StatusCode() int { return http.StatusRequestEntityTooLarge }

// limited is a body that ends with an error above the limit.
type limited struct {
	io.ReadCloser
	left int
	err  func() error
}

func (b *limited) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, b.err()
	}
	return n, err
}

// A body above the limit of middleware in front is a 413 of this route, announced or in chunks, and not a body that broke
// off: it does not help to send it again. Nothing is recorded.
//
// CONTRACT H-5
func limitsInFront(t *testing.T, a Adapter) {
	before := func(body func(c Context) io.ReadCloser) Middleware {
		return a.Middleware(func(c Context, next func() error) error { c.Request().Body = body(c); return next() })
	}
	limits := map[string]Middleware{
		"MaxBytesReader": before(func(c Context) io.ReadCloser {
			return http.MaxBytesReader(c.Writer(), c.Request().Body, limit)
		}),
		"an error with a status": before(func(c Context) io.ReadCloser {
			return &limited{c.Request().Body, limit, func() error { return tooLarge{} }}
		}),
	}
	maps.Copy(limits, a.Limits)
	for name, outer := range limits {
		for framing, chunks := range map[string]bool{"": false, ", in chunks": true} {
			t.Run(name+framing, func(t *testing.T) {
				d, ran := NewSQLite(t), 0
				app := a.New()
				app.Group("/v1", outer, a.JWTGuard(NewVerifier(t)), a.Idempotent(NewModule(t, d.Config()))).
					Handle(http.MethodPost, "/pay", text(a, func(Context) string { ran++; return "paid" }))
				client := Serve(t, app)
				got := client.Do(Call{Key: "key-1", Body: strings.Repeat("x", limit+1), Chunks: chunks})
				require.NoError(t, got.Err)
				require.Equal(t, http.StatusRequestEntityTooLarge, got.Status, got.Body)
				if got.Header.Get("Idempotency-Problem") != "" {
					RequireProblem(t, http.StatusRequestEntityTooLarge, "body_too_large", got)
				} else { // the limit has answered, and nobody behind it
					require.NotContains(t, got.Body, "body_")
				}
				requireNothingRecorded(t, d)
				require.Equal(t, "created", client.Do(Call{Key: "key-1", Body: strings.Repeat("x", limit), Chunks: chunks}).Result())
				require.Equal(t, 1, ran)
			})
		}
	}
}

// A server or a router whose handler is limited as a whole.
//
// CONTRACT H-5
func limitAroundTheApp(t *testing.T, a Adapter) {
	app := a.New()
	Guarded(t, a, app, core.Config{}).Handle(http.MethodPost, "/pay", Never(t, a))
	client := Serve(t, http.MaxBytesHandler(app, limit))
	for _, chunks := range []bool{false, true} {
		RequireProblem(t, http.StatusRequestEntityTooLarge, "body_too_large",
			client.Do(Call{Key: "key-1", Body: strings.Repeat("x", limit+1), Chunks: chunks}))
	}
}
