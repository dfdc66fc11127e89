// Package echoidem makes routes of Echo v4 idempotent, with the rules of package core. Its twin for Gin is ginidem.
//
//	idem, err := core.New(core.Config{Store: store, Routes: core.Routes{
//		"POST /v1/payments": {Recovery: core.Rollback, Roles: []string{"customer"}},
//	}})
//	echoidem.TrackRoutes(e) // before the first route
//	v1 := e.Group("/v1", echoidem.JWTGuard(verifier), echoidem.Idempotent(idem))
//	v1.POST("/payments", pay)
//	err = echoidem.Audit(e, idem) // before serving
//
// Package core makes all decisions. This package knows how Echo routes, writes and fails:
//
//   - A route is named by its path: "POST /v1/payments/:id/refunds". A request that matches no route passes through to
//     Echo's own 404 or 405, although Echo runs the middleware of groups for it. Middleware that changes the request's
//     method belongs in Echo.Pre, which runs before the router.
//   - No middleware in front of the guards may read the body: no FormValue, no Bind, no CSRF or KeyAuth with "form:".
//     Such a request gets 500 misconfigured. Decompress, and middleware that puts the whole body back, may stand in
//     front. If such middleware loses a part of a body of unknown length, the guards cannot notice it. BodyDump does so:
//     it puts back a body that broke off as if it were whole. Mount it behind the guards.
//   - What the handler writes (c.JSON, c.Blob, c.File, c.Stream, c.NoContent, c.Error) is sent after it is recorded.
//     Flush does nothing. Hijack is refused. Before and After hooks of middleware in front of the interceptor run when
//     the answer is sent, and what they set is not recorded.
//   - If the handler returns an error and has not begun an answer, Echo.HTTPErrorHandler renders the error, and the
//     result is recorded. Middleware in front of the interceptor still gets the error. Echo also calls the
//     HTTPErrorHandler again, as for every returned error. By then c.Response() is committed, and what is written to it
//     is dropped. Mount middleware that replaces errors behind the interceptor.
//   - After a panic the attempt is rolled back, left to the next repeat, or parked, by its recovery. Then the panic
//     continues.
//   - Do not use timeout middleware that runs the chain in another goroutine and returns before that goroutine ends, as
//     Echo's Timeout does, on any route: Echo gives the same context to the next request. In front of the guards it is
//     noticed: the attempt ends as after a panic, and a request that gets the context too early is refused. Behind the
//     guards, or on a route without guards, it cannot be noticed. Echo's ContextTimeout is safe.
//
// Pass c.Request().Context() to your functions.
//
// Rule ids in comments, such as X-12, are listed with their tests in docs/contributors/invariants.md of this module.
package echoidem
