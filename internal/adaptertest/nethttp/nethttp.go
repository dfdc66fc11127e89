// Package nethttp is net/http with the guards of httpidem, as the tests of all adapters know an adapter. The routers that
// take middleware of net/http differ only in their [Router].
package nethttp

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/httpidem"
	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/internal/adaptertest"
)

// Router is a router, or a group of it.
type Router interface {
	http.Handler
	Use(m ...httpidem.Middleware)
	Group(prefix string, m ...httpidem.Middleware) Router
	// Handle adds a route behind the middleware of the group.
	Handle(method, path string, h http.Handler)
	Audit(idem *core.Module) error
}

// New returns httpidem on a router, as the tests of all adapters know an adapter. Methods are those that nobody has heard of
// and that the router takes; wildcard is the rest of a path as the router spells it; its patterns have the method or not.
func New(newRouter func() Router, methods []string, wildcard string, methodInPattern bool) adaptertest.Adapter {
	recovery := middleware(func(c adaptertest.Context, next func() error) error { // net/http has only the server's
		defer func() {
			switch v := recover(); v {
			case nil:
			case http.ErrAbortHandler:
				panic(v)
			default:
				http.Error(c.Writer(), "recovered", http.StatusInternalServerError)
			}
		}()
		return next()
	})
	guard := adaptertest.Of[httpidem.Middleware]
	return adaptertest.Adapter{
		New:        func() adaptertest.App { return app{router{newRouter()}} },
		Handler:    handler,
		Middleware: middleware,
		Recover:    func() adaptertest.Middleware { return recovery },
		JWTGuard: func(v *authctx.Verifier, observers ...core.Observer) adaptertest.Middleware {
			return httpidem.JWTGuard(v, observers...)
		},
		Bridge: func(find func(c adaptertest.Context) (authctx.Principal, error), o ...core.Observer) adaptertest.Middleware {
			return httpidem.Bridge(func(r *http.Request) (authctx.Principal, error) { return find(&exchange{r: r}) }, o...)
		},
		RolesGuard: guard(httpidem.RolesGuard), KeyGuard: guard(httpidem.KeyGuard), Interceptor: guard(httpidem.Interceptor),
		Idempotent: guard(httpidem.Idempotent),
		Operations: func(idem *core.Module, what operations.Handler) adaptertest.Handler {
			return httpidem.Operations(idem, what)
		},
		Panics: map[string]adaptertest.Panic{
			"recovery": {Recovery: recovery, Value: "boom", Status: http.StatusInternalServerError, Body: "recovered\n"},
			"aborted":  {Recovery: recovery, Value: http.ErrAbortHandler}, // breaks off
		},
		InFront: func(app adaptertest.App, m ...adaptertest.Middleware) http.Handler {
			var handler http.Handler = app
			for _, middleware := range slices.Backward(chain(m)) {
				handler = middleware(handler)
			}
			return handler
		},
		Methods:         methods,
		Wildcard:        wildcard,
		Param:           func(name string) string { return "{" + name + "}" },
		RecyclesNothing: true,

		SeesChangedMethods: methodInPattern,
		Redispatch: func(a adaptertest.App, c adaptertest.Context, path string) {
			c.Request().URL.Path = path
			a.ServeHTTP(c.Writer(), c.Request())
		},
	}
}

// handler writes the error of h, unless an answer has begun.
func handler(h func(c adaptertest.Context) error) adaptertest.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &exchange{w: w, r: r}
		if err := h(c); err != nil && c.Untouched() {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
}

func middleware(m func(c adaptertest.Context, next func() error) error) adaptertest.Middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c := &exchange{w: w, r: r}
			_ = m(c, func() error { next.ServeHTTP(c.w, c.r); return nil }) // handlers have written their errors
		})
	}
}

// router is a group of routes.
type router struct{ own Router }

func (r router) Use(m ...adaptertest.Middleware) { r.own.Use(chain(m)...) }

func (r router) Handle(method, path string, h adaptertest.Handler, m ...adaptertest.Middleware) {
	r.own.Group("", chain(m)...).Handle(method, path, h.(http.Handler))
}

func (r router) Group(prefix string, m ...adaptertest.Middleware) adaptertest.Router {
	return router{r.own.Group(prefix, chain(m)...)}
}

func chain(m []adaptertest.Middleware) (functions []httpidem.Middleware) {
	for _, one := range m {
		functions = append(functions, one.(httpidem.Middleware))
	}
	return functions
}

// app is a router whose writers know what was written.
type app struct{ router }

func (a app) Audit(idem *core.Module) error { return a.own.Audit(idem) }

func (a app) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.own.ServeHTTP(&writer{ResponseWriter: w}, r)
}

// writer is net/http's, and knows whether the answer has begun.
type writer struct {
	http.ResponseWriter
	written bool
}

func (w *writer) Written() bool               { return w.written }
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *writer) WriteHeader(status int) {
	w.written = true
	w.ResponseWriter.WriteHeader(status)
}

func (w *writer) Write(p []byte) (int, error) {
	w.written = true
	return w.ResponseWriter.Write(p)
}

// exchange is a request.
type exchange struct {
	w http.ResponseWriter
	r *http.Request
}

type valueKey string

func (c *exchange) Own() any                        { return c.r }
func (c *exchange) Request() *http.Request          { return c.r }
func (c *exchange) SetRequest(r *http.Request)      { c.r = r }
func (c *exchange) Writer() http.ResponseWriter     { return c.w }
func (c *exchange) Inner() http.ResponseWriter      { return c.w }
func (c *exchange) SetWriter(w http.ResponseWriter) { c.w = w }
func (c *exchange) Untouched() bool                 { return !c.w.(interface{ Written() bool }).Written() }
func (c *exchange) Sent() (int, int64)              { panic("net/http's writers do not say") }
func (c *exchange) Path() string                    { return c.r.Pattern }
func (c *exchange) Param(name string) string        { return c.r.PathValue(name) }
func (c *exchange) Get(key string) any              { return c.r.Context().Value(valueKey(key)) }

func (c *exchange) Set(key string, value any) {
	c.r = c.r.WithContext(context.WithValue(c.r.Context(), valueKey(key), value))
}

func (c *exchange) JSON(status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.send(status, "application/json", body)
}

func (c *exchange) String(status int, text string) error {
	return c.send(status, "text/plain; charset=utf-8", []byte(text))
}

func (c *exchange) NoContent(status int) error {
	c.w.WriteHeader(status)
	return nil
}

func (c *exchange) send(status int, contentType string, body []byte) error {
	c.w.Header().Set("Content-Type", contentType)
	c.w.WriteHeader(status)
	_, err := c.w.Write(body)
	return err
}
