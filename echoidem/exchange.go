package echoidem

import (
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
)

// exchange shows one request of Echo to package core: see [core.Exchange].
type exchange struct {
	c        echo.Context
	patterns *patterns
	next     echo.HandlerFunc

	// Of an attempt:
	outer     *echo.Response // the response from before it
	committed bool           // it had an answer already
	response  *echo.Response // the handler's
	capture   *core.Capture  // below it
}

func (x *exchange) Pattern() string             { return x.patterns.of(x.c) }
func (x *exchange) Unguardable() string         { return x.patterns.unguardable(x.c) }
func (x *exchange) Request() *http.Request      { return x.c.Request() }
func (x *exchange) SetRequest(r *http.Request)  { x.c.SetRequest(r) }
func (x *exchange) Writer() http.ResponseWriter { return x.c.Response() }

// Recycled returns the response, because apps wrap contexts, and Echo reuses context and response together.
func (x *exchange) Recycled() any { return x.c.Response() }

func (x *exchange) Principal() core.Principal {
	p, _ := authctx.FromContext(x.c.Request().Context())
	return p
}

// BodyCopies returns nothing: Echo shows the body itself.
func (x *exchange) BodyCopies() [][]byte { return nil }

// StatusOf returns the code of an error of Echo: its BodyLimit ends a body of unknown length with one.
func (x *exchange) StatusOf(err error) int {
	if own, ok := errors.AsType[*echo.HTTPError](err); ok {
		return own.Code
	}
	return 0
}

func (x *exchange) Overtaken() bool {
	_, taken := x.c.Response().Writer.(*core.Capture)
	return taken
}

func (x *exchange) Send(reply *core.Reply) { _ = send(x.c, reply) }

func (x *exchange) Shut() {
	own := x.c.Response()
	own.Writer = &sealed{Beside: core.Beside{Writer: own.Writer}, header: own.Header().Clone()}
}

func (x *exchange) Next() error { return x.next(x.c) }

func (x *exchange) Enter(capture *core.Capture) any {
	x.outer, x.response, x.capture = x.c.Response(), newResponse(capture, x.c.Echo()), capture
	x.c.SetResponse(x.response)
	x.committed = x.outer.Committed
	spoilLength(x.outer.Header())
	return x.response
}

func (x *exchange) Answered() bool { return x.outer.Committed && !x.committed }

// Answer asks the capture whether the handler has begun an answer, because Committed is also true after a 1xx.
func (x *exchange) Answer(err error) {
	if err == nil || x.capture.Written() {
		return
	}
	x.response.Writer, x.response.Committed = x.capture, false
	x.c.SetResponse(x.response) // inner middleware may have left its own response there
	x.c.Echo().HTTPErrorHandler(err, x.c)
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
func send(c echo.Context, reply *core.Reply) error {
	_ = reply.SendTo(c.Response(), c.Request()) // an error means that the connection is broken: nobody can be told
	return nil
}
