package ginidem_test

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"
	"go.uber.org/goleak"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/ginidem"
	"github.com/auth19/idem/internal/adaptertest"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.TestMode)
	goleak.VerifyTestMain(m)
}

func TestAdapter(t *testing.T) { adaptertest.Run(t, adapter{}) }

// adapter is this package, and Gin, as the tests of all adapters know them.
type adapter struct{}

func (adapter) New() adaptertest.App { return newApp() }

func (adapter) Careless() adaptertest.App {
	app := newApp()
	app.engine.Use(errorMiddleware)
	return app
}

func (adapter) Handler(h func(c adaptertest.Context) error) adaptertest.Handler {
	return gin.HandlerFunc(func(c *gin.Context) {
		if err := h(ginContext{c}); err != nil {
			_ = c.Error(err)
		}
	})
}

// Middleware ends the chain when m returns: handlers that m has not called are not called any more.
func (adapter) Middleware(m func(c adaptertest.Context, next func() error) error) adaptertest.Middleware {
	return gin.HandlerFunc(func(c *gin.Context) {
		_ = m(ginContext{c}, func() error { c.Next(); return nil }) // errors stay in c.Errors
		c.Abort()
	})
}

func (adapter) Recover() adaptertest.Middleware { return gin.RecoveryWithWriter(nil) }

func (adapter) JWTGuard(v *authctx.Verifier, observers ...core.Observer) adaptertest.Middleware {
	return ginidem.JWTGuard(v, observers...)
}

func (adapter) Bridge(
	find func(c adaptertest.Context) (authctx.Principal, error), observers ...core.Observer,
) adaptertest.Middleware {
	return ginidem.Bridge(func(c *gin.Context) (authctx.Principal, error) { return find(ginContext{c}) }, observers...)
}

func (adapter) RolesGuard(idem *core.Module) adaptertest.Middleware { return ginidem.RolesGuard(idem) }
func (adapter) KeyGuard(idem *core.Module) adaptertest.Middleware   { return ginidem.KeyGuard(idem) }
func (adapter) Interceptor(idem *core.Module) adaptertest.Middleware {
	return ginidem.Interceptor(idem)
}
func (adapter) Idempotent(idem *core.Module) adaptertest.Middleware { return ginidem.Idempotent(idem) }

func (adapter) OperationHandler(idem *core.Module) adaptertest.Handler {
	return ginidem.OperationHandler(idem)
}

func (adapter) OwnOperationHandler(idem *core.Module) adaptertest.Handler {
	return ginidem.OwnOperationHandler(idem)
}

func (adapter) OperationsHandler(idem *core.Module) adaptertest.Handler {
	return ginidem.OperationsHandler(idem)
}

func (adapter) SettleHandler(idem *core.Module) adaptertest.Handler {
	return ginidem.SettleHandler(idem)
}

func (adapter) EraseHandler(idem *core.Module) adaptertest.Handler {
	return ginidem.EraseHandler(idem)
}

func (a adapter) Quirks() adaptertest.Quirks {
	return adaptertest.Quirks{
		Panics: map[string]adaptertest.Panic{
			"Gin's recovery": {Recovery: a.Recover(), Value: "boom", Status: http.StatusInternalServerError},
			"Gin's custom recovery": {Recovery: gin.CustomRecoveryWithWriter(nil, func(c *gin.Context, v any) {
				c.String(http.StatusBadGateway, "%v", v)
			}), Value: "boom", Status: http.StatusBadGateway, Body: "boom"},
			"aborted handler": {Recovery: a.Recover(), Value: http.ErrAbortHandler, Status: http.StatusInternalServerError},
		},
		Methods:  []string{"PURGE", "LINK", "PROPFIND", "CONNECTED"}, // Gin takes none with small letters
		Wildcard: "*rest",
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

func (c ginContext) Buffer() (restore, again func()) {
	own := c.c.Writer
	b := &buffer{ResponseWriter: own, header: http.Header{}}
	c.c.Writer = b
	return func() { c.c.Writer = own }, func() { c.c.Writer = b }
}

// buffer is the writer of timeout middleware: what the handler writes leaves in time or never.
type buffer struct {
	gin.ResponseWriter
	header http.Header
	body   bytes.Buffer
}

func (b *buffer) Header() http.Header               { return b.header }
func (b *buffer) WriteHeader(int)                   {}
func (b *buffer) WriteHeaderNow()                   {}
func (b *buffer) Write(p []byte) (int, error)       { return b.body.Write(p) }
func (b *buffer) WriteString(s string) (int, error) { return b.body.WriteString(s) }
