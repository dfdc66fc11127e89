// Package adaptertest is the harness of the adapters' tests: what the adapter of every framework must do, checked in a
// real app of that framework behind a real server. An adapter for one more framework implements [Adapter] in its tests
// and calls [Run]; what only its framework has, such as writers, error handlers and routers, it tests itself, with the
// same [Client] and fixtures.
package adaptertest

import (
	"cmp"
	"net/http"
	"testing"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
)

// Handler is a handler of the framework, in the framework's own type.
type Handler any

// Middleware is a middleware of the framework, in the framework's own type.
type Middleware any

// Adapter is the adapter under test, and its framework.
type Adapter interface {
	// New returns an app that logs nothing and that renders errors as apps of the framework do by default.
	New() App
	// Careless returns an app that renders every error of a handler, without a look at what is written already.
	Careless() App

	// Handler returns h as a handler of the framework. The handler reports the error of h as handlers of the framework
	// report errors.
	Handler(h func(c Context) error) Handler
	// Middleware returns m as a middleware of the framework. Where m does not call next, the chain ends.
	Middleware(m func(c Context, next func() error) error) Middleware
	// Recover returns the framework's own recovery middleware.
	Recover() Middleware

	JWTGuard(v *authctx.Verifier, observers ...core.Observer) Middleware
	Bridge(find func(c Context) (authctx.Principal, error), observers ...core.Observer) Middleware
	RolesGuard(idem *core.Module) Middleware
	KeyGuard(idem *core.Module) Middleware
	Interceptor(idem *core.Module) Middleware
	Idempotent(idem *core.Module) Middleware

	OperationHandler(idem *core.Module) Handler
	OwnOperationHandler(idem *core.Module) Handler
	OperationsHandler(idem *core.Module) Handler
	SettleHandler(idem *core.Module) Handler
	EraseHandler(idem *core.Module) Handler

	// Quirks returns what the framework does in a way of its own.
	Quirks() Quirks
}

// Quirks are the places in which frameworks differ.
type Quirks struct {
	Panics   map[string]Panic   // what the framework's own recovery makes of a panic
	Timeouts map[string]Timeout // the framework's own timeout middleware; it must time out by itself
	Methods  []string           // methods that nobody has heard of and that the framework's router takes
	// Param returns a parameter as the router spells it; nil: ":id".
	Param    func(name string) string
	Wildcard string // the rest of a path, as the router spells it; "": "*"
	// RecyclesNothing: the framework makes a context for each request, so none belongs to two.
	RecyclesNothing bool
}

// param returns a parameter of a route as the router of a spells it.
func param(a Adapter, name string) string {
	if spelled := a.Quirks().Param; spelled != nil {
		return spelled(name)
	}
	return ":" + name
}

// wildcard returns the rest of a path as the router of a spells it.
func wildcard(a Adapter) string { return cmp.Or(a.Quirks().Wildcard, "*") }

// Panic is a panic of a handler, and what its client gets.
type Panic struct {
	Recovery Middleware // nil: none is mounted
	Value    any
	Status   int // 0: the connection breaks
	Body     string
}

// Router takes middleware and routes.
type Router interface {
	Use(m ...Middleware)
	// Handle adds a route: its middleware, in this order, and its handler. Without a method, it is the framework's own
	// registration for any method.
	Handle(method, path string, h Handler, m ...Middleware)
	Group(prefix string, m ...Middleware) Router
}

// App is an app of the framework.
type App interface {
	http.Handler
	Router
	// Audit is the audit of the adapter.
	Audit(idem *core.Module) error
}

// Context is a request as handlers and middleware of the framework have it.
type Context interface {
	// Own is the framework's own context. It is comparable.
	Own() any
	Request() *http.Request
	SetRequest(r *http.Request)
	// Writer is the framework's writer. It has all that the framework's writers have.
	Writer() http.ResponseWriter
	// Inner is the writer that the adapter has put in place, with nothing of the framework around it that unwraps.
	Inner() http.ResponseWriter
	// Untouched reports whether neither status nor body are written to Writer.
	Untouched() bool
	// Sent returns the status and the number of bytes that Writer has been given so far.
	Sent() (status int, size int64)
	// Buffer replaces the writer by one that keeps everything back. restore puts the former one in its place, and again
	// the new one.
	Buffer() (restore, again func())

	Path() string // the route as the router spells it
	Param(name string) string
	Get(key string) any // nil where nothing is set
	Set(key string, value any)
	JSON(status int, v any) error
	String(status int, text string) error
	NoContent(status int) error
}

// check is one thing that every adapter must do.
type check struct {
	name string
	run  func(t *testing.T, a Adapter)
}

// Run checks an adapter, each check as a subtest of t.
func Run(t *testing.T, a Adapter) {
	t.Helper()
	for _, c := range []check{
		{"JWT guard", jwtGuard},
		{"bridge", bridge},
		{"order of checks", orderOfChecks},
		{"without principal", withoutPrincipal},
		{"lost role", lostRole},
		{"principal is looked up once", principalOnce},
		{"misconfigured", misconfigured},
		{"body", bodyIsWhole},
		{"two shops and one key", twoShopsAndOneKey},
		{"custom methods", customMethods},
		{"audit", auditOfGuards},
		{"audit of the module's own policy", auditOfOwnPolicy},
		{"audit of owned groups", auditOfOwnedGroups}, {"audit of any method", auditOfAnyMethod},
		{"panic", panics},
		{"rollback", rollback},
		{"conflict", conflict},
		{"client goes away", clientGoesAway},
		{"transaction that nobody asked for", transactionThatNobodyAskedFor},
		{"abandoned handler", abandonedHandler}, {"client of an abandoned handler", abandonedClient},
		{"http.TimeoutHandler in front", timeoutHandlerInFront},
		{"no way around the capture", noWayAround},
		{"streaming", streaming}, {"client that does not read", clientThatDoesNotRead},
		{"headers", headers},
		{"informational", informational},
		{"framework's context", frameworksContext},
		{"relay breaks off", relayBreaksOff},
		{"late writer", lateWriter},
		{"uploads", uploads},
		{"shadow", shadow},
		{"rekey", rekey},
		{"slow body holds nothing", slowBodyHoldsNothing},
		{"slow body is cut", slowBodyIsCut},
		{"operations", operations}, {"erasures", erasures},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, a) })
	}
}

// Guarded is a group under /v1 with all guards.
func Guarded(t testing.TB, a Adapter, app App, cfg core.Config) Router {
	t.Helper()
	return app.Group("/v1", a.JWTGuard(NewVerifier(t)), a.Idempotent(NewModule(t, cfg)))
}
