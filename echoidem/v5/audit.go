package echoidem

import (
	"slices"

	"github.com/labstack/echo/v5"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/adapter"
)

// Audit checks, before the app serves, that its routes have the guards that the route table of idem asks for. It returns
// one error that names everything that is wrong: see core's AuditRoutes. Call it after the last route, and [TrackRoutes]
// before the first. Of virtual hosts, audit each Echo.
//
// It runs no handler and no middleware. It has the middleware of each route from TrackRoutes, and recognises the guards
// of this package by the address of their code. It does not see a guard that another function calls, nor a guard in
// Echo.Pre, which runs before there is a route. It does not tell two modules apart. A route of Echo.Any counts as one of
// each method.
func Audit(e *echo.Echo, idem *core.Module) error {
	guards, seen, global := guardCodes(), trackerOf(e), e.Middlewares()
	var found []adapter.MountedRoute
	for _, r := range e.Router().Routes() {
		if r.Method == echo.RouteNotFound {
			continue // it answers where there is no route
		}
		route := adapter.MountedRoute{Method: r.Method, Pattern: r.Path}
		if r.Method == echo.RouteAny {
			route.Method = ""
		}
		chain, tracked := seen.chains[routeKey{r.Method, r.Path}]
		route.Handler = seen.handlers[routeKey{r.Method, r.Path}]
		if !tracked {
			route.Unproven = "it was added before echoidem.TrackRoutes; call that before the first route, and set an " +
				"OnAddRoute of your own before it"
		}
		for _, middleware := range slices.Concat(global, chain) {
			route.Guards = append(route.Guards, guards[adapter.CodeOf(middleware)]...)
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

// tracker keeps the middleware of each route, and the code of its handler. Echo tells it only when the route is added.
type tracker struct {
	chains   map[routeKey][]echo.MiddlewareFunc
	handlers map[routeKey]uintptr
}

// TrackRoutes remembers the middleware of each route that is added to e from now on, for [Audit]. Call it before the
// first route. It sets e.OnAddRoute, and calls the function that was set before. A second call does nothing.
func TrackRoutes(e *echo.Echo) {
	if trackerOf(e).chains == nil {
		t := &tracker{chains: map[routeKey][]echo.MiddlewareFunc{}, handlers: map[routeKey]uintptr{}}
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
		t.chains[routeKey{r.Method, r.Path}] = r.Middlewares
		t.handlers[routeKey{r.Method, r.Path}] = adapter.CodeOf(r.Handler)
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
