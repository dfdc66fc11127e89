// Package adaptertest is the harness of the adapters' tests: what the adapter of every framework must do, checked in a
// real app of that framework behind a real server. An adapter for one more framework fills an [Adapter] in its tests and
// calls [Run]. What only its framework has, such as hooks, stock middleware and ways to mount, it tests itself, with the
// same [Client] and fixtures.
package adaptertest

import (
	"cmp"
	"net/http"
	"testing"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/operations"
)

// Handler is a handler of the framework, in the framework's own type.
type Handler = any

// Middleware is a middleware of the framework, in the framework's own type.
type Middleware = any

// Adapter is the adapter under test, and its framework.
type Adapter struct {
	// New returns an app that logs nothing and that renders errors as apps of the framework do by default.
	New func() App
	// Rendering returns an app that renders the errors of handlers by render, and its adapter. The app calls render for
	// every error, without a look at what is written already. nil: handlers render their errors themselves.
	Rendering func(render func(c Context, err error)) (App, Adapter)

	// Handler returns h as a handler of the framework. The handler reports the error of h as handlers of the framework
	// report errors.
	Handler func(h func(c Context) error) Handler
	// Middleware returns m as a middleware of the framework. Where m does not call next, the chain ends.
	Middleware func(m func(c Context, next func() error) error) Middleware
	// Recover returns the framework's own recovery middleware.
	Recover func() Middleware

	JWTGuard func(v *authctx.Verifier, observers ...core.Observer) Middleware
	Bridge   func(find func(c Context) (authctx.Principal, error), observers ...core.Observer) Middleware

	RolesGuard, KeyGuard, Interceptor, Idempotent func(idem *core.Module) Middleware

	Operations func(idem *core.Module, what operations.Handler) Handler

	// What the framework has, or does in a way of its own. Each may be nil.

	Answers  func(t testing.TB) map[string]Handler // the ways of its own in which handlers answer or fail
	Readers  map[string]BodyReader                 // its ways to read the body in front of the guards
	Limits   map[string]Middleware                 // its middleware that takes bodies of 1 KiB at most
	Gzips    map[string]Middleware                 // its middleware that compresses
	Panics   map[string]Panic                      // what its own recovery makes of a panic
	Timeouts map[string]Timeout                    // its own timeout middleware; it must time out by itself
	Methods  []string                              // methods that nobody has heard of and that its router takes
	// Replace puts a response of the framework around w in the place of the handler's.
	Replace func(c Context, w http.ResponseWriter)
	// Redispatch runs the chain of another path of app in the request of a handler.
	Redispatch func(app App, c Context, path string)
	// InFront puts middleware in front of the router of app, where its guards refuse.
	InFront func(app App, m ...Middleware) http.Handler
	// Furnish adds what is no route of the app: static files, handlers of unknown paths.
	Furnish func(v1 Router)
	// Param returns a parameter as the router spells it; nil: ":id".
	Param    func(name string) string
	Wildcard string // the rest of a path, as the router spells it; "": "*"
	// RecyclesNothing: the framework makes a context for each request, so none belongs to two.
	RecyclesNothing bool
	// SeesChangedMethods: the guards know by which method the router has chosen the route.
	SeesChangedMethods bool
	// RendersBehindGzip: middleware that compresses lets an error be rendered behind the answer, so render must look.
	RendersBehindGzip bool
}

// Of returns f, which makes a handler or a middleware of a module, without the framework's type.
func Of[T any](f func(idem *core.Module) T) func(idem *core.Module) any {
	return func(idem *core.Module) any { return f(idem) }
}

// param returns a parameter of a route as the router of a spells it.
func param(a Adapter, name string) string {
	if a.Param != nil {
		return a.Param(name)
	}
	return ":" + name
}

// wildcard returns the rest of a path as the router of a spells it.
func wildcard(a Adapter) string { return cmp.Or(a.Wildcard, "*") }

// Behind begins what a careless app renders.
const Behind = "careless: "

