package ginidem

import (
	"net/http"
	"reflect"

	"github.com/gin-gonic/gin"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
)

// exchange shows one request of Gin to package core: see [core.Exchange].
type exchange struct {
	c       *gin.Context
	methods *methods
	render  func(c *gin.Context) // of WithErrorRenderer; nil without one

	// Of an attempt:
	outer    gin.ResponseWriter // the writer from before it
	written  bool               // it had an answer already
	writer   writer             // the handlers'
	below    reflect.Value      // the place of the server's writer in the engine's own; zero if it cannot be found
	server   http.ResponseWriter
	errs     int  // how many errors c had before it
	failed   bool // the handlers have added an error
	answered bool // there is an answer; else outer middleware may render the error
}

func (x *exchange) Pattern() string             { return pattern(x.c) }
func (x *exchange) Unguardable() string         { return x.methods.unguardable(x.c) }
func (x *exchange) Request() *http.Request      { return x.c.Request }
func (x *exchange) SetRequest(r *http.Request)  { x.c.Request = r }
func (x *exchange) Writer() http.ResponseWriter { return x.c.Writer }
func (x *exchange) Recycled() any               { return x.c }

func (x *exchange) Principal() core.Principal {
	p, _ := authctx.FromContext(x.c.Request.Context())
	return p
}

// BodyCopies returns the copy of the body that c.ShouldBindBodyWith has made and will show to the handler (O-6).
func (x *exchange) BodyCopies() [][]byte {
	if value, ok := x.c.Get(gin.BodyBytesKey); ok {
		if body, ok := value.([]byte); ok {
			return [][]byte{body}
		}
	}
	return nil
}

// StatusOf returns the status of an answer that is there: limits of Gin answer as soon as they are reached.
func (x *exchange) StatusOf(error) int {
	if refusedAlready(x.c.Writer) {
		return x.c.Writer.Status()
	}
	return 0
}

func refusedAlready(w gin.ResponseWriter) bool {
	return w.Written() && w.Status() >= http.StatusBadRequest
}

func (x *exchange) Overtaken() bool {
	_, taken := x.c.Writer.(*writer)
	if taken {
		x.c.Abort()
	}
	return taken
}

func (x *exchange) Send(reply *core.Reply) { send(x.c, reply) }

func (x *exchange) Shut() { x.c.Writer = seal(x.c.Writer) }

func (x *exchange) Next() error {
	x.c.Next()
	return nil // errors are in c.Errors
}

func (x *exchange) Enter(capture *core.Capture) any {
	x.outer, x.errs = x.c.Writer, len(x.c.Errors)
	x.writer = writer{Capture: capture, status: x.outer.Status()}
	x.c.Writer = &x.writer
	x.written = x.outer.Written()
	if own := ownWriter(x.c); own != nil {
		own.WriteHeader(http.StatusInternalServerError) // only remembered, until the answer replaces it
		x.below = field(reflect.ValueOf(own), "ResponseWriter")
		x.server, _ = reflect.TypeAssert[http.ResponseWriter](x.below)
		x.below.Set(reflect.ValueOf(capture.Shield(x.server))) // HandleContext gives the engine's own to the handlers
	}
	return nil
}

func (x *exchange) Answered() bool { return x.outer.Written() && !x.written }

func (x *exchange) Answer(error) {
	c, w := x.c, &x.writer
	x.failed = len(c.Errors) > x.errs
	if x.failed && x.render != nil && w.takesBody() {
		c.Writer = w // inner middleware may have left its own writer there
		plain(w.Header(), x.outer.Header())
		x.render(c)
	}
	if x.failed && !w.Written() {
		w.Unrendered()
		return
	}
	w.WriteHeaderNow()
	x.answered = true
}

// plain removes the Content-Encoding that inner middleware has announced: the renderer writes past that middleware, so
// its output is not encoded.
func plain(h, outer http.Header) {
	const name = "Content-Encoding"
	if values := outer[name]; values != nil {
		h[name] = values
		return
	}
	delete(h, name)
}

func (x *exchange) Leave(panicked bool) {
	if x.below.IsValid() {
		x.below.Set(reflect.ValueOf(x.server))
	}
	x.c.Writer = x.outer
	if panicked {
		// Where Gin's recovery believes that the connection is broken, it sets no status. So one is set here: the client
		// must not see a success.
		x.outer.WriteHeader(http.StatusInternalServerError)
	}
}

func (x *exchange) Sent(error) {
	if !x.answered && !x.outer.Written() {
		return // outer middleware may render the error
	}
	x.outer.WriteHeaderNow()
	if x.failed {
		x.c.Writer = seal(x.outer)
	}
}

// send sends reply instead of running the handlers, unless middleware has refused the request meanwhile.
func send(c *gin.Context, reply *core.Reply) {
	c.Abort()
	if refusedAlready(c.Writer) {
		return
	}
	_ = reply.SendTo(c.Writer, c.Request) // an error means that the connection is broken: nobody can be told
	c.Writer.WriteHeaderNow()
}
