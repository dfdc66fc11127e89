package echoidem

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v5"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/adapter"
)

// Audit checks, before the app serves, that its routes have the guards that the route table of idem asks for. It returns
// one error that names everything that is wrong: see core's AuditRoutes. Call it after the last route, and [TrackRoutes]
// before the first. Of virtual hosts, audit each Echo.
//
// It runs no handler and no middleware. It has the middleware of each route from TrackRoutes, asks the router whether that
// is the route which requests get, and recognises the guards of this package by the address of their code. It does not see
// a guard that another function calls, nor a guard in Echo.Pre, which runs before there is a route. It does not tell two
// modules apart. A route of Echo.Any counts as one of each method.
func Audit(e *echo.Echo, idem *core.Module) error {
	guards, seen, global := guardCodes(), trackerOf(e), e.Middlewares()
	seen.settle()
	var found []adapter.MountedRoute
	for _, r := range e.Router().Routes() {
		if r.Method == echo.RouteNotFound {
			continue // it answers where there is no route
		}
		route := adapter.MountedRoute{Method: r.Method, Pattern: r.Path}
		if r.Method == echo.RouteAny {
			route.Method = ""
		}
		added, tracked := seen.routes[routeKey{r.Method, r.Path}]
		switch {
		case !tracked:
			route.Unproven = "it was added before echoidem.TrackRoutes; call that before the first route, set an OnAddRoute of " +
				"your own before it, and add routes by Echo, not by its Router"
		case !added.runsIn(e, guards):
			route.Unproven = "the router has something else in its place; add it once, and by Echo, not by its Router"
		default:
			route.Handler = adapter.HandlerOf(added.route.Handler)
		}
		for _, middleware := range slices.Concat(global, added.route.Middlewares) {
			route.Chain = append(route.Chain, guards.Link(adapter.CodeOf(middleware)))
		}
		found = append(found, route)
	}
	return idem.AuditRoutes(found)
}

// guardCodes are those of the guards of this package.
func guardCodes() adapter.GuardCodes {
	return adapter.NewGuardCodes(JWTGuard(nil), Bridge(nil), RolesGuard(nil), KeyGuard(nil), Interceptor(nil), Idempotent(nil))
}

type routeKey struct{ method, path string }

// addRoute is the type of Echo.OnAddRoute.
type addRoute = func(route echo.Route) error

// tracker keeps the routes. Echo tells it of one only before it is added, and does not say whether the router took it.
type tracker struct {
	echo   *echo.Echo
	routes map[routeKey]tracked
	last   *tracked // the latest one, until it is known whether the router took it
}

// tracked is a route as it was added, with a slice of middleware of its own.
type tracked struct {
	route              echo.Route
	before, dispatched any // what the router ran in its place before, and runs for it: see adapter.HandlerOf
}

// settle keeps the latest route if the router took it: it then runs something new in its place.
func (t *tracker) settle() {
	if t.last == nil {
		return
	}
	if t.last.dispatched = adapter.HandlerOf(dispatched(t.echo, t.last.route)); t.last.dispatched != t.last.before {
		t.routes[routeKey{t.last.route.Method, t.last.route.Path}] = *t.last
	}
	t.last = nil
}

// runsIn reports whether the router still runs what Echo has made of the route. If the app has put something else into the
// place of the latest route, past Echo, that is told by what is outermost: the handler alone, or what a guard makes.
func (t tracked) runsIn(e *echo.Echo, guards adapter.GuardCodes) bool {
	run, middleware := dispatched(e, t.route), t.route.Middlewares
	isGuard := func(m echo.MiddlewareFunc) bool { return guards[adapter.CodeOf(m)] != nil }
	isHandler := adapter.HandlerOf(run) == adapter.HandlerOf(t.route.Handler)
	switch {
	case run == nil || adapter.HandlerOf(run) != t.dispatched:
		return false
	case len(middleware) == 0:
		return isHandler
	case isGuard(middleware[0]):
		return adapter.CodeOf(run) == adapter.CodeOf(middleware[0](nil))
	}
	return !isHandler || !slices.ContainsFunc(middleware, isGuard)
}

// dispatched returns what the router runs for a route, nil if it does not find the route.
func dispatched(e *echo.Echo, r echo.Route) echo.HandlerFunc {
	path := "/" + strings.TrimPrefix(r.Path, "/")
	c := e.NewContext(&http.Request{Method: r.Method, URL: &url.URL{Path: strings.ReplaceAll(path, `\:`, ":")}}, nil)
	run := e.Router().Route(c) // a parameter takes its own name, too
	if found := c.RouteInfo(); found.Method != r.Method || found.Path != path {
		return nil
	}
	return run
}

// TrackRoutes remembers the middleware of each route that is added to e from now on, for [Audit]. Call it before the
// first route. It sets e.OnAddRoute, and calls the function that was set before. A second call does nothing.
func TrackRoutes(e *echo.Echo) {
	if trackerOf(e).routes == nil {
		t := &tracker{echo: e, routes: map[routeKey]tracked{}}
		e.OnAddRoute = t.hook(e.OnAddRoute)
	}
}

// hook returns the tracker as an OnAddRoute.
//
//go:noinline
func (t *tracker) hook(next addRoute) addRoute {
	return func(r echo.Route) error {
		if r.Method == question {
			return introduction{t}
		}
		if next != nil {
			if err := next(r); err != nil {
				return err // Echo does not add the route
			}
		}
		t.settle()
		r.Middlewares = slices.Clone(r.Middlewares)
		t.last = &tracked{route: r, before: adapter.HandlerOf(dispatched(t.echo, r))}
		return nil
	}
}

// question, as the method of a route, asks a hook for its tracker. It is no token, so no route has this method.
const question = "idem: whose hook is this?"

// introduction carries the tracker back to trackerOf.
type introduction struct{ *tracker }

func (introduction) Error() string { return "idem: an answer to trackerOf" }

// trackerOf returns the tracker of e, or an empty one if there is none. It asks only a hook of this package.
func trackerOf(e *echo.Echo) *tracker {
	none := &tracker{}
	if e.OnAddRoute == nil || adapter.CodeOf(e.OnAddRoute) != adapter.CodeOf(none.hook(nil)) {
		return none
	}
	if found, ok := e.OnAddRoute(echo.Route{Method: question}).(introduction); ok { //nolint:errorlint // never wrapped
		return found.tracker
	}
	return none
}
