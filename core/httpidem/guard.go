package httpidem

import (
	"net/http"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
)

// Middleware is a middleware of net/http.
type Middleware = func(next http.Handler) http.Handler

// The constructors below must not be inlined: Audit recognises a guard by the address of its code, and an inlined
// constructor has a copy of that code in every caller.

// JWTGuard verifies the request's bearer token with v and puts the principal into the request's context: see
// authctx.FromContext. Without a valid token the client gets 401 with WWW-Authenticate: Bearer. Only the observers learn
// the reason. Pass core.LogObserver, or the Observer of core.Config.
//
//go:noinline
func JWTGuard(v *authctx.Verifier, observers ...core.Observer) Middleware {
	return func(next http.Handler) http.Handler {
		return &guarded{next, func(x *exchange) {
			p, err := v.VerifyRequest(x.r)
			_ = authctx.Authenticate(x, p, err, observers)
		}}
	}
}

// Bridge is the JWT guard for an app that already has a JWT middleware. Mount it behind that middleware. It calls find
// for the principal that the middleware has verified. If find returns an error, or a principal without issuer or
// subject, the client gets 401: a middleware that lets a bad token pass opens nothing. authctx.Claims reads principals
// from verified claims, and from a verified *jwt.Token.
//
//go:noinline
func Bridge(find func(r *http.Request) (authctx.Principal, error), observers ...core.Observer) Middleware {
	return func(next http.Handler) http.Handler {
		return &guarded{next, func(x *exchange) {
			p, err := find(x.r)
			_ = authctx.Authenticate(x, p, err, observers)
		}}
	}
}

// RolesGuard answers 403 to a caller who has none of the route's roles, on the first request and on every repeat. Mount
// it behind JWTGuard or Bridge, and in front of KeyGuard. [Idempotent] contains it.
//
//go:noinline
func RolesGuard(idem *core.Module) Middleware {
	return func(next http.Handler) http.Handler {
		return &guarded{next, func(x *exchange) { _ = idem.RolesGuard(x) }}
	}
}

// KeyGuard refuses a request that has not exactly one valid key (400), or whose body is too large (413). Mount it behind
// RolesGuard, and in front of Interceptor. The handler can read the body as usual. [Idempotent] contains it.
//
//go:noinline
func KeyGuard(idem *core.Module) Middleware {
	return func(next http.Handler) http.Handler {
		return &guarded{next, func(x *exchange) { _ = idem.KeyGuard(x) }}
	}
}

// Interceptor claims the request's key, runs the handler, and records its answer before it sends the answer. If the key
// has a record already, it answers from the record. Mount it once, behind KeyGuard. [Idempotent] contains it.
//
//go:noinline
func Interceptor(idem *core.Module) Middleware {
	return func(next http.Handler) http.Handler {
		return &guarded{next, func(x *exchange) { _ = idem.Interceptor(x) }}
	}
}

// Idempotent makes routes idempotent: it is RolesGuard, KeyGuard and Interceptor in one. Mount it once, behind JWTGuard
// or Bridge.
//
//go:noinline
func Idempotent(idem *core.Module) Middleware {
	return func(next http.Handler) http.Handler {
		return &guarded{next, func(x *exchange) { _ = idem.Idempotent(x) }}
	}
}

// guarded is a handler behind a guard.
type guarded struct {
	next  http.Handler
	guard func(x *exchange)
}

// ServeHTTP implements [http.Handler].
func (g *guarded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.guard(&exchange{w: w, r: r, next: g.next})
}
