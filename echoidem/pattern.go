package echoidem

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/labstack/echo/v4"
)

// patterns finds the route of a request. c.Path() alone does not tell it: Echo also runs the middleware of groups for
// unknown paths and wrong methods, and then c.Path() is the path of the group's RouteNotFound route, or of a route with
// another method.
type patterns struct {
	mu    sync.Mutex
	known atomic.Pointer[map[route]bool] // the routes found so far; the map is replaced, never changed
}

type route struct{ method, path string }

// of returns the route of the request as the router spells it, "" if the request matches none.
func (p *patterns) of(c echo.Context) string {
	r := route{c.Request().Method, c.Path()}
	if known := p.known.Load(); r.path == "" || known != nil && (*known)[r] {
		return r.path
	}
	return p.find(c, r)
}

// find searches Echo's routes for r. It says "no route" only with proof: no route of this path has the method, and the
// router has either set the Allow header or has a RouteNotFound route for this path.
func (p *patterns) find(c echo.Context, r route) string {
	e := c.Echo()
	unmatched := c.Get(echo.ContextKeyHeaderAllow) != nil
	routes := e.Routes()
	for _, host := range e.Routers() {
		routes = append(routes, host.Routes()...)
	}
	for _, registered := range routes {
		switch {
		case registered.Path != r.path:
		case registered.Method == r.method:
			p.learn(r)
			return r.path
		case registered.Method == echo.RouteNotFound:
			unmatched = true
		}
	}
	if unmatched {
		return ""
	}
	return r.path // the app has added it by Router.Add, past Echo
}

// learn remembers a registered route. So there are never more entries than the app has routes.
func (p *patterns) learn(r route) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := map[route]bool{r: true}
	if old := p.known.Load(); old != nil {
		maps.Copy(known, *old)
	}
	p.known.Store(&known)
}
