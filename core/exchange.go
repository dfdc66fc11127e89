package core

import (
	"net/http"
	"time"
)

// Exchange is one request in its framework, as an adapter shows it to this package: its request, its writer, and the
// handlers behind the guard. [Module.RolesGuard], [Module.KeyGuard], [Module.Interceptor] and [Module.Idempotent] are the
// guards of every adapter. They call the methods in the request's goroutine.
type Exchange interface {
	// Pattern returns the route as the router spells it, without its method; "" if the router knows no route.
	Pattern() string
	// Unguardable says why Pattern, or the method of the request, is not what the router has chosen the handlers by; "" if it
	// is. A guard in front of the router takes each route for none, and a POST that was made a GET behind it for a safe one:
	// both would run a handler without a key.
	Unguardable() string
	// Principal returns the caller that the JWT guard has put into the request's context; the zero value if there is none.
	Principal() Principal

	// Request returns the current request of the framework's context. SetRequest replaces it.
	Request() *http.Request
	SetRequest(r *http.Request)
	// Writer returns the current writer of the framework's context.
	Writer() http.ResponseWriter
	// BodyCopies returns copies of the body that the framework shows to handlers instead of the body. Most frameworks have
	// none.
	BodyCopies() [][]byte

	// StatusOf returns the status of an error that reading the body has ended with, if the framework, or a limit in front that
	// has answered already, gives it one; else 0. A StatusCode method is known here.
	StatusOf(err error) int

	// Recycled returns a pointer to the value that the framework reuses for a later request; nil if it reuses nothing.
	Recycled() any
	// Overtaken reports whether the context already has the writer of another request's attempt. If so, it ends the chain.
	Overtaken() bool

	// Send sends reply instead of the handlers' answer, and ends the chain.
	Send(reply *Reply)
	// Shut drops later writes of a handler that an earlier request has abandoned. The answer of this request is sent.
	Shut()
	// Next runs the handlers behind the guard. It returns their error if handlers of the framework return errors.
	Next() error

	// Enter makes c the handlers' writer, with the framework's own writer around it. It returns a pointer to the part of it
	// that the framework will reuse; nil if there is none. Middleware that has abandoned the handlers writes into c as well,
	// and what the server then sends by itself would be an empty 200. So from Enter to Leave, nothing but an answer may leave
	// as a success.
	Enter(c *Capture) any
	// Answered reports whether an answer has left since Enter that did not come from the capture.
	Answered() bool
	// Answer completes the handlers' answer in the capture: it renders their error, or calls [Capture.Unrendered].
	Answer(err error)
	// Leave puts the writer from before Enter back. panicked says that a panic continues after it.
	Leave(panicked bool)
	// Sent is called after the answer was recorded and sent. Later writes of error middleware are dropped, because a repeat
	// would not get them.
	Sent(err error)
}

// RolesGuard is [Module.CheckRoles] as a guard: it continues, or sends 401, 403 or 500. It returns the handler's error.
func (m *Module) RolesGuard(x Exchange) error {
	if m.unguardable(x) {
		return nil
	}
	if reply := m.CheckRoles(x.Request(), x.Pattern(), x.Principal()); reply != nil {
		x.Send(reply)
		return nil
	}
	return x.Next()
}

// unguardable refuses a request of which the guards would take the route for another one, and reports whether it did.
func (m *Module) unguardable(x Exchange) bool {
	why := x.Unguardable()
	if why != "" {
		q := &request{m: m, pattern: x.Pattern()}
		x.Send(q.refuse(x.Request(), NewProblem(CodeMisconfigured, why+", and nothing was run")))
	}
	return why != ""
}

// KeyGuard is [Module.Admit] as a guard: it continues with the admitted request, or refuses. It returns the handler's error.
func (m *Module) KeyGuard(x Exchange) error {
	if m.unguardable(x) {
		return nil
	}
	r := x.Request()
	q := m.newRequest(r, x.Pattern())
	q.x = x
	admitted, reply := q.admitApart(r, x.Principal(), x.BodyCopies())
	if !pass(x, r, admitted, reply) {
		return nil
	}
	defer giveForm(r, admitted)
	return x.Next()
}

