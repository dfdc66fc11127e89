package echoidem

import (
	"github.com/labstack/echo/v5"

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
func JWTGuard(v *authctx.Verifier, observers ...core.Observer) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			p, err := v.VerifyRequest(c.Request())
			return authctx.Authenticate(&exchange{c: c, next: next}, p, err, observers)
		}
	}
}

// Bridge is the JWT guard for an app that already has a JWT middleware. Mount it behind that middleware. It calls find
// for the principal that the middleware has verified. If find returns an error, or a principal without issuer or
// subject, the client gets 401: a middleware that lets a bad token pass opens nothing. authctx.User makes the
// principal of a user id. authctx.Claims reads it from the *jwt.Token that echo-jwt leaves, and from verified claims.
// Without an observer nobody learns why a request gets 401.
//
//go:noinline
func Bridge(find func(c *echo.Context) (authctx.Principal, error), observers ...core.Observer) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			p, err := find(c)
			return authctx.Authenticate(&exchange{c: c, next: next}, p, err, observers)
		}
	}
}

// RolesGuard answers 403 to a caller who has none of the route's roles, on the first request and on every repeat. Mount
// it behind JWTGuard or Bridge, and in front of KeyGuard. [Idempotent] contains it.
//
//go:noinline
func RolesGuard(idem *core.Module) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error { return idem.RolesGuard(&exchange{c: c, next: next}) }
	}
}

// KeyGuard refuses a request that has not exactly one valid key (400), or whose body is too large (413). Mount it behind
// RolesGuard, and in front of Interceptor. The handler can read the body as usual. [Idempotent] contains it.
//
//go:noinline
func KeyGuard(idem *core.Module) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error { return idem.KeyGuard(&exchange{c: c, next: next}) }
	}
}

// Interceptor claims the request's key, runs the handler, and records its answer before it sends the answer. If the key
// has a record already, it answers from the record. Mount it once, behind KeyGuard. [Idempotent] contains it.
//
//go:noinline
func Interceptor(idem *core.Module) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error { return idem.Interceptor(&exchange{c: c, next: next}) }
	}
}

// Idempotent makes routes idempotent: it is RolesGuard, KeyGuard and Interceptor in one. Mount it once, behind JWTGuard
// or Bridge.
//
//go:noinline
func Idempotent(idem *core.Module) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error { return idem.Idempotent(&exchange{c: c, next: next}) }
	}
}
