package echoidem

import (
	"net/http"

	"github.com/labstack/echo/v5"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
)

// exchange shows one request of Echo to package core: see [core.Exchange].
type exchange struct {
	c    *echo.Context
	next echo.HandlerFunc

	// Of an attempt:
	outer     http.ResponseWriter // the response from before it
	own       *echo.Response      // Echo's own in outer; nil if it cannot be found
	committed bool                // it had an answer already
	response  *echo.Response      // the handler's
	capture   *core.Capture       // below it
}

func (x *exchange) Pattern() string             { return pattern(x.c) }
func (x *exchange) Unguardable() string         { return unguardable(x.c) }
func (x *exchange) Request() *http.Request      { return x.c.Request() }
func (x *exchange) SetRequest(r *http.Request)  { x.c.SetRequest(r) }
func (x *exchange) Writer() http.ResponseWriter { return x.c.Response() }
func (x *exchange) Recycled() any               { return x.c }

func (x *exchange) Principal() core.Principal {
	p, _ := authctx.FromContext(x.c.Request().Context())
	return p
}

// BodyCopies returns nothing: Echo shows the body itself.
func (x *exchange) BodyCopies() [][]byte { return nil }

// StatusOf returns 0: the errors of Echo have a StatusCode method.
func (x *exchange) StatusOf(error) int { return 0 }

func (x *exchange) Overtaken() bool {
	own, err := echo.UnwrapResponse(x.c.Response())
	if err != nil {
		return false
	}
	_, taken := own.ResponseWriter.(*core.Capture)
	return taken
}

func (x *exchange) Send(reply *core.Reply) { _ = send(x.c, reply) }

// Shut seals Echo's own response, because the abandoned handler may have it.
func (x *exchange) Shut() {
	if own, err := echo.UnwrapResponse(x.c.Response()); err == nil {
		own.ResponseWriter = &sealed{Beside: core.Beside{Writer: own.ResponseWriter}, header: own.Header().Clone()}
	}
}

func (x *exchange) Next() error { return x.next(x.c) }

func (x *exchange) Enter(capture *core.Capture) any {
	x.outer, x.response, x.capture = x.c.Response(), newResponse(capture, x.c.Echo()), capture
	x.c.SetResponse(x.response)
	x.own, _ = echo.UnwrapResponse(x.outer)
	x.committed = x.own != nil && x.own.Committed
	spoilLength(x.outer.Header())
	return nil // Echo goes on with the response of its own
}

func (x *exchange) Answered() bool { return x.own != nil && x.own.Committed && !x.committed }

// Answer asks the capture whether the handler has begun an answer, because Committed is also true after a 1xx.
func (x *exchange) Answer(err error) {
	if err == nil || x.capture.Written() {
		return
	}
	x.response.ResponseWriter, x.response.Committed = x.capture, false
	x.c.SetResponse(x.response) // inner middleware may have left its own response there
	x.c.Echo().HTTPErrorHandler(x.c, err)
	if !x.capture.Written() {
		x.capture.Unrendered()
	}
}

func (x *exchange) Leave(bool) {
	restoreLength(x.outer.Header())
	x.c.SetResponse(x.outer)
}

func (x *exchange) Sent(err error) {
	if err != nil {
		x.c.SetResponse(seal(x.outer, x.c.Echo()))
	}
}

// send sends reply instead of running the handler.
func send(c *echo.Context, reply *core.Reply) error {
	_ = reply.SendTo(c.Response(), c.Request()) // an error means that the connection is broken: nobody can be told
	return nil
}