// giveForm gives r the multipart form that a handler has parsed in inner, a copy of r. The server removes the files of a
// form at the end, but only those of the request that it has made.
func giveForm(r, inner *http.Request) {
	if inner.MultipartForm != nil {
		r.MultipartForm = inner.MultipartForm
	}
}

// Idempotent is RolesGuard, KeyGuard and Interceptor in one, which looks the route up only once. It returns the handler's
// error.
func (m *Module) Idempotent(x Exchange) error {
	r := x.Request()
	q := m.enter(x, r)
	if q == nil {
		return nil
	}
	defer q.unreserve()
	p := x.Principal()
	admitted, reply := q.admit(r, p, x.BodyCopies())
	if !pass(x, r, admitted, reply) {
		return nil
	}
	defer giveForm(r, admitted)
	return q.intercept(x, p)
}

// Interceptor claims the request's key, runs the handlers within the attempt, and sends their answer after it is
// recorded. If the key has a record already, it answers from the record. It returns the handler's error, which it has
// rendered already.
func (m *Module) Interceptor(x Exchange) error {
	q := m.enter(x, x.Request())
	if q == nil {
		return nil
	}
	defer q.unreserve()
	return q.intercept(x, x.Principal())
}

// enter reserves the context of an exchange for its request. It refuses, and returns nil, if another request still works on
// the same context.
func (m *Module) enter(x Exchange, r *http.Request) *request {
	if m.unguardable(x) {
		return nil
	}
	q := m.newRequest(r, x.Pattern())
	q.x = x
	reply := q.reserve(r, x.Recycled())
	switch {
	case reply == nil:
		return q
	case x.Overtaken(): // the context belongs to the other request, and this one is late
	default:
		x.Send(reply)
		x.Shut()
	}
	return nil
}

// pass continues with the admitted request, or refuses.
func pass(x Exchange, request, admitted *http.Request, reply *Reply) bool {
	switch {
	case x.Request() != request: // the context belongs to another request by now
		return false
	case reply != nil:
		x.Send(reply)
		return false
	}
	x.SetRequest(admitted)
	return true
}

func (q *request) intercept(x Exchange, p Principal) error {
	request := x.Request()
	attempt, reply := q.begin(request, p)
	switch {
	case x.Request() != request: // the context belongs to another request by now
		if attempt != nil {
			attempt.abandon(x.Request())
		}
		return nil
	case attempt != nil:
		return q.runHandlers(x, attempt)
	case reply != nil:
		x.Send(reply)
		return nil
	}
	return x.Next()
}

// runHandlers runs the handlers within the attempt, and sends their answer after it is recorded.
func (q *request) runHandlers(x Exchange, attempt *Attempt) error {
	request, outer := x.Request(), x.Writer()
	if also := x.Enter(attempt.Capture(outer)); also != nil {
		q.alsoReserve(also)
	}
	defer giveForm(request, attempt.Request())
	returned := false
	defer func() {
		switch {
		case returned:
		case attempt.lost(x):
			attempt.abandon(x.Request())
		default: // a panic, which continues after this function
			x.SetRequest(request)
			x.Leave(true)
			attempt.Panicked(outer.Header())
			if !attempt.capture.streaming { // what recovery middleware sends; a stream is broken off
				limitSending(outer, request, attempt.route.Deadline, time.Time{})
			}
		}
	}()
	x.SetRequest(attempt.Request())
	err := x.Next()
	if attempt.lost(x) {
		returned = true
		attempt.abandon(x.Request())
		return err
	}
	attempt.capture.rendering = true
	x.Answer(err)
	returned = true

	x.SetRequest(request)
	x.Leave(false)
	reply := attempt.Finish()
	if x.Request() != request {
		return err // another request got the context while the answer was being recorded: a repeat gets the answer
	}
	if reply != nil {
		_ = reply.SendTo(outer, request) // an error means that the connection is broken: a repeat gets the recorded answer
	}
	x.Sent(err)
	return err
}

// lost reports whether the framework's context belongs to another request by now, or its request is answered already.
func (a *Attempt) lost(x Exchange) bool {
	return a.abandoned(x.Request(), func() http.Header { return x.Writer().Header() }) ||
		!a.capture.streaming && x.Answered()
}
