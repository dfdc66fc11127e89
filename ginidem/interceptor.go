package ginidem

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
)

// Option changes how the interceptor works.
type Option func(*interceptor)

// WithErrorRenderer sets the function that turns errors into answers, as Echo's HTTPErrorHandler does. The interceptor
// calls render if the handlers have added to c.Errors and written no body. render writes the answer in the usual way,
// and the answer is recorded. c.Writer.Written tells render whether the status is already set, as c.AbortWithError does.
// If render writes nothing, the attempt has failed.
//
// Without a renderer, an attempt with errors and without an answer has failed: Rollback rolls it back, and with the other
// recoveries its outcome is unknown. The client gets 500, unless middleware in front of the interceptor answers.
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

// Idempotent makes routes idempotent: it is RolesGuard, KeyGuard and Interceptor in one. Mount it once, behind JWTGuard
// or Bridge.
//
//go:noinline
func Idempotent(idem *core.Module, opts ...Option) gin.HandlerFunc {
	i := newInterceptor(opts)
	return func(c *gin.Context) {
		request := c.Request
		held, ok := hold(c, request, idem)
		if !ok {
			return
		}
		defer held.Release()
		p, _ := authctx.FromContext(request.Context())
		admitted, reply := held.Admit(request, p, kept(c)...)
		if pass(c, request, admitted, reply) {
			i.intercept(c, &held, p)
		}
	}
}

// Interceptor claims the request's key, runs the handlers, and records their answer before it sends the answer. If the
// key has a record already, it answers from the record. Mount it once, behind KeyGuard. [Idempotent] contains it.
//
//go:noinline
func Interceptor(idem *core.Module, opts ...Option) gin.HandlerFunc {
	i := newInterceptor(opts)
	return func(c *gin.Context) {
		held, ok := hold(c, c.Request, idem)
		if !ok {
			return
		}
		defer held.Release()
		p, _ := authctx.FromContext(c.Request.Context())
		i.intercept(c, &held, p)
	}
}

func (i *interceptor) intercept(c *gin.Context, held *core.Hold, p core.Principal) {
	request := c.Request
	attempt, reply := held.Begin(request, p)
	switch {
	case c.Request != request: // c belongs to another request by now
		if attempt != nil {
			attempt.Abandon()
		}
	case attempt != nil:
		i.run(c, attempt)
	case reply != nil:
		send(c, reply)
	}
}

// run runs the handlers within the attempt, and sends their answer after it is recorded.
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
			// A panic continues after this function. Where Gin's recovery believes that the connection is broken, it sets no
			// status. So one is set here: the client must not see a success.
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
		return // c was given away while the answer was recorded: a repeat gets the answer
	}
	if reply != nil {
		_ = reply.WriteTo(outer) // an error means that the connection is broken: a repeat gets the recorded answer
	}
	if !answered && !outer.Written() {
		return // outer middleware may render the error
	}
	outer.WriteHeaderNow()
	if failed {
		c.Writer = seal(outer)
	}
}

// abandoned reports whether c belongs to another request by now.
func abandoned(c *gin.Context, attempt *core.Attempt) bool {
	return attempt.Abandoned(c.Request, func() http.Header { return c.Writer.Header() })
}

// answer completes the handlers' answer in w. It returns false if there is none.
func (i *interceptor) answer(c *gin.Context, w *writer, outer http.Header, failed bool) bool {
	if failed && i.render != nil && w.takesBody() {
		c.Writer = w // inner middleware may have left its own writer there
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
