// Package echoidem mounts the idempotency of core on Echo v4. Its twin for Gin is ginidem.
//
//	idem, err := core.New(core.Config{Store: store, Routes: core.Routes{
//		"POST /v1/payments": {Recovery: core.Rollback, Roles: []string{"customer"}},
//	}})
//	echoidem.TrackRoutes(e) // before the first route
//	v1 := e.Group("/v1", echoidem.JWTGuard(verifier), echoidem.Idempotent(idem))
//	v1.POST("/payments", pay)
//	err = echoidem.Audit(e, idem) // before serving
//
// All decisions are core's. What this package adds is Echo's ways of routing, writing and failing:
//
//   - A route is known by its path, as in "POST /v1/payments/:id/refunds". Requests that the router has no route for
//     pass through, to Echo's own 404 or 405, although the middleware of groups runs for them too. Middleware that
//     changes the request's method belongs into Echo.Pre, before the router.
//   - Nothing reads the body before the guards: no FormValue, no Bind, no CSRF or KeyAuth with "form:". It is refused with
//     500 misconfigured (contract O-6). Decompress, and middleware that puts the whole body back, may stand in front; a
//     part that is missing of a body in chunks, or behind a decoder, cannot be recognised. BodyDump puts back what had come
//     of a body in chunks that broke off, as if it were whole: it belongs behind the guards.
//   - Whatever the handler writes, by c.JSON, c.Blob, c.File, c.Stream, c.NoContent or c.Error, leaves only after it is
//     recorded. Flush does nothing, Hijack is refused. Before and After hooks of middleware mounted before the
//     interceptor run when the answer leaves, and what they set is not recorded.
//   - An error that the handler returns is rendered by Echo.HTTPErrorHandler, inside the recording, unless an answer
//     has begun. Middleware before the interceptor still gets the error, and so does the HTTPErrorHandler once more, as
//     Echo calls it for every returned error; but by then c.Response() is committed, and drops what is written to it.
//     Middleware that turns errors into other errors has to be mounted behind the interceptor.
//   - A panic undoes or parks the attempt, and goes on as it was.
//   - Timeout middleware that runs the chain in another goroutine and abandons it, as Echo's Timeout does, has no place
//     around guarded routes, nor on any other: Echo uses the context for the next request. In front of the guards it is
//     noticed, and the attempt ends like a panic (contract X-12); the request that gets the context meanwhile is refused.
//     Behind the guards, or on an unguarded route, the handler that it leaves behind cannot be seen. ContextTimeout is
//     right.
//
// Handlers pass c.Request().Context() on.
package echoidem
