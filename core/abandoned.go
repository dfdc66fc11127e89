package core

import (
	"errors"
	"net/http"
	"reflect"
	"sync"
)

// errAbandoned: a handler was still running when its framework gave its context to another request.
var errAbandoned = errors.New("idem: the request was swapped under its handler: middleware runs the chain in another " +
	"goroutine and abandons it, while the framework uses the context for the next request, or the handler runs another chain " +
	"with a writer of its own (gin.Engine.HandleContext). Take that away; the server's timeouts and Policy.Deadline bound a " +
	"request")

// contextsInUse are the contexts of a framework that guarded requests use at the moment. Frameworks reuse contexts. If two
// requests use one context, the first was abandoned while its handler was still running. The zero value is ready.
type contextsInUse struct {
	mu   sync.Mutex
	keys map[any]struct{}
}

// take reserves a context. It returns false if another request has it.
func (u *contextsInUse) take(key any) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, taken := u.keys[key]; taken {
		return false
	}
	if u.keys == nil {
		u.keys = map[any]struct{}{}
	}
	u.keys[key] = struct{}{}
	return true
}

func (u *contextsInUse) unreserve(key any) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.keys, key)
}

// reserve marks the framework's context as used by this request, if the request needs a key. Call it first, and release
// when the attempt has ended. key is a pointer: the framework's context, or another value that the framework reuses with it;
// nil if it reuses nothing.
//
// If another request has the same context, that request was abandoned while its handler is still running, and the
// handler would write into this request's answer: 500 misconfigured, and nothing runs. It cannot see a handler of
// an unguarded route, nor one that was abandoned by middleware behind the guards.
func (q *request) reserve(r *http.Request, key any) *Reply {
	m := q.m
	if key == nil || !q.guarded || q.shadow || q.inside {
		return nil // inside an attempt this is a second guard, and the guard refuses it
	}
	if m.inUse.take(key) {
		q.reserved[0] = key
		return nil
	}
	m.observe(r.Context(), Event{Kind: EventRefused, Method: r.Method, Route: q.pattern, Code: CodeMisconfigured,
		Err: errAbandoned})
	return m.refuse(r, NewProblem(CodeMisconfigured, "a handler that was abandoned is still at work on this request's "+
		"context, and nothing was run; mount no middleware that runs the chain in another goroutine and abandons it, but use "+
		"the server's timeouts and Policy.Deadline"))
}

// alsoReserve reserves a second value: one that the adapter puts into the context, and that the framework reuses.
func (q *request) alsoReserve(key any) {
	if q.reserved[0] != nil && q.m.inUse.take(key) {
		q.reserved[1] = key
	}
}

// unreserve gives back what is reserved.
func (q *request) unreserve() {
	for _, key := range q.reserved {
		if key != nil {
			q.m.inUse.unreserve(key)
		}
	}
}

// abandoned reports whether the framework has given its context to another request while the handler was running.
// Then the adapter must not touch the context any more, because it would write into another caller's answer, and ends the
// attempt with abandon. r is the request that is in the context now, and header returns the headers of its writer.
//
// Handlers and inner middleware may replace request and writer. The context is still the attempt's if
//   - the request carries the attempt, and the writer has the capture's headers;
//   - the request carries the attempt, and the writer has headers of its own, as a buffer has: but the answer has to be in
//     the capture by then, and the writer must not be the one from before the attempt;
//   - the request comes from no server, and the writer has the capture's headers: the handler has replaced the request, by
//     one with context.Background() for instance. This attempt fails, and its client gets 500 misconfigured.
//
// The check cannot be exact, because the abandoned goroutine and the next request do not synchronise: it may miss a context
// that is given away at this very moment. What was recorded until then belongs to the attempt.
func (a *Attempt) abandoned(r *http.Request, header func() http.Header) bool {
	c, ctx := &a.capture, r.Context()
	if attemptFrom(ctx) != a {
		if ctx.Value(http.ServerContextKey) != nil {
			return true // the writer is another request's, too: reading its headers while its handler runs could crash the process
		}
		c.detached = sameMap(header(), c.header)
		return !c.detached
	}
	h := header()
	return !sameMap(h, c.header) && (!c.Written() || sameMap(h, c.outer.Header()))
}

func sameMap(a, b http.Header) bool {
	return reflect.ValueOf(a).UnsafePointer() == reflect.ValueOf(b).UnsafePointer()
}

// abandon ends an attempt whose context was given to another request, or whose answer was written past it. It ends like an
// attempt that has panicked, and sends no answer. r is the request that is in the context now: if it is still the
// attempt's, what was streamed is broken off.
func (a *Attempt) abandon(r *http.Request) {
	a.observe(Event{Kind: EventAbandoned, Err: errAbandoned})
	if a.capture.streaming {
		if attemptFrom(r.Context()) == a {
			a.capture.breakOff()
		}
		a.capture.streaming = false
	}
	a.capture.outer = discard{}
	a.end(true)
}

// discard is a writer that drops everything. It takes the place of one that belongs to another request now.
type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) WriteHeader(int)             {}
func (discard) Write(p []byte) (int, error) { return len(p), nil }
