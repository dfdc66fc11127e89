package ginidem_test

import (
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"
	"go.uber.org/goleak"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/ginidem"
	"github.com/auth19/idem/internal/adaptertest"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.TestMode)
	goleak.VerifyTestMain(m)
}

func TestAdapter(t *testing.T) { adaptertest.Run(t, adapter) }

// adapter is this package, and Gin, as the tests of all adapters know them.
var adapter = newAdapter()

func newAdapter() (a adaptertest.Adapter) {
	recovery := gin.RecoveryWithWriter(nil)
	guard := adaptertest.Of[gin.HandlerFunc]
	a = adaptertest.Adapter{
		New: func() adaptertest.App { return newApp() },
		Rendering: func(render func(c adaptertest.Context, err error)) (adaptertest.App, adaptertest.Adapter) {
			last := func(c *gin.Context) { render(ginContext{c}, c.Errors.Last()) }
			app, rendering := newApp(), a
			app.engine.Use(errorMiddleware(last))
			rendering.Idempotent = func(idem *core.Module) adaptertest.Middleware {
				return ginidem.Idempotent(idem, ginidem.WithErrorRenderer(last))
			}
			return app, rendering
		},
		Handler: func(h func(c adaptertest.Context) error) adaptertest.Handler {
			return gin.HandlerFunc(func(c *gin.Context) {
				if err := h(ginContext{c}); err != nil {
					_ = c.Error(err)
				}
			})
		},
		// The chain ends when m returns: handlers that m has not called are not called any more.
		Middleware: func(m func(c adaptertest.Context, next func() error) error) adaptertest.Middleware {
			return gin.HandlerFunc(func(c *gin.Context) {
				_ = m(ginContext{c}, func() error { c.Next(); return nil }) // errors stay in c.Errors
				c.Abort()
			})
		},
		Recover: func() adaptertest.Middleware { return recovery },
		JWTGuard: func(v *authctx.Verifier, observers ...core.Observer) adaptertest.Middleware {
			return ginidem.JWTGuard(v, observers...)
		},
		Bridge: func(find func(c adaptertest.Context) (authctx.Principal, error), o ...core.Observer) adaptertest.Middleware {
			return ginidem.Bridge(func(c *gin.Context) (authctx.Principal, error) { return find(ginContext{c}) }, o...)
		},
		RolesGuard: guard(ginidem.RolesGuard), KeyGuard: guard(ginidem.KeyGuard),
		Interceptor: func(idem *core.Module) adaptertest.Middleware { return ginidem.Interceptor(idem) },
		Idempotent:  func(idem *core.Module) adaptertest.Middleware { return ginidem.Idempotent(idem) },
		Operations: func(idem *core.Module, what operations.Handler) adaptertest.Handler {
			return ginidem.Operations(idem, what)
		},
		Answers: answers,
		Readers: readers(),
		Limits:  map[string]adaptertest.Middleware{"answering": gin.HandlerFunc(limit)},
		Panics: map[string]adaptertest.Panic{
			"Gin's recovery": {Recovery: recovery, Value: "boom", Status: http.StatusInternalServerError},
			"Gin's custom recovery": {Recovery: gin.CustomRecoveryWithWriter(nil, func(c *gin.Context, v any) {
				c.String(http.StatusBadGateway, "%v", v)
			}), Value: "boom", Status: http.StatusBadGateway, Body: "boom"},
			"aborted handler": {Recovery: recovery, Value: http.ErrAbortHandler, Status: http.StatusInternalServerError},
		},
		Redispatch: func(a adaptertest.App, c adaptertest.Context, path string) {
			c.Request().URL.Path = path
			a.(app).engine.HandleContext(c.(ginContext).c)
		},
		Methods:  []string{"PURGE", "LINK", "PROPFIND", "CONNECTED"}, // Gin takes none with small letters
		Furnish:  func(v1 adaptertest.Router) { v1.(router).group.Static("/static", ".") },
		Wildcard: "*rest",

		SeesChangedMethods: true,
	}
	return a
}

// errorMiddleware is what apps of Gin mount to render errors, with no look at what is written already.
func errorMiddleware(render gin.HandlerFunc) gin.HandlerFunc {
	return func(c *gin.Context) {
		c.Next()
		if len(c.Errors) > 0 {
			render(c)
		}
	}
}

