// Package httpidem makes routes of net/http idempotent, with the rules of package core. Its twins for Gin and Echo are
// ginidem and echoidem.
//
//	idem, err := core.New(core.Config{Store: store, Routes: core.Routes{
//		"POST /v1/payments": {Recovery: core.Rollback, Roles: []string{"customer"}},
//	}})
//	mux := httpidem.NewRouter() // an http.ServeMux that remembers the middleware of its routes
//	v1 := mux.Group("/v1", httpidem.JWTGuard(verifier), httpidem.Idempotent(idem))
//	v1.HandleFunc("POST /payments", pay)
//	err = httpidem.Audit(mux, idem) // before serving
//
// The guards are middleware of the usual type, func(http.Handler) http.Handler. Any router can mount them that sets
// [http.Request.Pattern], as [http.ServeMux] and chi do. Package chiidem has the audit for chi.
//
// Package core makes all decisions. This package knows how net/http routes and writes:
//
//   - A route is named by its path: "POST /v1/payments/{id}/refunds". The host of a pattern does not count.
//   - Mount the guards on routes, not around the router: the route is known only after the router has found it. A guard
//     around the router answers 500 misconfigured. JWTGuard and Bridge may stand there.
//   - No middleware in front of the guards may read the body: no FormValue, no ParseForm. Such a request gets 500
//     misconfigured. Middleware that decodes the body, or that puts the whole body back, may stand in front. If such
//     middleware loses a part of a body of unknown length, the guards cannot notice it.
//   - What the handler writes is sent after it is recorded. Flush does nothing. Hijack is refused. [http.ResponseController]
//     reaches nothing behind the recording. Trailers reach the first client only.
//   - A handler that fails writes its error itself, inside the recording. A handler that writes nothing answers 200.
//   - After a panic the attempt is rolled back, left to the next repeat, or parked, by its recovery. Then the panic
//     continues.
//   - [http.TimeoutHandler] around the whole router is safe: the attempt goes on after the 503, and a repeat gets its
//     answer. Do not put it into a router of chi: chi gives the URL parameters of a request that has timed out, or whose
//     client has gone, to another request. Behind the guards it leaves a handler at work whose attempt has ended; set
//     Policy.Deadline in its place.
//
// Pass r.Context() to your functions.
//
// Rule ids in comments, such as O-2, are listed with their tests in docs/contributors/invariants.md of this module.
package httpidem
