package ginidem

import (
	"github.com/gin-gonic/gin"

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
func JWTGuard(v *authctx.Verifier, observers ...core.Observer) gin.HandlerFunc {
	return func(c *gin.Context) {
		p, err := v.VerifyRequest(c.Request)
		authenticate(c, p, err, observers)
	}
}

// Bridge is the JWT guard of an app that has a JWT middleware already: mounted behind it, it asks find for the
// principal that the middleware has verified. An error, or a principal without issuer or subject, is answered with 401:
// a middleware that lets a bad token pass opens nothing (contract O-2). authctx.Claims reads principals out of the
// claims that gin-jwt leaves, and out of a verified *jwt.Token.
//
//go:noinline
func Bridge(find func(c *gin.Context) (authctx.Principal, error), observers ...core.Observer) gin.HandlerFunc {
	return func(c *gin.Context) {
		p, err := find(c)
		authenticate(c, p, err, observers)
	}
}

// authenticate goes on as p, or refuses.
func authenticate(c *gin.Context, p authctx.Principal, err error, observers []core.Observer) {
	if reply := authctx.Refuse(c.Request, pattern(c), p, err, observers...); reply != nil {
		send(c, reply)
		return
	}
	c.Request = c.Request.WithContext(authctx.NewContext(c.Request.Context(), p))
}

// RolesGuard refuses with 403 a caller who has none of the route's roles, on the first request and on every repeat
// (contract O-3). Mounted behind JWTGuard or Bridge, and before KeyGuard.
//
//go:noinline
func RolesGuard(idem *core.Module) gin.HandlerFunc {
	return func(c *gin.Context) {
		if reply := checkRoles(c, idem); reply != nil {
			send(c, reply)
		}
	}
}

func checkRoles(c *gin.Context, idem *core.Module) *core.Reply {
	p, _ := authctx.FromContext(c.Request.Context())
	return idem.CheckRoles(c.Request, pattern(c), p)
}

// KeyGuard refuses a request without one valid key, or with too large a body (contract K, H-5). Mounted behind
// RolesGuard, and before Interceptor. The handler reads the body as if nobody had read it before.
//
//go:noinline
func KeyGuard(idem *core.Module) gin.HandlerFunc {
	return func(c *gin.Context) { admit(c, idem) }
}

// admit takes the key and the command, or refuses.
func admit(c *gin.Context, idem *core.Module) bool {
	request := c.Request
	p, _ := authctx.FromContext(request.Context())
	admitted, reply := idem.Admit(request, pattern(c), p, kept(c)...)
	switch {
	case c.Request != request: // another's by now
		return false
	case reply != nil:
		send(c, reply)
		return false
	}
	c.Request = admitted
	return true
}

// kept is the copy of the body that c.ShouldBindBodyWith has made, and shows to the handler (contract O-6).
func kept(c *gin.Context) [][]byte {
	if value, ok := c.Get(gin.BodyBytesKey); ok {
		if body, ok := value.([]byte); ok {
			return [][]byte{body}
		}
	}
	return nil
}

// hold takes hold of c, or refuses.
func hold(c *gin.Context, idem *core.Module) (core.Hold, bool) {
	held, reply := idem.Hold(c.Request, pattern(c), c)
	if reply == nil {
		return held, true
	}
	if _, taken := c.Writer.(*writer); taken { // c is the other's: what is late is this request
		c.Abort()
		return held, false
	}
	send(c, reply)
	c.Writer = seal(c.Writer) // to the one that was abandoned
	return held, false
}

// send answers in the handler's place.
func send(c *gin.Context, reply *core.Reply) {
	c.Abort()
	_ = reply.WriteTo(c.Writer) // an error is the connection's: there is nobody to tell
	c.Writer.WriteHeaderNow()
}
