// Package ginidem mounts the idempotency of core on Gin. Its twin for Echo is echoidem.
//
//	idem, err := core.New(core.Config{Store: store, Routes: core.Routes{
//		"POST /v1/payments": {Recovery: core.Rollback, Roles: []string{"customer"}},
//	}})
//	v1 := r.Group("/v1", ginidem.JWTGuard(verifier), ginidem.Idempotent(idem))
//	v1.POST("/payments", pay)
//	err = ginidem.Audit(r, idem) // before serving
//
// All decisions are core's. What this package adds is Gin's ways of routing, writing and failing:
//
//   - A route is known by its full path, as in "POST /v1/payments/:id/refunds". Requests that the router has no route
//     for pass through, to Gin's own 404 or 405.
//   - Nothing reads the body before the guards: no ShouldBindBodyWith, no PostForm, no FormFile. It is refused with 500
//     misconfigured (contract O-6). A decoder, and middleware that puts the whole body back, may stand in front; a part
//     that is missing of a body in chunks, or behind a decoder, cannot be recognised.
//   - Whatever the handlers behind the interceptor write, by c.JSON, c.String, c.File, c.Stream, c.Status or an abort,
//     leaves only after it is recorded. Flush and Push do nothing, Hijack is refused.
//   - Errors added with c.Error while no body was written are rendered by [WithErrorRenderer], inside the recording. An
//     error middleware mounted before the interceptor would render the first answer and no replay: its output is
//     dropped once the interceptor has answered.
//   - A panic undoes or parks the attempt, and goes on as it was.
//   - Timeout middleware that runs the chain in another goroutine and abandons it has no place around guarded routes, nor
//     on any other of the engine: Gin uses the *gin.Context for the next request. In front of the guards it is noticed,
//     and the attempt ends like a panic (contract X-12); the request that gets the context meanwhile is refused. Behind
//     the guards, or on an unguarded route, the handler that it leaves behind cannot be seen.
//
// Handlers pass c.Request.Context() on, never the *gin.Context itself. Without gin.Engine.ContextWithFallback that one
// carries neither the attempt's transaction nor its deadline; with it, database/sql reads it in goroutines of its own,
// after the request is over and Gin uses it for the next. A guarded handler must not call gin.Engine.HandleContext,
// which resets the writer.
package ginidem