// Careless returns an app that renders every error of a handler with status, without a look at what is written already.
func Careless(a Adapter, status int) (App, Adapter) {
	if a.Rendering == nil {
		return a.New(), a
	}
	return a.Rendering(func(c Context, err error) { _ = c.String(status, Behind+err.Error()) })
}

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
	// SetWriter puts w in the place of Inner. What it does not have, the framework's own does.
	SetWriter(w http.ResponseWriter)

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
	checks := []check{
		{"JWT guard", jwtGuard},
		{"bridge", bridge},
		{"order of checks", orderOfChecks},
		{"without principal", withoutPrincipal},
		{"lost role", lostRole},
		{"principal is looked up once", principalOnce},
		{"misconfigured", misconfigured},
		{"body", bodyIsWhole}, {"body that was read before", bodyReadBefore},
		{"limits in front", limitsInFront}, {"limit around the app", limitAroundTheApp},
		{"two shops and one key", twoShopsAndOneKey}, {"respelled paths", respelledPaths},
		{"custom methods", customMethods}, {"long method", longMethod},
		{"pass through", passThrough},
		{"in front of the router", inFrontOfTheRouter},
		{"method changed behind the router", methodChangedBehindTheRouter},
		{"audit", auditOfGuards},
		{"audit of the module's own policy", auditOfOwnPolicy},
		{"audit of any method", auditOfAnyMethod},
		{"audit of one handler", auditOfOneHandler}, {"table of the audit", tableOfTheAudit},
		{"panic", panics},
		{"rollback", rollback},
		{"conflict", conflict},
		{"client goes away", clientGoesAway},
		{"transaction without a write", transactionWithoutAWrite},
		{"http.TimeoutHandler in front", timeoutHandlerInFront},
		{"replaced request and writer", replacedRequestAndWriter},
		{"answers", answers}, {"status that is none", statusThatIsNone},
		{"compression", compression},
		{"no way around the capture", noWayAround},
		{"streaming", streaming}, {"writes inside steps", writesInsideSteps}, {"client that does not read", clientThatDoesNotRead},
		{"streams that are not recorded", streamsThatAreNotRecorded}, {"flushed without a body", flushedWithoutABody},
		{"answers that cannot break off", answersThatCannotBreakOff}, {"client without a window", clientWithoutAWindow},
		{"answers have a deadline", answersHaveADeadline}, {"a deadline ends with its answer", deadlineEndsWithItsAnswer},
		{"second chain", secondChain}, {"beside writing", besideWriting},
		{"headers", headers}, {"headers in any spelling", spelledHeaders}, {"location in any spelling", spelledLocation},
		{"informational", informational},
		{"relay breaks off", relayBreaksOff},
		{"late writer", lateWriter},
		{"uploads", uploads},
		{"shadow", shadow},
		{"rekey", rekey},
		{"slow body holds nothing", slowBodyHoldsNothing},
		{"slow body is cut", slowBodyIsCut},
		{"operations", showAndSettle}, {"erasures", erasures},
	}
	if a.Rendering != nil {
		checks = append(checks, check{"error that nobody renders", unrenderedError},
			check{"panic of the renderer", panicOfTheRenderer},
			check{"renderer behind an inner writer", rendererBehindInnerWriter})
	}
	if !a.RecyclesNothing { // net/http's middleware and handlers share no context, and have writers of their own
		checks = append(checks, check{"outer context", outerContext}, check{"sealed", sealed},
			check{"request without the attempt", requestWithoutTheAttempt},
			check{"abandoned handler", abandonedHandler}, check{"client of an abandoned handler", abandonedClient})
	}
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) { c.run(t, a) })
	}
}

// paying serves an app with POST /v1/pay behind all guards and behind outer.
func paying(t testing.TB, a Adapter, cfg core.Config, pay func(c Context) error, outer ...Middleware) *Client {
	t.Helper()
	app := a.New()
	app.Use(outer...)
	Guarded(t, a, app, cfg).Handle(http.MethodPost, "/pay", a.Handler(pay))
	return Serve(t, app)
}

// Guarded is a group under /v1 with all guards.
func Guarded(t testing.TB, a Adapter, app App, cfg core.Config) Router {
	t.Helper()
	return app.Group("/v1", a.JWTGuard(NewVerifier(t)), a.Idempotent(NewModule(t, cfg)))
}
