package adaptertest

import (
	"io"
	"mime/multipart"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
)

// A goroutine that a handler has left behind goes on writing. The framework uses the writer around the capture for another
// caller by then, who gets nothing of it.
//
// CONTRACT X-12
func lateWriter(t *testing.T, a Adapter) {
	var left http.ResponseWriter
	ready, proceed := make(chan struct{}), make(chan struct{})
	app := a.New()
	v1 := Guarded(t, a, app, core.Config{Routes: core.Routes{
		"POST /v1/pay":    {Recovery: core.Park, MaxAnswer: 10},
		"POST /v1/stream": {Recovery: core.Park, Streaming: true},
		"POST /v1/other":  {Recovery: core.Park},
	}})
	for _, path := range []string{"/pay", "/stream"} {
		v1.Handle(http.MethodPost, path, a.Handler(func(c Context) error {
			left = c.Inner()
			return c.String(http.StatusCreated, "secret")
		}))
	}
	v1.Handle(http.MethodPost, "/other", a.Handler(func(c Context) error {
		ready <- struct{}{}
		<-proceed
		return c.String(http.StatusCreated, "for b")
	}))
	client := Serve(t, app)
	other := Sign(t, ClaimsOf("customer-2", "customer"))
	for i := range 40 { // the pool gives the context to the next request, most of the time
		key := "key-" + strconv.Itoa(i)
		require.Equal(t, "secret", client.Do(Call{Path: "/v1/" + []string{"pay", "stream"}[i%2], Key: key}).Body)
		second := make(chan Answer)
		go func() { second <- client.Do(Call{Path: "/v1/other", Key: key, Token: other}) }()
		<-ready
		_, _ = io.WriteString(left, strings.Repeat("late", 10))
		left.(http.Flusher).Flush()
		proceed <- struct{}{}
		require.Equal(t, "for b", (<-second).Body)
	}
}

// The server removes the files of an upload when its request has ended, but only those of the request that it has made. The
// guards give handlers copies of it.
func uploads(t *testing.T, a Adapter) {
	var parsed, outer *multipart.Form
	app := a.New()
	app.Use(a.Recover(), a.Middleware(func(c Context, next func() error) error {
		request := c.Request()
		defer func() { outer = request.MultipartForm }()
		return next()
	}))
	idem := NewModule(t, core.Config{Store: NewSQLite(t).Store, Routes: core.Routes{
		"POST /v1/pay":     {Recovery: core.Park},
		"POST /v1/shadow":  {Recovery: core.Park, ShadowUntil: time.Now().Add(time.Hour)},
		"POST /v1/panic":   {Recovery: core.Park},
		"POST /v1/open":    {Exempt: "keeps nothing"},
		"POST /guards/pay": {Recovery: core.Park},
	}})
	jwt := a.JWTGuard(NewVerifier(t))
	v1, guards := app.Group("/v1", jwt, a.Idempotent(idem)), app.Group("/guards", jwt, a.KeyGuard(idem), a.Interceptor(idem))
	parse := func(c Context) {
		assert.NoError(t, c.Request().ParseMultipartForm(1))
		parsed = c.Request().MultipartForm
	}
	store := a.Handler(func(c Context) error { parse(c); return c.NoContent(http.StatusCreated) })
	for _, path := range []string{"/pay", "/shadow", "/open"} {
		v1.Handle(http.MethodPost, path, store)
	}
	v1.Handle(http.MethodPost, "/panic", a.Handler(func(c Context) error { parse(c); panic("after the upload") }))
	guards.Handle(http.MethodPost, "/pay", store)
	client := Serve(t, app)
	for _, path := range []string{"/v1/pay", "/v1/shadow", "/v1/open", "/v1/panic", "/guards/pay"} {
		parsed, outer = nil, nil
		require.NoError(t, client.Do(Call{Path: path, Key: path, Body: Multipart("1"),
			Headers: map[string]string{"Content-Type": MultipartType}}).Err)
		require.NotNil(t, parsed, path)
		require.Same(t, parsed, outer, path)
	}
}
