package core

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/auth19/idem/core/internal/command"
	"github.com/auth19/idem/core/store"
)

// request is one request at the guards and the interceptor, and what they find out about it, each thing once. If they are
// mounted apart, the context of the request carries that of the key guard to the interceptor. It is itself that context, to
// save an allocation.
type request struct {
	context.Context // set by the key guard
	m               *Module
	x               Exchange // nil: the request did not come through an adapter's guard
	pattern         string
	route           *route    // nil: there is none, or problem says why
	problem         *Problem  // the route is not in the table
	guarded         bool      // the request needs a key
	shadow          bool      // its route is in shadow, and the key is only watched: see Policy.ShadowUntil
	inside          bool      // it is a request within an attempt
	admitted        bool      // the key guard has let it through, to a claim
	reserved        [2]any    // values of the framework that are this request's alone
	principal       Principal // the rest is set by the key guard and the claim
	id              ID
	echo            []string // the key's header as it came, for the echo (M-3)
	command         command.Command
	hash            store.CommandHash   // in the current version
	keyMade         time.Time           // the time of a key that is a UUIDv7
	keyAge          time.Duration       // how old a timed key may be
	tooOld          bool                // the key was too old when its route left TimedKey
	unaged          bool                // the clocks are too far apart to tell how old the key may be
	judgedAt        time.Time           // this process's clock when a timed key was last judged by it
	body            body                // for the handler
	values          context.Context     // the values of the interceptor's request, without its end; set before the claim
	claimant        store.ClientContext // values, for claims
	call            lazyContext         // the first claim's

	claiming time.Duration // for Event.Claim, until an event has it
	waiting  time.Duration // for Event.Waiting, likewise
	found    string        // the trace of the record that the claim has found

	unhashed bool // in shadow: the body could not be read to its end
	watched  bool // in shadow: the interceptor has passed it on
}

func (m *Module) newRequest(r *http.Request, pattern string) *request {
	q := &request{m: m, pattern: pattern}
	q.route, q.problem = m.route(r.Method, pattern)
	if q.guarded = q.route != nil && q.route.guarded(); q.guarded {
		q.shadow, q.inside = q.route.inShadow(), attemptFrom(r.Context()) != nil
	}
	return q
}

type requestKey struct{}

// Value implements [context.Context].
func (q *request) Value(key any) any {
	if key == (requestKey{}) {
		return q
	}
	return q.Context.Value(key)
}

// requestFrom returns the request that a key guard has put into ctx; nil if there is none.
func requestFrom(ctx context.Context) *request {
	q, _ := ctx.Value(requestKey{}).(*request)
	return q
}

// recovery is that of the route; 0 if there is none.
func (q *request) recovery() Recovery {
	if q.route == nil {
		return 0
	}
	return q.route.Recovery
}

// body is a request body that is in memory.
type body struct{ bytes.Reader }

// Close implements [io.Closer]. The server closes the body that came in.
func (*body) Close() error { return nil }

// giveBody gives r a body that can be read from the beginning.
func (q *request) giveBody(r *http.Request) {
	if len(q.command.Body) > 0 { // otherwise the original body is empty, too
		q.body.Reset(q.command.Body)
		r.Body = &q.body
	}
}

// event is an event of a request that the key guard has seen.
func (q *request) event(kind EventKind) Event {
	return Event{Kind: kind, Operation: q.id, Method: q.command.Method, Route: q.pattern, Recovery: q.route.Recovery}
}

// timed is event with the times of the claim. Only the first timed event of a request has them.
func (q *request) timed(kind EventKind) Event {
	e := q.event(kind)
	e.Claim, e.Waiting = q.claiming, q.waiting
	q.claiming, q.waiting = 0, 0
	return e
}

// refused is the event of a refusal.
func (q *request) refused(code Code) Event {
	e := q.timed(EventRefused)
	e.Code, e.Traceparent = code, q.found
	return e
}
