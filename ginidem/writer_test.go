package ginidem_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/ginidem"
	"github.com/auth19/idem/internal/mustrun"
)

// The handler's writer behaves as Gin's own does.
func TestWriter(t *testing.T) {
	r := gin.New()
	mount := func(path string, guards ...gin.HandlerFunc) {
		r.POST(path, append(guards, func(c *gin.Context) {
			w := c.Writer
			assert.Equal(t, http.StatusOK, w.Status())
			assert.Equal(t, -1, w.Size())
			assert.False(t, w.Written())
			w.WriteHeader(http.StatusCreated)
			w.WriteHeader(-1) // no status
			assert.Equal(t, http.StatusCreated, w.Status())
			assert.False(t, w.Written())
			w.WriteHeaderNow()
			assert.True(t, w.Written())
			assert.Equal(t, 0, w.Size())
			w.WriteHeader(http.StatusTeapot) // too late
			assert.Equal(t, http.StatusCreated, w.Status())
			n, err := w.Write([]byte("ab"))
			assert.NoError(t, err)
			assert.Equal(t, 2, n)
			n, err = io.WriteString(w, "cde")
			assert.NoError(t, err)
			assert.Equal(t, 3, n)
			assert.Equal(t, 5, w.Size())
			assert.Nil(t, w.Pusher())
			w.Flush()
			w.WriteHeaderNow()
		})...)
	}
	mount("/bare")
	mount("/v1/pay", ginidem.JWTGuard(newVerifier(t)), ginidem.Idempotent(newModule(t, core.Config{})))
	a := serve(t, r)
	want, got := a.do(call{path: "/bare"}), a.requireReplay(call{})
	require.Equal(t, want.status, got.status)
	require.Equal(t, want.body, got.body)
}

// A status that outer middleware has set is the handler's to begin with, and an answer without a body has left when
// outer middleware goes on.
func TestOuterStatus(t *testing.T) {
	r := gin.New()
	r.Use(func(c *gin.Context) {
		c.Status(http.StatusAccepted)
		c.Next()
		assert.True(t, c.Writer.Written())
	})
	guarded(t, r, core.Config{}).POST("/pay", func(*gin.Context) {})
	require.Equal(t, http.StatusAccepted, serve(t, r).requireReplay(call{}).status)
}

// Nothing leaves around the capture, through Gin's writer or around it.
//
// CONTRACT R-4
func TestNoWayAround(t *testing.T) {
	sqlite, looked := newSQLite(t), mustrun.New(t)
	r := gin.New()
	v1 := guarded(t, r, sqlite.config())
	v1.POST("/pay", func(c *gin.Context) {
		controller := http.NewResponseController(c.Writer)
		_, _, err := controller.Hijack()
		assert.ErrorIs(t, err, http.ErrNotSupported)
		_, _, err = c.Writer.Hijack()
		assert.ErrorIs(t, err, http.ErrNotSupported)
		_, unwraps := c.Writer.(interface{ Unwrap() http.ResponseWriter })
		assert.False(t, unwraps)
		c.String(http.StatusCreated, "not yet paid")
		assert.NoError(t, controller.Flush())
		c.Writer.Flush()
		pay(t, c)
		looked()
		panic("after a flush")
	})
	a := serve(t, r)
	require.Error(t, a.do(call{key: "key-1"}).err, "no byte has left")
	require.Zero(t, sqlite.payments(t))
}

// 1xx is no status.
//
// CONTRACT R-4
func TestInformational(t *testing.T) {
	r := gin.New()
	v1 := guarded(t, r, core.Config{})
	v1.POST("/hints", func(c *gin.Context) {
		c.Header("Link", "</a>; rel=preload")
		c.Status(http.StatusEarlyHints)
		c.Writer.WriteHeaderNow()
		c.JSON(http.StatusCreated, 1)
	})
	v1.POST("/hints-alone", func(c *gin.Context) { c.Status(http.StatusEarlyHints) })
	a := serve(t, r)
	require.Equal(t, http.StatusCreated, a.requireReplay(call{path: "/v1/hints", key: "key-1"}).status)
	require.Equal(t, http.StatusOK, a.requireReplay(call{path: "/v1/hints-alone", key: "key-2"}).status)
}

