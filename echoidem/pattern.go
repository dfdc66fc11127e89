package echoidem

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/labstack/echo/v4"
)

// patterns tells what the router has a route for. Echo runs the middleware of groups for unknown paths and wrong
// methods too, and c.Path() is set then as well: to the path of the group's RouteNotFound route, or to that of a route
// with another method.
type patterns struct {
	mu    sync.Mutex
	known atomic.Pointer[map[route]bool] // what was looked up and found; replaced, never changed
}

type route struct{ method, path string }

// of is the route of the request as the router spells it, "" where the router has none.
func (p *patterns) of(c echo.Context) string {
	r := route{c.Request().Method, c.Path()}
	if known := p.known.Load(); r.path == "" || known != nil && (*known)[r] {
		return r.path
	}
	return p.find(c, r)
}

// find asks Echo. Only what is proven to be no route passes for one: where the method is registered for no route of
// this path, and the router has either said so, with the methods that are, or has a RouteNotFound route there.
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
	return r.path // added past Echo, by Router.Add
}

// learn keeps a route that is registered. There are not more of them than the app has.
func (p *patterns) learn(r route) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := map[route]bool{r: true}
	if old := p.known.Load(); old != nil {
		maps.Copy(known, *old)
	}
	p.known.Store(&known)
}
