package httpidem

import (
	"strings"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/adapter"
)

// Audit checks, before the app serves, that its routes have the guards that the route table of idem asks for. It returns
// one error that names everything that is wrong: see core's AuditRoutes. Call it after the last route, with the router or
// any of its groups.
//
// It runs no handler and no middleware. It has the middleware of each route from the [Router], and recognises the guards
// of this package by the address of their code. It does not see a guard that another function calls, nor one around the
// router. It does not tell two modules apart. A route without a method counts as one of each method.
func Audit(r *Router, idem *core.Module) error {
	routes := make([]adapter.MountedRoute, len(*r.routes))
	for i, one := range *r.routes {
		routes[i] = adapter.MountedRoute{Host: one.host, Method: one.method, Pattern: one.path,
			Subtree: strings.HasSuffix(one.path, "/"), Guards: GuardsOf(one.middleware...)}
	}
	return idem.AuditRoutes(routes)
}

// GuardsOf returns the guards of this package that are among the middleware, in that order: for audits of other routers.
func GuardsOf(middleware ...Middleware) (guards []adapter.Guard) {
	known := guardCodes()
	for _, m := range middleware {
		guards = append(guards, known[adapter.CodeOf(m)]...)
	}
	return guards
}

// guardCodes are those of the guards of this package.
func guardCodes() adapter.GuardCodes {
	return adapter.NewGuardCodes(JWTGuard(nil), Bridge(nil), RolesGuard(nil), KeyGuard(nil), Interceptor(nil), Idempotent(nil))
}