// A route that allows streaming flushes before it is recorded; a repeat is told where the answer is.
//
// CONTRACT R-4
func TestStreaming(t *testing.T) {
	idem := newModule(t, core.Config{Routes: core.Routes{
		"POST /v1/pay":   {Recovery: core.Park, Streaming: true},
		"POST /v1/large": {Recovery: core.Park, MaxAnswer: 10},
	}})
	proceed := make(chan struct{})
	var runs atomic.Int64
	r := gin.New()
	r.Use(errorMiddleware)
	v1 := r.Group("/v1", ginidem.JWTGuard(newVerifier(t)), ginidem.Idempotent(idem))
	v1.POST("/pay", func(c *gin.Context) {
		runs.Add(1)
		c.Header("Location", "/v1/payments/1")
		c.Status(http.StatusCreated)
		c.Writer.Flush()
		c.Stream(func(w io.Writer) bool {
			_, _ = io.WriteString(w, "first ")
			return false
		})
		<-proceed // until the client has it
		_, _ = c.Writer.WriteString("second")
		_ = c.Error(errDeclined) // too late for the error middleware
	})
	v1.POST("/large", func(c *gin.Context) { c.String(http.StatusCreated, strings.Repeat("x", 11)) })
	a := serve(t, r)

	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.server.URL+"/v1/pay", http.NoBody)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+a.token)
	req.Header.Set("Idempotency-Key", "key-1")
	res, err := a.server.Client().Do(req)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	part := make([]byte, len("first "))
	_, err = io.ReadFull(res.Body, part)
	require.NoError(t, err)
	close(proceed)
	rest, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, "first second", string(part)+string(rest))
	require.Equal(t, http.StatusCreated, res.StatusCode)
	require.Equal(t, "key-1", res.Header.Get("Idempotency-Key"))

	again := a.do(call{key: "key-1"})
	requireProblem(t, http.StatusConflict, "response_not_replayable", again)
	require.Contains(t, again.body, `"answer_status":201,"answer_location":"/v1/payments/1"`)
	require.EqualValues(t, 1, runs.Load())

	require.Equal(t, strings.Repeat("x", 11), a.do(call{path: "/v1/large", key: "key-2"}).body)
	requireProblem(t, http.StatusConflict, "response_not_replayable", a.do(call{path: "/v1/large", key: "key-2"}))
}

// gzipWriter compresses, as Gin's gzip middlewares do.
type gzipWriter struct {
	gin.ResponseWriter
	gz *gzip.Writer
}

func (w gzipWriter) Write(p []byte) (int, error)       { return w.gz.Write(p) }
func (w gzipWriter) WriteString(s string) (int, error) { return w.gz.Write([]byte(s)) }

func compress(c *gin.Context) {
	if !strings.Contains(c.GetHeader("Accept-Encoding"), "gzip") {
		return
	}
	c.Header("Content-Encoding", "gzip")
	c.Header("Vary", "Accept-Encoding")
	gz := gzip.NewWriter(c.Writer)
	c.Writer = gzipWriter{c.Writer, gz}
	c.Next()
	if c.Writer.Size() < 0 {
		gz.Reset(io.Discard)
	}
	_ = gz.Close()
}

// Outside, compression is each answer's own; inside, it is part of what is recorded.
//
// CONTRACT
func TestCompression(t *testing.T) {
	handler := func(c *gin.Context) {
		c.JSON(http.StatusCreated, gin.H{"long": strings.Repeat("x", 1000)})
	}
	failing := func(c *gin.Context) { _ = c.Error(errDeclined) }
	r := gin.New()
	guard := ginidem.JWTGuard(newVerifier(t))
	money := ginidem.Idempotent(newModule(t, core.Config{}), ginidem.WithErrorRenderer(renderErrors))
	r.POST("/outside", errorMiddleware, compress, guard, money, handler)
	r.POST("/outside/failing", errorMiddleware, compress, guard, money, failing)
	r.POST("/inside", guard, money, compress, handler)
	r.POST("/inside/failing", guard, money, compress, failing)
	a := serve(t, r)
	zip := map[string]string{"Accept-Encoding": "gzip"}
	long, declined := `{"long":"`+strings.Repeat("x", 1000)+`"}`, `{"error":"declined"}`

	for path, want := range map[string]string{"/outside": long, "/inside": long, "/outside/failing": declined} {
		got := a.requireReplay(call{path: path, key: path, headers: zip})
		require.Equal(t, "gzip", got.header.Get("Content-Encoding"), path)
		require.Equal(t, want, unzip(t, got.body), path)
	}
	require.Equal(t, long, a.do(call{path: "/outside", key: "/outside"}).body, "a replay without compression")
	inside := a.do(call{path: "/inside", key: "/inside"})
	require.Equal(t, "gzip", inside.header.Get("Content-Encoding"), "what is recorded is compressed, whoever asks")
	require.Equal(t, long, unzip(t, inside.body))
	require.Equal(t, strconv.Itoa(len(inside.body)), inside.header.Get("Content-Length"))
	require.Equal(t, long, a.do(call{path: "/outside", key: "plain-first"}).body)
	outside := a.do(call{path: "/outside", key: "plain-first", headers: zip})
	require.Equal(t, "reused", outside.header.Get("Idempotency-Result"))
	require.Equal(t, long, unzip(t, outside.body))
	got := a.requireReplay(call{path: "/inside/failing", key: "failing", headers: zip})
	require.Empty(t, got.header.Get("Content-Encoding"), "what is rendered past the compression is plain")
	require.Equal(t, declined, got.body)
}

