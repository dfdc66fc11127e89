package echoidem

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
)

// Idempotent makes routes idempotent: RolesGuard, KeyGuard and Interceptor in one. Mounted behind JWTGuard or Bridge, once.
//
//go:noinline
func Idempotent(idem *core.Module) echo.MiddlewareFunc {
	pattern := &patterns{}
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error { // one function: Echo makes the chain anew for each request
			held, ok := hold(c, idem, pattern)
			if !ok {
				return nil
			}
			defer held.Release()
			if reply := checkRoles(c, idem, pattern); reply != nil {
				return send(c, reply)
			}
			if !admit(c, idem, pattern) {
				return nil
			}
			return intercept(c, idem, pattern, &held, next)
		}
	}
}

// Interceptor claims the request's key, runs the handler and records its answer before it leaves; or it answers from
// the record (contract M, R, X). Mounted behind KeyGuard, once.
//
//go:noinline
func Interceptor(idem *core.Module) echo.MiddlewareFunc {
	pattern := &patterns{}
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			held, ok := hold(c, idem, pattern)
			if !ok {
				return nil
			}
			defer held.Release()
			return intercept(c, idem, pattern, &held, next)
		}
	}
}

func intercept(c echo.Context, idem *core.Module, pattern *patterns, held *core.Hold, next echo.HandlerFunc) error {
	request := c.Request()
	p, _ := authctx.FromContext(request.Context())
	attempt, reply := idem.Begin(request, pattern.of(c), p)
	switch {
	case c.Request() != request: // another's by now
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

// run runs the handler within the attempt, and releases its answer once it is recorded. It returns the handler's error,
// rendered.
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
			// A panic is on its way, and goes on.
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
		return err // another's while it was recorded: the answer is, and a repeat gets it
	}
	if reply != nil {
		_ = reply.WriteTo(outer) // an error is the connection's: the answer is recorded, and a repeat gets it
	}
	if err != nil {
		c.SetResponse(seal(outer, c.Echo()))
	}
	return err
}

// abandoned reports whether c is another request's by now.
func abandoned(c echo.Context, attempt *core.Attempt) bool {
	return attempt.Abandoned(c.Request(), func() http.Header { return c.Response().Header() })
}

// answer renders the handler's error, unless an answer has begun. What counts is what the capture has: Committed is
// true after a mere 1xx too.
func answer(c echo.Context, w *echo.Response, capture *core.Capture, err error) {
	if capture.Written() {
		return
	}
	w.Writer, w.Committed = capture, false
	c.SetResponse(w) // not what inner middleware has left there
	c.Echo().HTTPErrorHandler(err, c)
	if !capture.Written() {
		capture.Unrendered()
	}
}
