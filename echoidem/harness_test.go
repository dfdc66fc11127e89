package echoidem_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"go.uber.org/goleak"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/echoidem"
	"github.com/auth19/idem/internal/adaptertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAdapter(t *testing.T) { adaptertest.Run(t, adapter{}) }

// adapter is this package, and Echo, as the tests of all adapters know them.
type adapter struct{}

func (adapter) New() adaptertest.App { return newApp() }

func (adapter) Careless() adaptertest.App {
	app := newApp()
	app.echo.HTTPErrorHandler = careless
	return app
}

// careless renders every error as text and does not look at what is written already.
func careless(err error, c echo.Context) {
	status := http.StatusInternalServerError
	if he, ok := errors.AsType[*echo.HTTPError](err); ok {
		status = he.Code
	}
	_ = c.String(status, "careless: "+err.Error())
}

func (adapter) Handler(h func(c adaptertest.Context) error) adaptertest.Handler {
	return echo.HandlerFunc(func(c echo.Context) error { return h(echoContext{c}) })
}

func (adapter) Middleware(m func(c adaptertest.Context, next func() error) error) adaptertest.Middleware {
	return echo.MiddlewareFunc(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error { return m(echoContext{c}, func() error { return next(c) }) }
	})
}

func (adapter) Recover() adaptertest.Middleware {
	return middleware.RecoverWithConfig(middleware.RecoverConfig{DisablePrintStack: true})
}

func (adapter) JWTGuard(v *authctx.Verifier, observers ...core.Observer) adaptertest.Middleware {
	return echoidem.JWTGuard(v, observers...)
}

func (adapter) Bridge(
	find func(c adaptertest.Context) (authctx.Principal, error), observers ...core.Observer,
) adaptertest.Middleware {
	return echoidem.Bridge(func(c echo.Context) (authctx.Principal, error) { return find(echoContext{c}) }, observers...)
}

func (adapter) RolesGuard(idem *core.Module) adaptertest.Middleware { return echoidem.RolesGuard(idem) }
func (adapter) KeyGuard(idem *core.Module) adaptertest.Middleware   { return echoidem.KeyGuard(idem) }
func (adapter) Interceptor(idem *core.Module) adaptertest.Middleware {
	return echoidem.Interceptor(idem)
}
func (adapter) Idempotent(idem *core.Module) adaptertest.Middleware { return echoidem.Idempotent(idem) }

func (adapter) OperationHandler(idem *core.Module) adaptertest.Handler {
	return echoidem.OperationHandler(idem)
}

func (adapter) OwnOperationHandler(idem *core.Module) adaptertest.Handler {
	return echoidem.OwnOperationHandler(idem)
}

func (adapter) OperationsHandler(idem *core.Module) adaptertest.Handler {
	return echoidem.OperationsHandler(idem)
}

func (adapter) SettleHandler(idem *core.Module) adaptertest.Handler {
	return echoidem.SettleHandler(idem)
}

func (adapter) EraseHandler(idem *core.Module) adaptertest.Handler {
	return echoidem.EraseHandler(idem)
}

func (a adapter) Quirks() adaptertest.Quirks {
	return adaptertest.Quirks{
		Panics: map[string]adaptertest.Panic{
			"Echo's recovery": {Recovery: a.Recover(), Value: "boom", Status: http.StatusInternalServerError,
				Body: `{"message":"Internal Server Error"}` + "\n"},
			"an HTTP error": {Recovery: a.Recover(), Value: echo.NewHTTPError(http.StatusBadGateway, "boom"),
				Status: http.StatusBadGateway, Body: `{"message":"boom"}` + "\n"},
			"aborted handler": {Recovery: a.Recover(), Value: http.ErrAbortHandler}, // breaks off
		},
		// Echo's own timeout is a time: the handler begins before or after it, and ends after it in any case.
		Timeouts: map[string]adaptertest.Timeout{
			"stock": func(c adaptertest.Context, _ <-chan struct{}, next func() error) error {
				config := middleware.TimeoutConfig{Timeout: 200 * time.Millisecond} //nolint:staticcheck // what apps have
				stock := middleware.TimeoutWithConfig(config)                       //nolint:staticcheck // what apps have
				return stock(func(echo.Context) error { return next() })(c.(echoContext).Context)
			},
		},
		Methods: []string{"PURGE", "LINK", "PROPFIND", "CONNECTED", "post", "Post", "get", "head", "options"},
	}
}

