// Package chiidem audits routers of chi whose routes are guarded by package httpidem.
//
//	r := chi.NewRouter()
//	r.Use(httpidem.JWTGuard(verifier))
//	r.Group(func(r chi.Router) {
//		r.Use(httpidem.Idempotent(idem))
//		r.Post("/v1/payments", pay)
//	})
//	err := chiidem.Audit(r, idem) // before serving
//
// chi runs the middleware of With and Group behind the router, where the route is known. It runs the middleware that Use
// has added to a router of its own (NewRouter, Route, Mount) in front of that router, where the route is not known, or only
// its beginning. JWTGuard and Bridge may stand there. The other guards may not: Audit says so, and a request gets 500,
// unless its method is safe: then it passes without a look at its roles.
package chiidem
