package echoidem

import (
	"github.com/labstack/echo/v4"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
)

// The constructors below are not inlined: Audit knows a guard by its code, and an inlined constructor leaves a copy of
// that code in every caller.

// JWTGuard lets a request pass whose bearer token v accepts, and puts its principal into the request's context
// (authctx.FromContext). Any other gets 401 with WWW-Authenticate: Bearer (contract O-1). The observers are told why, the client
// is not (O-7): core.LogObserver, or the Observer of core.Config.
//
//go:noinline
func JWTGuard(v *authctx.Verifier, observers ...core.Observer) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			p, err := v.VerifyRequest(c.Request())
			return authenticate(c, p, err, observers, next)
		}
	}
}

// Bridge is the JWT guard of an app that has a JWT middleware already: mounted behind it, it asks find for the
// principal that the middleware has verified. An error, or a principal without issuer or subject, is answered with 401:
// a middleware that lets a bad token pass opens nothing (contract O-2). authctx.Claims reads principals out of the
// *jwt.Token that echo-jwt leaves, and out of verified claims.
//
//go:noinline
func Bridge(find func(c echo.Context) (authctx.Principal, error), observers ...core.Observer) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			p, err := find(c)
			return authenticate(c, p, err, observers, next)
		}
	}
}

// authenticate goes on as p, or refuses.
func authenticate(c echo.Context, p authctx.Principal, err error, observers []core.Observer, next echo.HandlerFunc) error {
	if reply := authctx.Refuse(c.Request(), c.Path(), p, err, observers...); reply != nil {
		return send(c, reply)
	}
	c.SetRequest(c.Request().WithContext(authctx.NewContext(c.Request().Context(), p)))
	return next(c)
}

// RolesGuard refuses with 403 a caller who has none of the route's roles, on the first request and on every repeat
// (contract O-3). Mounted behind JWTGuard or Bridge, and before KeyGuard.
//
//go:noinline
func RolesGuard(idem *core.Module) echo.MiddlewareFunc {
	pattern := &patterns{}
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if reply := checkRoles(c, idem, pattern); reply != nil {
				return send(c, reply)
			}
			return next(c)
		}
	}
}

func checkRoles(c echo.Context, idem *core.Module, pattern *patterns) *core.Reply {
	p, _ := authctx.FromContext(c.Request().Context())
	return idem.CheckRoles(c.Request(), pattern.of(c), p)
}

// KeyGuard refuses a request without one valid key, or with too large a body (contract K, H-5). Mounted behind
// RolesGuard, and before Interceptor. The handler reads the body as if nobody had read it before.
//
//go:noinline
func KeyGuard(idem *core.Module) echo.MiddlewareFunc {
	pattern := &patterns{}
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if !admit(c, idem, pattern) {
				return nil
			}
			return next(c)
		}
	}
}

// admit takes the key and the command, or refuses.
func admit(c echo.Context, idem *core.Module, pattern *patterns) bool {
	request := c.Request()
	p, _ := authctx.FromContext(request.Context())
	admitted, reply := idem.Admit(request, pattern.of(c), p)
	switch {
	case c.Request() != request: // another's by now
		return false
	case reply != nil:
		_ = send(c, reply)
		return false
	}
	c.SetRequest(admitted)
	return true
}

// hold takes hold of c, or refuses. What stands for c is its response: apps wrap contexts, and Echo recycles both.
func hold(c echo.Context, idem *core.Module, pattern *patterns) (core.Hold, bool) {
	held, reply := idem.Hold(c.Request(), pattern.of(c), c.Response())
	if reply == nil {
		return held, true
	}
	if _, taken := c.Response().Writer.(*core.Capture); taken { // c is the other's: what is late is this request
		return held, false
	}
	_ = send(c, reply)
	c.Response().Writer = &sealed{header: c.Response().Header().Clone()} // to the one that was abandoned
	return held, false
}

// send answers in the handler's place.
func send(c echo.Context, reply *core.Reply) error {
	_ = reply.WriteTo(c.Response()) // an error is the connection's: there is nobody to tell
	return nil
}
