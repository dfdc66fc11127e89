package echoidem

import (
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/labstack/echo/v4"
)

// patterns finds the route of a request. c.Path() alone does not tell it: Echo also runs the middleware of groups for
// unknown paths and wrong methods, and then c.Path() is the path of the group's RouteNotFound route, or of a route with
// another method. The method of the request does not tell it either: middleware may have changed it since. But Echo makes
// a handler for each route, and c.Handler() is that of the route that the router has chosen.
type patterns struct {
	mu    sync.Mutex
	known atomic.Pointer[routes] // replaced, never changed
}

// routes are those found so far.
type routes struct {
	byHandler map[handler]route
	counts    map[*echo.Echo]int // how many routes an app had when they were read
}

// handler tells a function from all others, which its code does not: see handlerOf.
type handler unsafe.Pointer

type route struct{ method, path string }

// of returns the route of the request as the router spells it, "" if the request matches none.
func (p *patterns) of(c echo.Context) string {
	if r, ok := p.chosen(c); ok {
		return r.path
	}
	return search(c)
}

// unguardable says why the route of the request, or its method, is not what core would take it for; "" if it is.
func (p *patterns) unguardable(c echo.Context) string {
	method := c.Request().Method
	switch r, ok := p.chosen(c); {
	case c.Path() == "" && inFront(c):
		return "the guard stands in front of the router, where the route is not known yet; mount it by Use, not by Pre"
	case ok && r.method != method && (r.method != http.MethodGet || method != http.MethodHead):
		return "the method of the request was changed after the router had chosen a route by it; mount what changes methods by " +
			"Pre, not by Use"
	}
	return ""
}

// inFront tells whether the router would find a route for a request that has none: it was not asked yet.
func inFront(c echo.Context) bool {
	e, r := c.Echo(), c.Request()
	found := e.NewContext(r, nil)
	routerOf(e, r.Host).Find(r.Method, echo.GetPath(r), found)
	return found.Path() != ""
}

// chosen returns the route whose handler the router has chosen. It does not know routes that the app has added by
// Router.Add, past Echo.
func (p *patterns) chosen(c echo.Context) (route, bool) {
	if c.Path() == "" {
		return route{}, false
	}
	h, known := handlerOf(c.Handler()), p.known.Load()
	if known == nil || known.byHandler[h] == (route{}) {
		known = p.learn(c.Echo())
	}
	r := known.byHandler[h]
	return r, r != route{}
}

// learn reads the routes of e, if there are more than the last time.
func (p *patterns) learn(e *echo.Echo) *routes {
	all := routers(e)
	count := 0
	for _, router := range all {
		count += len(router.Routes())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	learned := &routes{byHandler: map[handler]route{}, counts: map[*echo.Echo]int{}}
	if old := p.known.Load(); old != nil {
		if old.counts[e] == count {
			return old
		}
		maps.Copy(learned.byHandler, old.byHandler)
		maps.Copy(learned.counts, old.counts)
	}
	for _, router := range all {
		for _, registered := range router.Routes() {
			found := e.NewContext(nil, nil)
			router.Find(registered.Method, registered.Path, found) // a parameter takes its own name, too
			if registered.Method != echo.RouteNotFound && found.Path() == registered.Path {
				learned.byHandler[handlerOf(found.Handler())] = route{registered.Method, registered.Path}
			}
		}
	}
	learned.counts[e] = count
	p.known.Store(learned)
	return learned
}

// search looks for the path and method of a request whose handler is unknown. It says "no route" only with proof: no
// route of this path has the method, and the router has either set the Allow header or has a RouteNotFound route for this
// path.
func search(c echo.Context) string {
	path, unmatched := c.Path(), c.Get(echo.ContextKeyHeaderAllow) != nil
	if path == "" {
		return ""
	}
	for _, router := range routers(c.Echo()) {
		for _, registered := range router.Routes() {
			switch {
			case registered.Path != path:
			case registered.Method == c.Request().Method:
				return path
			case registered.Method == echo.RouteNotFound:
				unmatched = true
			}
		}
	}
	if unmatched {
		return ""
	}
	return path // the app has added it by Router.Add, past Echo
}

// routers returns the router of e, and those of its hosts.
func routers(e *echo.Echo) []*echo.Router {
	all := []*echo.Router{e.Router()}
	for _, router := range e.Routers() {
		all = append(all, router)
	}
	return all
}

// handlerOf returns the address of the function's closure. All handlers that Echo makes have the same code, so the code
// does not tell them apart, and package reflect gives no more than that.
//
// Without it, middleware behind the router that makes a POST look like a GET (Echo's MethodOverride, by Use) runs the
// handler of the POST without a key (K-8). Not enough instead: Context.Path and Router.Find, which tell patterns apart,
// and not two methods of one pattern. A function is a pointer to its closure in every release of Go since 1.1.
// TestPatternsLearn pins that, and that Echo makes a closure for each route, in the lowest and in the newest version of
// Echo that CI runs.
func handlerOf(h echo.HandlerFunc) handler {
	return *(*handler)(unsafe.Pointer(&h)) //nolint:gosec // a function is a pointer to its closure
}
