package adaptertest

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
)

// buffer is the writer of middleware that keeps an answer back.
type buffer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (b *buffer) Header() http.Header         { return b.header }
func (b *buffer) WriteHeader(status int)      { b.status = status }
func (b *buffer) WriteHeaderNow()             {}
func (b *buffer) Write(p []byte) (int, error) { return b.body.Write(p) }

// Handlers and inner middleware may replace request and writer, and leave them so.
//
// CONTRACT
func replacedRequestAndWriter(t *testing.T, a Adapter) {
	type own struct{}
	for name, inner := range map[string]func(c Context, next func() error) error{
		"request": func(c Context, next func() error) error {
			c.SetRequest(c.Request().WithContext(context.WithValue(c.Request().Context(), own{}, 1)))
			return next()
		},
		"writer": func(c Context, next func() error) error {
			c.SetWriter(struct{ http.ResponseWriter }{c.Inner()})
			return next()
		},
		"response": func(c Context, next func() error) error {
			if a.Replace != nil {
				a.Replace(c, c.Writer())
			}
			return next()
		},
		"buffer": func(c Context, next func() error) error {
			own, b := c.Inner(), &buffer{header: http.Header{}}
			c.SetWriter(b)
			err := next()
			maps.Copy(own.Header(), b.header)
			own.WriteHeader(b.status)
			_, _ = own.Write(b.body.Bytes())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			app := a.New()
			Guarded(t, a, app, core.Config{}).Handle(http.MethodPost, "/pay", text(a, func(c Context) string {
				_, inside := core.Operation(c.Request().Context())
				assert.True(t, inside)
				return "paid"
			}), a.Middleware(inner))
			got := Serve(t, app).RequireReplay(Call{})
			require.Equal(t, http.StatusCreated, got.Status)
			require.Equal(t, "paid", got.Body)
		})
	}
}

// zip compresses, as middleware of Gin and of net/http does.
func zip(c Context, next func() error) error {
	if c.Request().Header.Get("Accept-Encoding") != "gzip" {
		return next()
	}
	c.Writer().Header().Set("Content-Encoding", "gzip")
	zipped := &zipWriter{c.Inner(), nil}
	c.SetWriter(zipped)
	err := next()
	if zipped.gz != nil {
		_ = zipped.gz.Close()
	}
	return err
}

type zipWriter struct {
	http.ResponseWriter
	gz *gzip.Writer // nil before the first byte
}

func (w *zipWriter) Write(p []byte) (int, error) {
	if w.gz == nil {
		w.gz = gzip.NewWriter(w.ResponseWriter)
	}
	return w.gz.Write(p)
}

func (w *zipWriter) Flush() {
	if w.gz != nil {
		_ = w.gz.Flush()
	}
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}

// Outside of the guards, compression is each answer's own; inside, it is part of what is recorded. An answer that is too
// short for it, or rendered past it, is plain, and says so.
//
// CONTRACT
func compression(t *testing.T, a Adapter) {
	gzips := a.Gzips
	if gzips == nil {
		gzips = map[string]Middleware{"by hand": a.Middleware(zip)}
	}
	for name, gz := range gzips {
		t.Run(name, func(t *testing.T) { testCompression(t, a, gz) })
	}
}

func testCompression(t *testing.T, a Adapter, gz Middleware) {
	app, with := a.New(), a
	if a.Rendering != nil {
		app, with = a.Rendering(func(c Context, err error) {
			if !a.RendersBehindGzip || c.Untouched() {
				_ = c.String(http.StatusPaymentRequired, err.Error())
			}
		})
	}
	long := strings.Repeat("x", 1000)
	handlers := map[string]Handler{"": text(a, func(Context) string { return long })}
	handlers["/failing"] = a.Handler(func(c Context) error {
		if a.Rendering == nil {
			return c.String(http.StatusPaymentRequired, "declined")
		}
		return errDeclined
	})
	guard, money := a.JWTGuard(NewVerifier(t)), with.Idempotent(NewModule(t, core.Config{}))
	for path, handler := range handlers {
		app.Handle(http.MethodPost, "/outside"+path, handler, gz, guard, money)
		app.Handle(http.MethodPost, "/inside"+path, handler, guard, money, gz)
	}
	client := Serve(t, app)
	zipped := map[string]string{"Accept-Encoding": "gzip"}
	for path, want := range map[string]string{"/outside": long, "/inside": long, "/outside/failing": "declined",
		"/inside/failing": "declined"} {
		got := client.RequireReplay(Call{Path: path, Key: path, Headers: zipped})
		require.Equal(t, want, plain(t, got), path)
		if want == long {
			require.Equal(t, "gzip", got.Header.Get("Content-Encoding"), path)
		}
	}
	require.Equal(t, long, client.Do(Call{Path: "/outside", Key: "/outside"}).Body, "a replay without compression")
	inside := client.Do(Call{Path: "/inside", Key: "/inside"})
	require.Equal(t, "gzip", inside.Header.Get("Content-Encoding"), "what is recorded is compressed, whoever asks")
	require.Equal(t, long, plain(t, inside))
	require.Equal(t, strconv.Itoa(len(inside.Body)), inside.Header.Get("Content-Length"))
	require.Equal(t, long, client.Do(Call{Path: "/outside", Key: "plain-first"}).Body)
	outside := client.Do(Call{Path: "/outside", Key: "plain-first", Headers: zipped})
	require.Equal(t, "reused", outside.Result())
	require.Equal(t, "gzip", outside.Header.Get("Content-Encoding"))
	require.Equal(t, long, plain(t, outside))
}

// plain returns the text of an answer, which may be compressed.
func plain(t testing.TB, got Answer) string {
	t.Helper()
	if got.Header.Get("Content-Encoding") == "" {
		return got.Body
	}
	gz, err := gzip.NewReader(strings.NewReader(got.Body))
	require.NoError(t, err, got.Body)
	text, err := io.ReadAll(gz)
	require.NoError(t, err)
	return string(text)
}
