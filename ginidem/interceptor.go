package ginidem

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
)

// Option changes how the interceptor works.
type Option func(*interceptor)

// WithErrorRenderer sets how errors become answers: Gin's twin of Echo's HTTPErrorHandler (contract R-1). render is
// called where the handlers have added to c.Errors and written no body, and writes the answer by the usual means; what
// it writes is recorded with the rest. c.Writer.Written tells it whether the status is sent already, as by
// c.AbortWithError. Where it writes nothing either, the attempt has failed.
//
// Without a renderer, errors and nothing written are a failure: undone in Rollback, unknown elsewhere, and answered
// with 500 unless middleware mounted before the interceptor answers.
func WithErrorRenderer(render func(c *gin.Context)) Option {
	return func(i *interceptor) { i.render = render }
}

// interceptor holds the options.
type interceptor struct {
	render func(c *gin.Context)
}

func newInterceptor(opts []Option) *interceptor {
	i := &interceptor{}
	for _, opt := range opts {
		opt(i)
	}
	return i
}

// Idempotent makes routes idempotent: RolesGuard, KeyGuard and Interceptor in one. Mounted behind JWTGuard or Bridge, once.
//
//go:noinline
func Idempotent(idem *core.Module, opts ...Option) gin.HandlerFunc {
	i := newInterceptor(opts)
	return func(c *gin.Context) {
		held, ok := hold(c, idem)
		if !ok {
			return
		}
		defer held.Release()
		if reply := checkRoles(c, idem); reply != nil {
			send(c, reply)
			return
		}
		if admit(c, idem) {
			i.intercept(c, idem)
		}
	}
}

// Interceptor claims the request's key, runs the handlers behind it and records their answer before it leaves; or it
// answers from the record (contract M, R, X). Mounted behind KeyGuard, once.
//
//go:noinline
func Interceptor(idem *core.Module, opts ...Option) gin.HandlerFunc {
	i := newInterceptor(opts)
	return func(c *gin.Context) {
		held, ok := hold(c, idem)
		if !ok {
			return
		}
		defer held.Release()
		i.intercept(c, idem)
	}
}

func (i *interceptor) intercept(c *gin.Context, idem *core.Module) {
	request := c.Request
	p, _ := authctx.FromContext(request.Context())
	attempt, reply := idem.Begin(request, pattern(c), p)
	switch {
	case c.Request != request: // another's by now
		if attempt != nil {
			attempt.Abandon()
		}
	case attempt != nil:
		i.run(c, attempt)
	case reply != nil:
		send(c, reply)
	}
}

// run runs the handlers within the attempt, and releases their answer once it is recorded.
func (i *interceptor) run(c *gin.Context, attempt *core.Attempt) {
	request, outer, errs := c.Request, c.Writer, len(c.Errors)
	w := &writer{Capture: attempt.Capture(outer), status: outer.Status()}
	returned := false
	defer func() {
		switch {
		case returned:
		case abandoned(c, attempt):
			attempt.Abandon()
		default:
			// A panic is on its way, and goes on. Gin's recovery leaves the status alone where it takes the connection for
			// broken: at least no success is told.
			c.Request, c.Writer = request, outer
			outer.WriteHeader(http.StatusInternalServerError)
			attempt.Panicked(outer.Header())
		}
	}()
	c.Request, c.Writer = attempt.Request(), w
	c.Next()
	if abandoned(c, attempt) {
		returned = true
		attempt.Abandon()
		return
	}
	failed := len(c.Errors) > errs
	answered := i.answer(c, w, outer.Header(), failed)
	returned = true

	c.Request, c.Writer = request, outer
	reply := attempt.Finish()
	if c.Request != request {
		return // another's while it was recorded: the answer is, and a repeat gets it
	}
	if reply != nil {
		_ = reply.WriteTo(outer) // an error is the connection's: the answer is recorded, and a repeat gets it
	}
	if !answered && !outer.Written() {
		return // for outer middleware to render the error
	}
	outer.WriteHeaderNow()
	if failed {
		c.Writer = seal(outer)
	}
}

// abandoned reports whether c is another request's by now.
func abandoned(c *gin.Context, attempt *core.Attempt) bool {
	return attempt.Abandoned(c.Request, func() http.Header { return c.Writer.Header() })
}

// answer completes the answer of the handlers in w. It is false where there is none.
func (i *interceptor) answer(c *gin.Context, w *writer, outer http.Header, failed bool) bool {
	if failed && i.render != nil && w.takesBody() {
		c.Writer = w // not what inner middleware has left there
		plain(w.Header(), outer)
		i.render(c)
	}
	if failed && !w.Written() {
		w.Unrendered()
		return false
	}
	w.WriteHeaderNow()
	return true
}

// plain takes back that inner middleware has announced an encoding: what is written past it is not encoded.
func plain(h, outer http.Header) {
	const name = "Content-Encoding"
	if values := outer[name]; values != nil {
		h[name] = values
		return
	}
	delete(h, name)
}
