package echoidem

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
)

// Idempotent makes routes idempotent: it is RolesGuard, KeyGuard and Interceptor in one. Mount it once, behind JWTGuard
// or Bridge.
//
//go:noinline
func Idempotent(idem *core.Module) echo.MiddlewareFunc {
	pattern := &patterns{}
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error { // one function, because Echo builds the chain again for each request
			request := c.Request()
			held, ok := hold(c, request, idem, pattern)
			if !ok {
				return nil
			}
			defer held.Release()
			p, _ := authctx.FromContext(request.Context())
			admitted, reply := held.Admit(request, p)
			if !pass(c, request, admitted, reply) {
				return nil
			}
			return intercept(c, &held, p, next)
		}
	}
}

// Interceptor claims the request's key, runs the handler, and records its answer before it sends the answer. If the key
// has a record already, it answers from the record. Mount it once, behind KeyGuard. [Idempotent] contains it.
//
//go:noinline
func Interceptor(idem *core.Module) echo.MiddlewareFunc {
	pattern := &patterns{}
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			held, ok := hold(c, c.Request(), idem, pattern)
			if !ok {
				return nil
			}
			defer held.Release()
			p, _ := authctx.FromContext(c.Request().Context())
			return intercept(c, &held, p, next)
		}
	}
}

func intercept(c echo.Context, held *core.Hold, p core.Principal, next echo.HandlerFunc) error {
	request := c.Request()
	attempt, reply := held.Begin(request, p)
	switch {
	case c.Request() != request: // c belongs to another request by now
		if attempt != nil {
			attempt.Abandon()
		}
		return nil
	case attempt != nil:
		return run(c, attempt, held, next)
	case reply != nil:
		return send(c, reply)
	}
	return next(c)
}

// run runs the handler within the attempt, and sends its answer after it is recorded. It returns the handler's error,
// which is already rendered.
func run(c echo.Context, attempt *core.Attempt, held *core.Hold, next echo.HandlerFunc) error {
	request, outer := c.Request(), c.Response()
	capture := attempt.Capture(outer)
	w := newResponse(capture, c.Echo())
	held.Also(w)
	returned := false
	defer func() {
		switch {
		case returned:
		case abandoned(c, attempt):
			attempt.Abandon()
		default:
			// A panic continues after this function.
			c.SetRequest(request)
			c.SetResponse(outer)
			attempt.Panicked(outer.Header())
		}
	}()
	c.SetRequest(attempt.Request())
	c.SetResponse(w)
	err := next(c)
	if abandoned(c, attempt) {
		returned = true
		attempt.Abandon()
		return err
	}
	if err != nil {
		answer(c, w, capture, err)
	}
	returned = true

	c.SetRequest(request)
	c.SetResponse(outer)
	reply := attempt.Finish()
	if c.Request() != request {
		return err // c was given away while the answer was recorded: a repeat gets the answer
	}
	if reply != nil {
		_ = reply.WriteTo(outer) // an error means that the connection is broken: a repeat gets the recorded answer
	}
	if err != nil {
		c.SetResponse(seal(outer, c.Echo()))
	}
	return err
}

// abandoned reports whether c belongs to another request by now.
func abandoned(c echo.Context, attempt *core.Attempt) bool {
	return attempt.Abandoned(c.Request(), func() http.Header { return c.Response().Header() })
}

// answer renders the handler's error, unless the handler has begun an answer. It asks the capture, because Committed is
// also true after a 1xx.
func answer(c echo.Context, w *echo.Response, capture *core.Capture, err error) {
	if capture.Written() {
		return
	}
	w.Writer, w.Committed = capture, false
	c.SetResponse(w) // inner middleware may have left its own response there
	c.Echo().HTTPErrorHandler(err, c)
	if !capture.Written() {
		capture.Unrendered()
	}
}