// guarded is a group under /v1 with all guards.
func guarded(t testing.TB, r *gin.Engine, cfg core.Config, opts ...ginidem.Option) *gin.RouterGroup {
	t.Helper()
	return r.Group("/v1", ginidem.JWTGuard(adaptertest.NewVerifier(t)),
		ginidem.Idempotent(adaptertest.NewModule(t, cfg), opts...))
}

// router is a group of routes.
type router struct{ group *gin.RouterGroup }

func (r router) Use(m ...adaptertest.Middleware) { r.group.Use(chain(m)...) }

func (r router) Handle(method, path string, h adaptertest.Handler, m ...adaptertest.Middleware) {
	if method == "" {
		r.group.Any(path, append(chain(m), h.(gin.HandlerFunc))...)
		return
	}
	r.group.Handle(method, path, append(chain(m), h.(gin.HandlerFunc))...)
}

func (r router) Group(prefix string, m ...adaptertest.Middleware) adaptertest.Router {
	return router{r.group.Group(prefix, chain(m)...)}
}

func chain(m []adaptertest.Middleware) (handlers []gin.HandlerFunc) {
	for _, one := range m {
		handlers = append(handlers, one.(gin.HandlerFunc))
	}
	return handlers
}

// app is an engine.
type app struct {
	router
	engine *gin.Engine
}

func newApp() app {
	r := gin.New()
	r.HandleMethodNotAllowed = true
	r.NoRoute(func(c *gin.Context) { c.String(http.StatusNotFound, "no route") })
	r.NoMethod(func(c *gin.Context) { c.String(http.StatusMethodNotAllowed, "no method") })
	return app{router{&r.RouterGroup}, r}
}

func (a app) Use(m ...adaptertest.Middleware)                  { a.engine.Use(chain(m)...) }
func (a app) Audit(idem *core.Module) error                    { return ginidem.Audit(a.engine, idem) }
func (a app) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.engine.ServeHTTP(w, r) }

// ginContext is a request.
type ginContext struct{ c *gin.Context }

func (c ginContext) Own() any                    { return c.c }
func (c ginContext) Request() *http.Request      { return c.c.Request }
func (c ginContext) SetRequest(r *http.Request)  { c.c.Request = r }
func (c ginContext) Writer() http.ResponseWriter { return c.c.Writer }
func (c ginContext) Inner() http.ResponseWriter  { return c.c.Writer }
func (c ginContext) Untouched() bool             { return !c.c.Writer.Written() }
func (c ginContext) Sent() (int, int64)          { return c.c.Writer.Status(), int64(c.c.Writer.Size()) }
func (c ginContext) Path() string                { return c.c.FullPath() }
func (c ginContext) Param(name string) string    { return c.c.Param(name) }
func (c ginContext) Set(key string, value any)   { c.c.Set(key, value) }

func (c ginContext) Get(key string) any {
	value, _ := c.c.Get(key)
	return value
}

func (c ginContext) JSON(status int, v any) error         { c.c.JSON(status, v); return nil }
func (c ginContext) String(status int, text string) error { c.c.String(status, "%s", text); return nil }

func (c ginContext) NoContent(status int) error {
	c.c.Status(status)
	c.c.Writer.WriteHeaderNow()
	return nil
}

func (c ginContext) SetWriter(w http.ResponseWriter) {
	if own, ok := w.(gin.ResponseWriter); ok {
		c.c.Writer = own
		return
	}
	c.c.Writer = replaced{c.c.Writer, w}
}

// replaced is Gin's writer with another one's answer.
type replaced struct {
	gin.ResponseWriter
	w http.ResponseWriter
}

func (r replaced) Header() http.Header               { return r.w.Header() }
func (r replaced) WriteHeader(status int)            { r.w.WriteHeader(status) }
func (r replaced) Write(p []byte) (int, error)       { return r.w.Write(p) }
func (r replaced) WriteString(s string) (int, error) { return r.w.Write([]byte(s)) }

func (r replaced) WriteHeaderNow() {
	if w, ok := r.w.(interface{ WriteHeaderNow() }); ok {
		w.WriteHeaderNow()
		return
	}
	r.ResponseWriter.WriteHeaderNow()
}
