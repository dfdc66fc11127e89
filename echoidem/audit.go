package echoidem

import (
	"reflect"

	"github.com/labstack/echo/v4"

	"github.com/auth19/idem/core"
)

// Audit proves, before an app serves, that its routes are guarded as the table of idem says (contract D-2). It returns
// one error that names everything that is wrong: see core's AuditRoutes. Call it after the last route, and [TrackRoutes]
// before the first.
//
// It runs no handler and no middleware: it takes the chain of each route from what was tracked, and knows the guards
// of this package by their code. A guard inside another function is not seen, nor is one in Echo.Pre, which runs before
// there is a route; two modules are not told apart; and a route that Router.Add has put past Echo is in no list.
func Audit(e *echo.Echo, idem *core.Module) error {
	global, readable := globalChain(reflect.ValueOf(e))
	seen := trackerOf(e)
	routes := mounted("", e.Router().Routes(), seen, global, readable)
	for host, router := range e.Routers() {
		routes = append(routes, mounted(host, router.Routes(), seen, global, readable)...)
	}
	return idem.AuditRoutes(routes)
}

// mounted says which guards are in the chain of each route: those of the whole Echo, then what was tracked.
func mounted(host string, routes []*echo.Route, seen *tracker, global []uintptr, readable bool) []core.MountedRoute {
	guards := guardsByCode()
	var found []core.MountedRoute
	for _, r := range routes {
		if r.Method == echo.RouteNotFound {
			continue // no route, but what answers where there is none
		}
		route := core.MountedRoute{Host: host, Method: r.Method, Pattern: r.Path}
		chain, tracked := seen.chains[routeKey{host, r.Method, r.Path}]
		switch {
		case !tracked:
			route.Unproven = "nobody saw it being added; call echoidem.TrackRoutes before the first route, and set an " +
				"OnAddRouteHandler of your own before that"
		case !readable:
			route.Unproven = "the middleware of Echo.Use could not be read; use the Echo version that this module requires"
		}
		for _, code := range global {
			route.Guards = append(route.Guards, guards[code]...)
		}
		for _, middleware := range chain {
			route.Guards = append(route.Guards, guards[codeOf(middleware)]...)
		}
		found = append(found, route)
	}
	return found
}

// guardsByCode says which guards a function of this package stands for. Closures of one constructor share their code.
func guardsByCode() map[uintptr][]core.Guard {
	return map[uintptr][]core.Guard{
		codeOf(JWTGuard(nil)):    {core.GuardJWT},
		codeOf(Bridge(nil)):      {core.GuardJWT},
		codeOf(RolesGuard(nil)):  {core.GuardRoles},
		codeOf(KeyGuard(nil)):    {core.GuardKey},
		codeOf(Interceptor(nil)): {core.GuardInterceptor},
		codeOf(Idempotent(nil)):  {core.GuardRoles, core.GuardKey, core.GuardInterceptor},
	}
}

func codeOf(f any) uintptr { return reflect.ValueOf(f).Pointer() }

type routeKey struct{ host, method, path string }

// globalChain reads the code of the middleware of Echo.Use, which Echo does not export. It is false where that is laid
// out in another way than it was known to be.
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

// tracker keeps what Echo says when a route is added: the one moment in which it shows the route's chain.
type tracker struct {
	chains map[routeKey][]echo.MiddlewareFunc
}

// TrackRoutes lets [Audit] see the routes that are added to e from now on: call it before the first. It takes the place of
// e.OnAddRouteHandler, and passes on to the one that is there.
func TrackRoutes(e *echo.Echo) {
	if trackerOf(e).chains == nil {
		t := &tracker{chains: map[routeKey][]echo.MiddlewareFunc{}}
		e.OnAddRouteHandler = t.hook(e.OnAddRouteHandler)
	}
}

// hook returns the tracker as an OnAddRouteHandler.
//
//go:noinline
func (t *tracker) hook(next addRoute) addRoute {
	return func(host string, r echo.Route, handler echo.HandlerFunc, middleware []echo.MiddlewareFunc) {
		if isQuestion(middleware) {
			_ = handler(introduction{tracker: t})
			return
		}
		t.chains[routeKey{host, r.Method, r.Path}] = middleware
		if next != nil {
			next(host, r, handler, middleware)
		}
	}
}

// question, passed as a route's middleware, asks a hook for its tracker. Nobody else has this slice.
var question = make([]echo.MiddlewareFunc, 1)

func isQuestion(middleware []echo.MiddlewareFunc) bool {
	return len(middleware) == 1 && &middleware[0] == &question[0]
}

// introduction carries a tracker to the one who asked; it is no context.
type introduction struct {
	echo.Context
	tracker *tracker
}

// trackerOf returns the tracker of e, an empty one if there is none. Only a hook of this package is asked.
func trackerOf(e *echo.Echo) *tracker {
	found := &tracker{}
	if e.OnAddRouteHandler != nil && codeOf(e.OnAddRouteHandler) == codeOf(found.hook(nil)) {
		e.OnAddRouteHandler("", echo.Route{}, func(c echo.Context) error {
			found = c.(introduction).tracker
			return nil
		}, question)
	}
	return found
}
