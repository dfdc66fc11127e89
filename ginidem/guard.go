package ginidem

import (
	"net/http"

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
		authenticate(c, p, err, observers)
	}
}

// Bridge is the JWT guard for an app that already has a JWT middleware. Mount it behind that middleware. It calls find
// for the principal that the middleware has verified. If find returns an error, or a principal without issuer or
// subject, the client gets 401: a middleware that lets a bad token pass opens nothing. authctx.Claims reads principals
// from the claims that gin-jwt leaves, and from a verified *jwt.Token.
//
//go:noinline
func Bridge(find func(c *gin.Context) (authctx.Principal, error), observers ...core.Observer) gin.HandlerFunc {
	return func(c *gin.Context) {
		p, err := find(c)
		authenticate(c, p, err, observers)
	}
}

// authenticate continues with p as the caller, or refuses.
func authenticate(c *gin.Context, p authctx.Principal, err error, observers []core.Observer) {
	if reply := authctx.Refuse(c.Request, pattern(c), p, err, observers...); reply != nil {
		send(c, reply)
		return
	}
	c.Request = c.Request.WithContext(authctx.NewContext(c.Request.Context(), p))
}

// RolesGuard answers 403 to a caller who has none of the route's roles, on the first request and on every repeat. Mount
// it behind JWTGuard or Bridge, and in front of KeyGuard. [Idempotent] contains it.
//
//go:noinline
func RolesGuard(idem *core.Module) gin.HandlerFunc {
	return func(c *gin.Context) {
		p, _ := authctx.FromContext(c.Request.Context())
		if reply := idem.CheckRoles(c.Request, pattern(c), p); reply != nil {
			send(c, reply)
		}
	}
}

// KeyGuard refuses a request that has not exactly one valid key (400), or whose body is too large (413). Mount it behind
// RolesGuard, and in front of Interceptor. The handler can read the body as usual. [Idempotent] contains it.
//
//go:noinline
func KeyGuard(idem *core.Module) gin.HandlerFunc {
	return func(c *gin.Context) {
		request := c.Request
		p, _ := authctx.FromContext(request.Context())
		admitted, reply := idem.Admit(request, pattern(c), p, kept(c)...)
		pass(c, request, admitted, reply)
	}
}

// pass continues with the admitted request, or refuses.
func pass(c *gin.Context, request, admitted *http.Request, reply *core.Reply) bool {
	switch {
	case c.Request != request: // c belongs to another request by now
		return false
	case reply != nil:
		send(c, reply)
		return false
	}
	c.Request = admitted
	return true
}

// kept returns the copy of the body that c.ShouldBindBodyWith has made and will show to the handler (O-6).
func kept(c *gin.Context) [][]byte {
	if value, ok := c.Get(gin.BodyBytesKey); ok {
		if body, ok := value.([]byte); ok {
			return [][]byte{body}
		}
	}
	return nil
}

// hold reserves c for this request, or refuses: see core.Hold.
func hold(c *gin.Context, request *http.Request, idem *core.Module) (core.Hold, bool) {
	held, reply := idem.Hold(request, pattern(c), c)
	if reply == nil {
		return held, true
	}
	if _, taken := c.Writer.(*writer); taken { // c belongs to the other request; this one is late
		c.Abort()
		return held, false
	}
	send(c, reply)
	c.Writer = seal(c.Writer) // drop what the abandoned handler still writes
	return held, false
}

// send sends reply instead of running the handler.
func send(c *gin.Context, reply *core.Reply) {
	c.Abort()
	_ = reply.WriteTo(c.Writer) // an error means that the connection is broken: nobody can be told
	c.Writer.WriteHeaderNow()
}
