package echoidem_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"go.uber.org/goleak"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/echoidem"
	"github.com/auth19/idem/internal/adaptertest"
	"github.com/auth19/idem/internal/adaptertest/echotest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAdapter(t *testing.T) { adaptertest.Run(t, version.Adapter) }
func TestEcho(t *testing.T)    { echotest.Run(t, version) }

// version is this package, and Echo, as the tests of all adapters of Echo know them.
var version = newVersion()

func newVersion() (e echotest.Echo) {
	recovery := middleware.RecoverWithConfig(middleware.RecoverConfig{DisablePrintStack: true})
	guard := adaptertest.Of[echo.MiddlewareFunc]
	e = echotest.Echo{
		Adapter: adaptertest.Adapter{
			New: func() adaptertest.App { return newApp() },
			Rendering: func(render func(c adaptertest.Context, err error)) (adaptertest.App, adaptertest.Adapter) {
				app := newApp()
				app.echo.HTTPErrorHandler = func(err error, c echo.Context) { render(echoContext{c}, err) }
				return app, e.Adapter
			},
			Handler: func(h func(c adaptertest.Context) error) adaptertest.Handler {
				return echo.HandlerFunc(func(c echo.Context) error { return h(echoContext{c}) })
			},
			Middleware: func(m func(c adaptertest.Context, next func() error) error) adaptertest.Middleware {
				return echo.MiddlewareFunc(func(next echo.HandlerFunc) echo.HandlerFunc {
					return func(c echo.Context) error { return m(echoContext{c}, func() error { return next(c) }) }
				})
			},
			Recover: func() adaptertest.Middleware { return recovery },
			JWTGuard: func(v *authctx.Verifier, observers ...core.Observer) adaptertest.Middleware {
				return echoidem.JWTGuard(v, observers...)
			},
			Bridge: func(find func(c adaptertest.Context) (authctx.Principal, error), o ...core.Observer) adaptertest.Middleware {
				return echoidem.Bridge(func(c echo.Context) (authctx.Principal, error) { return find(echoContext{c}) }, o...)
			},
			RolesGuard: guard(echoidem.RolesGuard), KeyGuard: guard(echoidem.KeyGuard), Interceptor: guard(echoidem.Interceptor),
			Idempotent: guard(echoidem.Idempotent),
			Operations: func(idem *core.Module, what operations.Handler) adaptertest.Handler {
				return echoidem.Operations(idem, what)
			},
			// Echo's own timeout is a time: the handler begins before or after it, and ends after it in any case.
			Timeouts: map[string]adaptertest.Timeout{
				"stock": func(c adaptertest.Context, _ <-chan struct{}, next func() error) error {
					config := middleware.TimeoutConfig{Timeout: time.Second} //nolint:staticcheck // what apps have
					stock := middleware.TimeoutWithConfig(config)            //nolint:staticcheck // what apps have
					return stock(func(echo.Context) error { return next() })(c.(echoContext).Context)
				},
			},
			Replace: func(c adaptertest.Context, w http.ResponseWriter) {
				own := c.(echoContext)
				own.SetResponse(echo.NewResponse(w, own.Echo()))
			},
			Redispatch: func(a adaptertest.App, c adaptertest.Context, path string) {
				c.Request().URL.Path = path
				a.ServeHTTP(c.Writer(), c.Request())
			},
			Furnish: func(v1 adaptertest.Router) {
				group := v1.(router).group
				group.Static("/static", ".")
				group.RouteNotFound("/*", func(c echo.Context) error { return c.String(http.StatusNotFound, "not here") })
				group.RouteNotFound("/orders/:any", func(c echo.Context) error { return c.String(http.StatusNotFound, "nor here") })
			},
			InFront: func(a adaptertest.App, m ...adaptertest.Middleware) http.Handler {
				a.(app).echo.Pre(chain(m)...)
				return a
			},
			SeesChangedMethods: true,
			Limits:             map[string]adaptertest.Middleware{"Echo's BodyLimit": middleware.BodyLimit("1024B")},
		},
		HTTPError:  func(status int, message string) error { return echo.NewHTTPError(status, message) },
		Idle:       echo.MiddlewareFunc(idle),
		CSRF:       middleware.CSRFWithConfig(middleware.CSRFConfig{TokenLookup: "form:csrf"}),
		KeyAuth:    middleware.KeyAuthWithConfig(middleware.KeyAuthConfig{KeyLookup: "form:csrf", Validator: anyKey}),
		BodyLimit:  middleware.BodyLimit("1K"),
		Decompress: middleware.Decompress(),
		Gzip:       middleware.Gzip(),
		Short:      middleware.GzipWithConfig(middleware.GzipConfig{MinLength: 500}),
		Hosts: func(mount func(r adaptertest.Router), hosts ...string) http.Handler {
			e := newApp().echo
			for _, host := range hosts {
				mount(router{e.Host(host)})
			}
			return e
		},
		Past: func(a adaptertest.App, method, path string, h adaptertest.Handler) {
			a.(app).echo.Router().Add(method, path, h.(echo.HandlerFunc))
		},
		Dump: func(dump func(in, out []byte)) adaptertest.Middleware {
			return middleware.BodyDump(func(_ echo.Context, in, out []byte) { dump(in, out) })
		},
		Logger: func(log func(status int, failed bool)) adaptertest.Middleware {
			return middleware.RequestLoggerWithConfig(middleware.RequestLoggerConfig{
				HandleError: true, LogStatus: true, LogResponseSize: true, LogError: true,
				LogValuesFunc: func(_ echo.Context, v middleware.RequestLoggerValues) error {
					log(v.Status, v.Error != nil)
					return nil
				},
			})
		},
		DumpsErrors: true,
	}
	e.Complete(answers)
	return e
}

func anyKey(string, echo.Context) (bool, error) { return true, nil }

// idle is a middleware that no audit may ask for its handler.
func idle(echo.HandlerFunc) echo.HandlerFunc { panic("a middleware was asked for its handler") }

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
type app struct {
	router
	echo *echo.Echo
}

func newApp() app {
	e := echo.New()
	e.Logger.SetOutput(io.Discard)
	echoidem.TrackRoutes(e)
	return app{router{e.Group("")}, e}
}

func (a app) Use(m ...adaptertest.Middleware)                  { a.echo.Use(chain(m)...) }
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

func (c echoContext) SetWriter(w http.ResponseWriter) { c.Response().Writer = w }
func (c echoContext) Render(err error)                { c.Error(err) }
func (c echoContext) Before(hook func())              { c.Response().Before(hook) }
func (c echoContext) After(hook func())               { c.Response().After(hook) }
func (c echoContext) SetStatus(status int)            { c.Response().Status = status }
