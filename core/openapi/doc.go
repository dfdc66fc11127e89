// Package openapi tells the users of an API what the guards of a [core.Module] do, as the IETF's draft of the
// Idempotency-Key header asks (section 2.6): which routes take a key, in which form, and for how long.
//
// [Document] says it in OpenAPI. The document of your app is yours: add to its operations what you want to publish. The
// example does it for one that encoding/json has decoded. Swagger 2.0, which swaggo writes, has to be converted first, with
// openapi2conv of kin-openapi for instance. Fern reads x-fern-idempotent and x-fern-idempotency-headers: its SDKs take the
// key as an option of the call.
//
// Templates of other generators find the same in x-idempotency of each operation: header and required; keyFormat, which is
// any, uuid or uuidv7; retentionSeconds, for which a repeat gets the recorded answer; resultHeader and problemHeader;
// repeatCodes, the problems that come with Retry-After and are repeated with the same key; and finalCodes, the others.
//
// [PolicyHandler] is a page for people, and JSON for programs. Mount it with one line:
//
//	r.GET("/idempotency", gin.WrapH(openapi.PolicyHandler(idem)))           // Gin
//	e.GET("/idempotency", echo.WrapHandler(openapi.PolicyHandler(idem)))    // Echo v4 and v5
//	mux.Handle("/idempotency", openapi.PolicyHandler(idem))                 // net/http, chi
//
// Set [core.Config].PolicyURL to its address, and every problem names it: Link: </idempotency>; rel="describedby". The 401
// of JWTGuard and Bridge does not, because these guards have no module. With CORS, add Link to the exposed headers if
// scripts should read it.
package openapi