func unzip(t testing.TB, body string) string {
	t.Helper()
	gz, err := gzip.NewReader(strings.NewReader(body))
	require.NoError(t, err)
	plain, err := io.ReadAll(gz)
	require.NoError(t, err)
	return string(plain)
}

// What outer middleware sets is each answer's own. What the handler sets reaches the first client whole, and a repeat
// as far as it may be recorded.
//
// CONTRACT R-3
func TestHeaders(t *testing.T) {
	var requests atomic.Int64
	r := gin.New()
	r.Use(func(c *gin.Context) {
		c.Header("X-Request-Id", strconv.FormatInt(requests.Add(1), 10))
		c.Header("X-Removed", "outer")
		c.Header("X-Replaced", "outer")
		c.SetCookie("session", "outer", 0, "", "", true, true)
	})
	guarded(t, r, core.Config{}).POST("/pay", func(c *gin.Context) {
		assert.Equal(t, "outer", c.Writer.Header().Get("X-Removed"), "the handler sees them")
		c.Header("X-Removed", "")
		c.Header("X-Replaced", "handler")
		c.Header("X-Handler", "1")
		c.Header("Location", "/v1/payments/1")
		c.Header("Retry-After", "7")
		c.SetCookie("card", "handler", 0, "", "", true, true)
		c.JSON(http.StatusCreated, 1)
	})
	a := serve(t, r)
	first, again := a.do(call{key: "key-1"}), a.do(call{key: "key-1"})
	require.Equal(t, "1", first.header.Get("X-Request-Id"))
	require.Empty(t, first.header.Get("X-Removed"))
	require.Equal(t, []string{"handler"}, first.header["X-Replaced"])
	require.Equal(t, "1", first.header.Get("X-Handler"))
	require.Len(t, first.header["Set-Cookie"], 2)
	require.Equal(t, "7", first.header.Get("Retry-After"))

	require.Equal(t, "/v1/payments/1", again.header.Get("Location"))
	require.Equal(t, "2", again.header.Get("X-Request-Id"))
	require.Equal(t, "outer", again.header.Get("X-Removed"))
	require.Equal(t, []string{"outer"}, again.header["X-Replaced"])
	require.Empty(t, again.header.Get("X-Handler"))
	require.Empty(t, again.header.Get("Retry-After"))
	require.Len(t, again.header["Set-Cookie"], 1)
	require.Contains(t, again.header.Get("Set-Cookie"), "session=outer")
}

// Without a server that can hijack or flush, guarded routes work as well.
func TestRecorder(t *testing.T) {
	r := gin.New()
	guarded(t, r, core.Config{}).POST("/pay", func(c *gin.Context) {
		c.Writer.Flush()
		c.Stream(func(w io.Writer) bool { _, _ = io.WriteString(w, "x"); return false })
	})
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/pay", strings.NewReader("{}"))
	req.Header.Set("Authorization", "Bearer "+sign(t, claimsOf("customer-1")))
	req.Header.Set("Idempotency-Key", "key-1")
	rec := httptest.NewRecorder()
	r.ServeHTTP(struct{ http.ResponseWriter }{rec}, req)
	require.Equal(t, http.StatusOK, rec.Code)
	require.Equal(t, "x", rec.Body.String())
}
