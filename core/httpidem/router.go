package httpidem

import (
	"net/http"
	"slices"
	"strings"

	"github.com/auth19/idem/core/adapter"
)

// Router is an [http.ServeMux] with groups. It puts the middleware of a group around each of its routes, where the route
// is known, and remembers it for [Audit]. Handle, HandleFunc and ServeHTTP are those of ServeMux, so a Router can take its
// place, also where generated code or a library registers the routes. Add all routes before serving.
type Router struct {
	mux        *http.ServeMux
	routes     *[]route // of all groups
	prefix     string
	middleware []Middleware
}

// route is a registered route.
type route struct {
	method, host, path string // method is "" for any
	middleware         []Middleware
	handler            any // see adapter.HandlerOf
}

// NewRouter returns a router without routes.
func NewRouter() *Router { return &Router{mux: http.NewServeMux(), routes: new([]route)} }

// Use adds middleware to the routes that are added to r from now on, the first outermost. Groups that exist already do
// not get it.
func (r *Router) Use(middleware ...Middleware) {
	r.middleware = append(slices.Clip(r.middleware), middleware...)
}

// Group returns a router for the same mux. Its patterns begin with prefix, and its middleware is behind that of r. The
// prefix is "" or a path such as "/v1".
func (r *Router) Group(prefix string, middleware ...Middleware) *Router {
	g := *r
	g.prefix += prefix
	g.Use(middleware...)
	return &g
}

// Handle registers the handler for a pattern of [http.ServeMux], such as "POST /payments/{id}". It panics like ServeMux if
// the pattern is wrong or is registered already.
func (r *Router) Handle(pattern string, handler http.Handler) {
	added := parse(pattern, r.prefix)
	added.middleware, added.handler = r.middleware, adapter.HandlerOf(handler)
	for _, m := range slices.Backward(r.middleware) {
		handler = m(handler)
	}
	r.mux.Handle(added.String(), handler)
	*r.routes = append(*r.routes, added)
}

// HandleFunc is Handle for a function.
func (r *Router) HandleFunc(pattern string, handler func(w http.ResponseWriter, r *http.Request)) {
	r.Handle(pattern, http.HandlerFunc(handler))
}

// ServeHTTP implements [http.Handler]: it serves the routes of all groups.
func (r *Router) ServeHTTP(w http.ResponseWriter, req *http.Request) { r.mux.ServeHTTP(w, req) }

// parse takes a pattern of ServeMux apart, and puts prefix in front of its path.
func parse(pattern, prefix string) (r route) {
	rest := pattern
	if i := strings.IndexAny(rest, " \t"); i >= 0 {
		r.method, rest = rest[:i], strings.TrimLeft(rest[i:], " \t")
	}
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		r.host, rest = rest[:i], rest[i:]
	}
	r.path = prefix + rest
	return r
}

// String returns the route as a pattern of ServeMux.
func (r route) String() string {
	if r.method == "" {
		return r.host + r.path
	}
	return r.method + " " + r.host + r.path
}