// guarded is a group under /v1 with all guards.
func guarded(t testing.TB, e *echo.Echo, cfg core.Config) *echo.Group {
	t.Helper()
	return e.Group("/v1", echoidem.JWTGuard(adaptertest.NewVerifier(t)), echoidem.Idempotent(adaptertest.NewModule(t, cfg)))
}

// router is a group of routes.
type router struct{ group *echo.Group }

func (r router) Use(m ...adaptertest.Middleware) { r.group.Use(chain(m)...) }

func (r router) Handle(method, path string, h adaptertest.Handler, m ...adaptertest.Middleware) {
	if method == "" {
		r.group.Any(path, h.(echo.HandlerFunc), chain(m)...)
		return
	}
	r.group.Add(method, path, h.(echo.HandlerFunc), chain(m)...)
}

func (r router) Group(prefix string, m ...adaptertest.Middleware) adaptertest.Router {
	return router{r.group.Group(prefix, chain(m)...)}
}

func chain(m []adaptertest.Middleware) (functions []echo.MiddlewareFunc) {
	for _, one := range m {
		functions = append(functions, one.(echo.MiddlewareFunc))
	}
	return functions
}

// app is an Echo.
type app struct{ echo *echo.Echo }

func newApp() app {
	e := echo.New()
	e.Logger.SetOutput(io.Discard)
	echoidem.TrackRoutes(e)
	return app{e}
}

func (a app) Use(m ...adaptertest.Middleware) { a.echo.Use(chain(m)...) }

func (a app) Handle(method, path string, h adaptertest.Handler, m ...adaptertest.Middleware) {
	if method == "" {
		a.echo.Any(path, h.(echo.HandlerFunc), chain(m)...)
		return
	}
	a.echo.Add(method, path, h.(echo.HandlerFunc), chain(m)...)
}

func (a app) Group(prefix string, m ...adaptertest.Middleware) adaptertest.Router {
	return router{a.echo.Group(prefix, chain(m)...)}
}

func (a app) Audit(idem *core.Module) error                    { return echoidem.Audit(a.echo, idem) }
func (a app) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.echo.ServeHTTP(w, r) }

// echoContext is a request.
type echoContext struct{ echo.Context }

func (c echoContext) Own() any                    { return c.Context }
func (c echoContext) Writer() http.ResponseWriter { return c.Response() }
func (c echoContext) Inner() http.ResponseWriter  { return c.Response().Writer }

func (c echoContext) Untouched() bool {
	r := c.Response()
	return !r.Committed && r.Status == http.StatusOK && r.Size == 0
}

func (c echoContext) Sent() (int, int64) { return c.Response().Status, c.Response().Size }

func (c echoContext) Buffer() (restore, again func()) {
	own := c.Response().Writer
	b := &buffer{ResponseWriter: own, header: http.Header{}}
	c.Response().Writer = b
	return func() { c.Response().Writer = own }, func() { c.Response().Writer = b }
}

// buffer is the writer of timeout middleware: what the handler writes leaves in time or never.
type buffer struct {
	http.ResponseWriter
	header http.Header
	body   bytes.Buffer
}

func (b *buffer) Header() http.Header         { return b.header }
func (b *buffer) WriteHeader(int)             {}
func (b *buffer) Write(p []byte) (int, error) { return b.body.Write(p) }
