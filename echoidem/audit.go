package echoidem

import (
	"reflect"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/adapter"
)

// Audit checks, before the app serves, that its routes have the guards that the route table of idem asks for. It returns
// one error that names everything that is wrong: see core's AuditRoutes. Call it after the last route, and [TrackRoutes]
// before the first.
//
// It runs no handler and no middleware. It has the middleware of each route from TrackRoutes, asks the router whether that
// is the route which requests get, and recognises the guards of this package by the address of their code. It does not see
// a guard that another function calls, nor a guard in Echo.Pre, which runs before there is a route. It does not tell two
// modules apart, and does not see new routes that the app has added by Router.Add, past Echo.
func Audit(e *echo.Echo, idem *core.Module) error {
	global, readable := globalChain(reflect.ValueOf(e))
	seen := trackerOf(e)
	routes := mounted(e, "", seen, global, readable)
	for host := range e.Routers() {
		routes = append(routes, mounted(e, host, seen, global, readable)...)
	}
	return idem.AuditRoutes(routes)
}

// mounted returns the routes with the guards in the chain of each: those of Echo.Use, then those that were tracked.
func mounted(e *echo.Echo, host string, seen *tracker, global []uintptr, readable bool) []adapter.MountedRoute {
	guards := guardCodes()
	var found []adapter.MountedRoute
	for _, r := range routerOf(e, host).Routes() {
		if r.Method == echo.RouteNotFound {
			continue // it answers where there is no route
		}
		route := adapter.MountedRoute{Host: host, Method: r.Method, Pattern: r.Path}
		added, tracked := seen.routes[routeKey{host, r.Method, r.Path}]
		route.Handler = added.handler
		switch {
		case !tracked:
			route.Unproven = "it was added before echoidem.TrackRoutes; call that before the first route, and set an " +
				"OnAddRouteHandler of your own before it"
		case !readable:
			route.Unproven = "the middleware of Echo.Use could not be read; use the Echo version that this module requires"
		case added.dispatched == nil || added.dispatched != dispatched(e, host, r.Method, r.Path):
			route.Unproven = "the router has something else in its place; add it once, and by Echo, not by its Router"
		case !slices.EqualFunc(added.middleware, added.atFirst, sameMiddleware):
			route.Unproven = "its slice of middleware was changed after it was added; give each route a slice of its own"
		}
		for _, code := range global {
			route.Chain = append(route.Chain, guards.Link(code))
		}
		for _, middleware := range added.middleware {
			route.Chain = append(route.Chain, guards.Link(adapter.CodeOf(middleware)))
		}
		found = append(found, route)
	}
	return found
}

func sameMiddleware(a, b echo.MiddlewareFunc) bool {
	return adapter.HandlerOf(a) == adapter.HandlerOf(b)
}

// routerOf returns the router of a host; "" is that of all hosts that have none.
func routerOf(e *echo.Echo, host string) *echo.Router {
	if router, ok := e.Routers()[host]; ok {
		return router
	}
	return e.Router()
}

// dispatched returns what the router runs for a route, nil if it does not find the route. Echo makes one for each route.
func dispatched(e *echo.Echo, host, method, path string) handler {
	found := e.NewContext(nil, nil)
	routerOf(e, host).Find(method, strings.ReplaceAll(path, `\:`, ":"), found) // a parameter takes its own name, too
	if found.Path() != path {
		return nil
	}
	return handlerOf(found.Handler())
}

// guardCodes are those of the guards of this package.
func guardCodes() adapter.GuardCodes {
	return adapter.NewGuardCodes(JWTGuard(nil), Bridge(nil), RolesGuard(nil), KeyGuard(nil), Interceptor(nil), Idempotent(nil))
}

type routeKey struct{ host, method, path string }

// globalChain reads the code addresses of the middleware of Echo.Use, which Echo does not export. It returns false if
// that has another layout than expected.
func globalChain(e reflect.Value) (codes []uintptr, ok bool) {
	chain := e.Elem().FieldByName("middleware")
	if chain.Kind() != reflect.Slice || chain.Type().Elem().Kind() != reflect.Func {
		return nil, false
	}
	for i := range chain.Len() {
		codes = append(codes, chain.Index(i).Pointer())
	}
	return codes, true
}

// addRoute is the type of Echo.OnAddRouteHandler.
type addRoute = func(host string, route echo.Route, handler echo.HandlerFunc, middleware []echo.MiddlewareFunc)

// tracker keeps the routes. Echo tells it of one only when it is added.
type tracker struct{ routes map[routeKey]tracked }

// tracked is a route as it was added. Echo reads the slice of its middleware again at each request.
type tracked struct {
	middleware, atFirst []echo.MiddlewareFunc
	handler             any     // see adapter.HandlerOf
	dispatched          handler // see dispatched
}

// TrackRoutes remembers the middleware of each route that is added to e from now on, for [Audit]. Call it before the
// first route. It sets e.OnAddRouteHandler, and calls the handler that was set before. A second call does nothing.
func TrackRoutes(e *echo.Echo) {
	if trackerOf(e).routes == nil {
		t := &tracker{routes: map[routeKey]tracked{}}
		e.OnAddRouteHandler = t.hook(e, e.OnAddRouteHandler)
	}
}

// hook returns the tracker as an OnAddRouteHandler.
//
//go:noinline
func (t *tracker) hook(e *echo.Echo, next addRoute) addRoute {
	return func(host string, r echo.Route, handler echo.HandlerFunc, middleware []echo.MiddlewareFunc) {
		if isQuestion(middleware) {
			_ = handler(introduction{tracker: t})
			return
		}
		t.routes[routeKey{host, r.Method, r.Path}] = tracked{middleware: middleware, atFirst: slices.Clone(middleware),
			handler: adapter.HandlerOf(handler), dispatched: dispatched(e, host, r.Method, r.Path)}
		if next != nil {
			next(host, r, handler, middleware)
		}
	}
}

// question, as the middleware of a route, asks a hook for its tracker. No app has this slice.
var question = make([]echo.MiddlewareFunc, 1)

func isQuestion(middleware []echo.MiddlewareFunc) bool {
	return len(middleware) == 1 && &middleware[0] == &question[0]
}

// introduction carries the tracker back to trackerOf. It is not a real context.
type introduction struct {
	echo.Context
	tracker *tracker
}

// trackerOf returns the tracker of e, or an empty one if there is none. It asks only a hook of this package.
func trackerOf(e *echo.Echo) *tracker {
	found := &tracker{}
	if e.OnAddRouteHandler != nil && adapter.CodeOf(e.OnAddRouteHandler) == adapter.CodeOf(found.hook(nil, nil)) {
		e.OnAddRouteHandler("", echo.Route{}, func(c echo.Context) error {
			found = c.(introduction).tracker
			return nil
		}, question)
	}
	return found
}
