package httpidem

import (
	"net/http"

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
			Handler: one.handler, Chain: ChainOf(one.middleware...)}
	}
	return idem.AuditRoutes(routes)
}

// ChainOf returns the middleware as a chain, with the guards of this package: for audits of other routers.
func ChainOf(middleware ...Middleware) (chain []adapter.Link) {
	known := guardCodes()
	for _, m := range middleware {
		chain = append(chain, known.Link(adapter.CodeOf(m)))
	}
	return chain
}

// Behind returns the handler behind a guard of this package, if the guard has made the handler that is given: for audits of
// other routers.
func Behind(guard Middleware, made http.Handler) (next http.Handler, ok bool) {
	g, ok := made.(*guarded)
	if !ok || adapter.CodeOf(g.guard) != adapter.CodeOf(guard(nil).(*guarded).guard) {
		return nil, false
	}
	return g.next, true
}

// guardCodes are those of the guards of this package.
func guardCodes() adapter.GuardCodes {
	return adapter.NewGuardCodes(JWTGuard(nil), Bridge(nil), RolesGuard(nil), KeyGuard(nil), Interceptor(nil), Idempotent(nil))
}
