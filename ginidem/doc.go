// Package ginidem makes routes of Gin idempotent, with the rules of package core. Its twin for Echo is echoidem.
//
//	idem, err := core.New(core.Config{Store: store, Routes: core.Routes{
//		"POST /v1/payments": {Recovery: core.Rollback, Roles: []string{"customer"}},
//	}})
//	v1 := r.Group("/v1", ginidem.JWTGuard(verifier), ginidem.Idempotent(idem))
//	v1.POST("/payments", pay)
//	err = ginidem.Audit(r, idem) // before serving
//
// Package core makes all decisions. This package knows how Gin routes, writes and fails:
//
//   - A route is named by its full path: "POST /v1/payments/:id/refunds". A request that matches no route passes
//     through to Gin's own 404 or 405.
//   - No middleware in front of the guards may read the body: no ShouldBindBodyWith, no PostForm, no FormFile. Such a
//     request gets 500 misconfigured. Middleware that decodes the body, or that puts the whole body back, may stand in
//     front. If such middleware loses a part of a body of unknown length, the guards cannot notice it.
//   - What the handlers behind the interceptor write (c.JSON, c.String, c.File, c.Stream, c.Status, an abort) is sent
//     after it is recorded. Flush and Push do nothing. Hijack is refused.
//   - If the handlers call c.Error and write no body, [WithErrorRenderer] renders the errors, and the result is
//     recorded. Error middleware in front of the interceptor would render the first answer but no replay. So its output
//     is dropped once the interceptor has answered.
//   - After a panic the attempt is rolled back, left to the next repeat, or parked, by its recovery. Then the panic
//     continues.
//   - Do not use timeout middleware that runs the chain in another goroutine and returns before that goroutine ends, on
//     any route of the engine: Gin gives the same *gin.Context to the next request. In front of the guards it is
//     noticed: the attempt ends as after a panic, and a request that gets the context too early is refused. Behind the
//     guards, or on a route without guards, it cannot be noticed.
//
// Pass c.Request.Context() to your functions, never the *gin.Context itself. Without gin.Engine.ContextWithFallback the
// *gin.Context has neither the attempt's transaction nor its deadline. With it, goroutines of database/sql read the
// *gin.Context after the request has ended, when Gin already uses it for another request. A guarded handler must not
// call gin.Engine.HandleContext, because that replaces the writer.
//
// Rule ids in comments, such as X-12, are listed with their tests in docs/contributors/invariants.md of this module.
package ginidem
