package echoidem

import (
	"github.com/labstack/echo/v4"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
)

// Money guards money routes: RolesGuard, KeyGuard and Interceptor in one. Mounted behind JWTGuard or Bridge, once.
//
//go:noinline
func Money(idem *core.Module) echo.MiddlewareFunc {
	pattern := &patterns{}
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error { // one function: Echo makes the chain anew for each request
			if reply := checkRoles(c, idem, pattern); reply != nil {
				return send(c, reply)
			}
			if reply := admit(c, idem, pattern); reply != nil {
				return send(c, reply)
			}
			return intercept(c, idem, pattern, next)
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
		return func(c echo.Context) error { return intercept(c, idem, pattern, next) }
	}
}

func intercept(c echo.Context, idem *core.Module, pattern *patterns, next echo.HandlerFunc) error {
	p, _ := authctx.From(c.Request().Context())
	attempt, reply := idem.Begin(c.Request(), pattern.of(c), p)
	switch {
	case attempt != nil:
		return run(c, attempt, next)
	case reply != nil:
		return send(c, reply)
	}
	return next(c)
}

// run runs the handler within the attempt, and releases its answer once it is recorded. It returns the handler's error,
// rendered.
func run(c echo.Context, attempt *core.Attempt, next echo.HandlerFunc) error {
	request, outer := c.Request(), c.Response()
	capture := attempt.Capture(outer)
	w := newResponse(capture, c.Echo())
	returned := false
	defer func() {
		if returned {
			return
		}
		// A panic is on its way, and goes on.
		c.SetRequest(request)
		c.SetResponse(outer)
		attempt.Panicked(outer.Header())
	}()
	c.SetRequest(attempt.Request())
	c.SetResponse(w)
	err := next(c)
	if err != nil {
		answer(c, w, capture, err)
	}
	returned = true

	c.SetRequest(request)
	c.SetResponse(outer)
	if reply := attempt.Finish(); reply != nil {
		_ = reply.WriteTo(outer) // an error is the connection's: the answer is recorded, and a repeat gets it
	}
	if err != nil {
		c.SetResponse(seal(outer, c.Echo()))
	}
	return err
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
