package ginidem

import (
	"github.com/gin-gonic/gin"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
)

// The constructors below must not be inlined: Audit recognises a guard by the address of its code, and an inlined
// constructor has a copy of that code in every caller.

// JWTGuard verifies the request's bearer token with v and puts the principal into the request's context: see
// authctx.FromContext. Without a valid token the client gets 401 with WWW-Authenticate: Bearer. Only the observers learn
// the reason. Pass core.LogObserver, or the Observer of core.Config.
//
//go:noinline
func JWTGuard(v *authctx.Verifier, observers ...core.Observer) gin.HandlerFunc {
	return func(c *gin.Context) {
		p, err := v.VerifyRequest(c.Request)
		_ = authctx.Authenticate(&exchange{c: c}, p, err, observers)
	}
}

// Bridge is the JWT guard for an app that already has a JWT middleware. Mount it behind that middleware. It calls find
// for the principal that the middleware has verified. If find returns an error, or a principal without issuer or
// subject, the client gets 401: a middleware that lets a bad token pass opens nothing. authctx.User makes the
// principal of a user id. authctx.Claims reads it from the claims that gin-jwt leaves, and from a verified *jwt.Token.
// Without an observer nobody learns why a request gets 401.
//
//go:noinline
func Bridge(find func(c *gin.Context) (authctx.Principal, error), observers ...core.Observer) gin.HandlerFunc {
	return func(c *gin.Context) {
		p, err := find(c)
		_ = authctx.Authenticate(&exchange{c: c}, p, err, observers)
	}
}

// RolesGuard answers 403 to a caller who has none of the route's roles, on the first request and on every repeat. Mount
// it behind JWTGuard or Bridge, and in front of KeyGuard. [Idempotent] contains it.
//
//go:noinline
func RolesGuard(idem *core.Module) gin.HandlerFunc {
	known := &methods{}
	return func(c *gin.Context) { _ = idem.RolesGuard(&exchange{c: c, methods: known}) }
}

// KeyGuard refuses a request that has not exactly one valid key (400), or whose body is too large (413). Mount it behind
// RolesGuard, and in front of Interceptor. The handler can read the body as usual. [Idempotent] contains it.
//
//go:noinline
func KeyGuard(idem *core.Module) gin.HandlerFunc {
	known := &methods{}
	return func(c *gin.Context) { _ = idem.KeyGuard(&exchange{c: c, methods: known}) }
}

// Interceptor claims the request's key, runs the handlers, and records their answer before it sends the answer. If the
// key has a record already, it answers from the record. Mount it once, behind KeyGuard. [Idempotent] contains it.
//
//go:noinline
func Interceptor(idem *core.Module, opts ...Option) gin.HandlerFunc {
	render, known := rendererOf(opts), &methods{}
	return func(c *gin.Context) { _ = idem.Interceptor(&exchange{c: c, methods: known, render: render}) }
}

// Idempotent makes routes idempotent: it is RolesGuard, KeyGuard and Interceptor in one. Mount it once, behind JWTGuard
// or Bridge.
//
//go:noinline
func Idempotent(idem *core.Module, opts ...Option) gin.HandlerFunc {
	render, known := rendererOf(opts), &methods{}
	return func(c *gin.Context) { _ = idem.Idempotent(&exchange{c: c, methods: known, render: render}) }
}

// Option changes how the interceptor works.
type Option func(render *func(c *gin.Context))

// WithErrorRenderer sets the function that turns errors into answers, as Echo's HTTPErrorHandler does. The interceptor
// calls render if the handlers have added to c.Errors and written no body. render writes the answer in the usual way,
// and the answer is recorded. c.Writer.Written tells render whether the status is already set, as c.AbortWithError does.
// If render writes nothing, the attempt has failed.
//
// Without a renderer, an attempt with errors and without an answer has failed. Rollback rolls it back, the next repeat
// continues a Resume operation, and with Park the outcome is unknown. The client gets 500, unless middleware in front of
// the interceptor answers.
func WithErrorRenderer(render func(c *gin.Context)) Option {
	return func(set *func(c *gin.Context)) { *set = render }
}

func rendererOf(opts []Option) (render func(c *gin.Context)) {
	for _, opt := range opts {
		opt(&render)
	}
	return render
}
