package chiidem

import (
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/adapter"
	"github.com/auth19/idem/core/httpidem"
)

// Audit checks, before the app serves, that its routes have the guards that the route table of idem asks for. It returns
// one error that names everything that is wrong: see core's AuditRoutes. Call it after the last route, with the outermost
// router.
//
// It runs no handler and no middleware. It reads the middleware of each route from chi, compares it with what chi runs, from
// outside to the first middleware of others, and recognises the guards of httpidem by the address of their code. It does not
// see a guard that another function calls, nor the routes of a mounted handler that is no router of chi: such a handler is
// one route of each method.
func Audit(r chi.Routes, idem *core.Module) error {
	return idem.AuditRoutes(routesOf(r, "", nil, true))
}

// routesOf returns the routes of r and of the routers below it. early is what stands in front of r, proven or not. chi.Walk
// would not do: it does not tell the middleware in front of a router from that behind it.
func routesOf(r chi.Routes, prefix string, early []adapter.Link, proven bool) (found []adapter.MountedRoute) {
	early = slices.Concat(early, httpidem.ChainOf(r.Middlewares()...))
	for _, route := range r.Routes() {
		if route.SubRoutes != nil {
			inline, _, known := inlineOf(route.Handlers["*"])
			found = append(found, routesOf(route.SubRoutes, prefix+route.Pattern, slices.Concat(early, inline), proven && known)...)
			continue
		}
		for method, handler := range route.Handlers {
			if method == "*" {
				continue // Handlers has each method too
			}
			inline, endpoint, known := inlineOf(handler)
			one := adapter.MountedRoute{Method: method, Pattern: patternOf(prefix + route.Pattern),
				Handler: adapter.HandlerOf(endpoint), Chain: slices.Concat(early, inline)}
			switch {
			case slices.ContainsFunc(early, func(l adapter.Link) bool { return l.Guards != nil && l.Guards[0] != adapter.GuardJWT }):
				one.Unproven = "a guard stands in front of the router, where the route is not known yet; mount it by With, or by " +
					"Use within a Group"
			case !proven || !known:
				one.Unproven = "chi runs something else than its list of middleware says; give chi.Chain a slice that nobody changes"
			}
			found = append(found, one)
		}
	}
	return found
}

// inlineOf returns the middleware of With and Group in front of a handler, and the handler. It compares that list with what
// chi has made of it, from outside to the first middleware of others, which nobody can look into.
func inlineOf(handler http.Handler) (inline []adapter.Link, endpoint http.Handler, proven bool) {
	chain, ok := handler.(*chi.ChainHandler)
	if !ok {
		return nil, handler, true
	}
	isGuard := func(l adapter.Link) bool { return l.Guards != nil }
	inline, run := httpidem.ChainOf(chain.Middlewares...), madeBy(chain)
	for i, link := range inline {
		if !isGuard(link) {
			bare := adapter.HandlerOf(run) == adapter.HandlerOf(chain.Endpoint)
			return inline, chain.Endpoint, run != nil && (!bare || !slices.ContainsFunc(inline[i:], isGuard))
		}
		if run, proven = httpidem.Behind(chain.Middlewares[i], run); !proven {
			return inline, chain.Endpoint, false
		}
	}
	return inline, chain.Endpoint, adapter.HandlerOf(run) == adapter.HandlerOf(chain.Endpoint)
}

// madeBy returns what chi has made of a chain when it was given to it, which it does not export. nil if that has another
// layout than expected.
func madeBy(chain *chi.ChainHandler) http.Handler {
	field := reflect.ValueOf(chain).Elem().FieldByName("chain")
	if !field.IsValid() || field.Type() != reflect.TypeFor[http.Handler]() {
		return nil
	}
	return *(*http.Handler)(field.Addr().UnsafePointer())
}

// patternOf returns a route as chi writes it into http.Request.Pattern.
func patternOf(route string) string {
	for strings.Contains(route, "/*/") {
		route = strings.ReplaceAll(route, "/*/", "/")
	}
	if route != "/" {
		route = strings.TrimSuffix(strings.TrimSuffix(route, "//"), "/")
	}
	return route
}
