package echoidem

import (
	"net/http"

	"github.com/labstack/echo/v4"

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
		return func(c echo.Context) error {
			p, err := v.VerifyRequest(c.Request())
			return authenticate(c, p, err, observers, next)
		}
	}
}

// Bridge is the JWT guard for an app that already has a JWT middleware. Mount it behind that middleware. It calls find
// for the principal that the middleware has verified. If find returns an error, or a principal without issuer or
// subject, the client gets 401: a middleware that lets a bad token pass opens nothing. authctx.Claims reads principals
// from the *jwt.Token that echo-jwt leaves, and from verified claims.
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

// authenticate continues with p as the caller, or refuses.
func authenticate(c echo.Context, p authctx.Principal, err error, observers []core.Observer, next echo.HandlerFunc) error {
	if reply := authctx.Refuse(c.Request(), c.Path(), p, err, observers...); reply != nil {
		return send(c, reply)
	}
	c.SetRequest(c.Request().WithContext(authctx.NewContext(c.Request().Context(), p)))
	return next(c)
}

// RolesGuard answers 403 to a caller who has none of the route's roles, on the first request and on every repeat. Mount
// it behind JWTGuard or Bridge, and in front of KeyGuard. [Idempotent] contains it.
//
//go:noinline
func RolesGuard(idem *core.Module) echo.MiddlewareFunc {
	pattern := &patterns{}
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			p, _ := authctx.FromContext(c.Request().Context())
			if reply := idem.CheckRoles(c.Request(), pattern.of(c), p); reply != nil {
				return send(c, reply)
			}
			return next(c)
		}
	}
}

// KeyGuard refuses a request that has not exactly one valid key (400), or whose body is too large (413). Mount it behind
// RolesGuard, and in front of Interceptor. The handler can read the body as usual. [Idempotent] contains it.
//
//go:noinline
func KeyGuard(idem *core.Module) echo.MiddlewareFunc {
	pattern := &patterns{}
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			request := c.Request()
			p, _ := authctx.FromContext(request.Context())
			admitted, reply := idem.Admit(request, pattern.of(c), p)
			if !pass(c, request, admitted, reply) {
				return nil
			}
			return next(c)
		}
	}
}

// pass continues with the admitted request, or refuses.
func pass(c echo.Context, request, admitted *http.Request, reply *core.Reply) bool {
	switch {
	case c.Request() != request: // c belongs to another request by now
		return false
	case reply != nil:
		_ = send(c, reply)
		return false
	}
	c.SetRequest(admitted)
	return true
}

// hold reserves c for this request, or refuses: see core.Hold. It reserves the response, because apps wrap contexts,
// and Echo reuses context and response together.
func hold(c echo.Context, request *http.Request, idem *core.Module, pattern *patterns) (core.Hold, bool) {
	held, reply := idem.Hold(request, pattern.of(c), c.Response())
	if reply == nil {
		return held, true
	}
	if _, taken := c.Response().Writer.(*core.Capture); taken { // c belongs to the other request; this one is late
		return held, false
	}
	_ = send(c, reply)
	c.Response().Writer = &sealed{header: c.Response().Header().Clone()} // drop what the abandoned handler still writes
	return held, false
}

// send sends reply instead of running the handler.
func send(c echo.Context, reply *core.Reply) error {
	_ = reply.WriteTo(c.Response()) // an error means that the connection is broken: nobody can be told
	return nil
}
