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
// It runs no handler and no middleware. It reads the middleware of each route from chi, and recognises the guards of
// httpidem by the address of their code. It does not see a guard that another function calls, nor the routes of a mounted
// handler that is no router of chi: such a handler is one route of each method.
func Audit(r chi.Routes, idem *core.Module) error { return idem.AuditRoutes(routesOf(r, "", nil)) }

// routesOf returns the routes of r and of the routers below it. early are the guards in front of r. chi.Walk would not do:
// it does not tell the middleware in front of a router from that behind it.
func routesOf(r chi.Routes, prefix string, early []adapter.Guard) (found []adapter.MountedRoute) {
	early = slices.Concat(early, httpidem.GuardsOf(r.Middlewares()...))
	for _, route := range r.Routes() {
		if route.SubRoutes != nil {
			mounted := slices.Concat(early, inlineGuards(route.Handlers["*"]))
			found = append(found, routesOf(route.SubRoutes, prefix+route.Pattern, mounted)...)
			continue
		}
		for method, handler := range route.Handlers {
			if method == "*" {
				continue // Handlers has each method too
			}
			one := adapter.MountedRoute{Method: method, Pattern: patternOf(prefix + route.Pattern),
				Handler: addressOf(handler), Guards: slices.Concat(early, inlineGuards(handler))}
			if slices.ContainsFunc(early, func(g adapter.Guard) bool { return g != adapter.GuardJWT }) {
				one.Unproven = "a guard stands in front of the router, where the route is not known yet; mount it by With, or by " +
					"Use within a Group"
			}
			found = append(found, one)
		}
	}
	return found
}

// inlineGuards returns the guards of With and Group in front of a handler.
func inlineGuards(handler any) []adapter.Guard {
	if chain, ok := handler.(*chi.ChainHandler); ok {
		return httpidem.GuardsOf(chain.Middlewares...)
	}
	return nil
}

// addressOf tells the handlers of a pattern apart. Handle registers one for all methods.
func addressOf(handler http.Handler) uintptr {
	switch v := reflect.ValueOf(handler); v.Kind() {
	case reflect.Func, reflect.Pointer:
		return v.Pointer()
	default:
		return 1
	}
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
