package core

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/auth19/idem/core/internal/attemptctx"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/core/wire"
)

// Attempt is one execution of a handler. An adapter runs the handler with Request and into Capture, and ends it with
// exactly one of Finish and Panicked, in the request's goroutine.
type Attempt struct {
	m       *Module
	route   *route
	req     *request // what the guards have found out
	request *http.Request
	ticket  store.Ticket
	capture Capture

	ctx    lazyContext     // the handler's
	inside attemptctx.View // what ctx says of the attempt
	lease  lease           // Park, and Resume as long as no segment is open
	tx     store.Attempt   // Rollback and Resume: an open segment is the lease
	steps  *steps          // Resume

	// The parts of the claimed record that are needed later. The whole record would be a third of an attempt's memory.
	attempts  int  // with this one
	wakes     bool // Run has something to go on with, once it has committed
	outOfTime bool // Resume: ResumeFor was over when the attempt was claimed
	timed     bool // the key is a timed one
	status    int  // what its handler has answered; 0: it has not ended
	code      Code // of the problem that took the answer's place; "" if none did
	panicked  bool

	ends []byte    // how the attempts before have ended
	now  time.Time // the store's clock at begun

	writeRefused atomic.Bool           // EventWriteRefused was sent
	cut          atomic.Pointer[error] // see CutShort

	begun  time.Time     // when the claim was won
	worked time.Duration // until the handler had ended

	completing   lazyContext // of the call that records the answer, if there is no transaction
	stopDeadline func() bool // Rollback and Resume: false when the deadline has rolled back already
}

func attemptFrom(ctx context.Context) *Attempt {
	if inside := attemptctx.From(ctx); inside != nil {
		a, _ := inside.Core.(*Attempt)
		return a
	}
	return nil
}

// errDeadline is the cause of a handler's context that ended with the attempt's deadline.
var errDeadline = fmt.Errorf("idem: the attempt's deadline has passed: %w", context.DeadlineExceeded)

// newAttempt makes the handler's context. It has the request's values, but not the client's cancellation. It ends at the
// attempt's deadline, or at the request's own deadline if that is earlier.
func (m *Module) newAttempt(r *http.Request, q *request, rec *Record, tx store.Attempt, claimedAt time.Time) *Attempt {
	t := rec.Ticket
	a := &Attempt{m: m, route: q.route, req: q, ticket: t, tx: tx,
		attempts: rec.Attempts, timed: rec.Timed, begun: time.Now(), ends: rec.Ends, now: rec.Now}
	if a.route.Recovery == Resume {
		a.steps = &steps{segments: tx, progress: progress{committed: rec.Attempts > 1}}
		if rec.Attempts == 1 {
			a.steps.opened = a.begun
		}
		a.outOfTime = a.route.outOfTime(rec)
	}
	a.inside.Context = q.values
	a.inside.Core, a.inside.Operation, a.inside.Calls.Command = a, t.ID, attemptctx.Command(q.hash)
	// An earlier attempt may have called and not committed, which leaves no trace. So every call counts as possibly made
	// before.
	a.inside.Calls.Origin, a.inside.Calls.Again, a.inside.Calls.Life = t.ID, t.Fence > 1 || tx != nil, &a.ctx
	a.ctx.values, a.ctx.deadline, a.ctx.late = &a.inside, claimedAt.Add(a.route.Deadline), errDeadline
	if earlier, ok := r.Context().Deadline(); ok && earlier.Before(a.ctx.deadline) {
		a.ctx.deadline = earlier
	}
	var opening func() error
	if a.steps != nil {
		a.inside.Calls.InSteps, opening = true, a.openSegment
	}
	if a.route.Recovery != Rollback {
		a.lease.init(a)
	}
	if a.steps == nil && tx == nil || a.attempts > 1 { // else the first segment is open
		a.lease.resume(claimedAt)
	}
	if tx != nil {
		a.stopDeadline = context.AfterFunc(&a.ctx, func() { _ = tx.Rollback() })
		a.request = r.WithContext(tx.Bind(&a.ctx, opening))
	} else {
		a.request = r.WithContext(&a.ctx)
	}
	claimed := q.timed(EventClaimed)
	a.observe(Event{Kind: EventClaimed, Claim: claimed.Claim, Waiting: claimed.Waiting})
	return a
}

// Request is the request for the handler: its context is the attempt's.
func (a *Attempt) Request() *http.Request { return a.request }

// Capture returns the writer for the handler. It holds the answer back; the reply goes to w later.
func (a *Attempt) Capture(w http.ResponseWriter) *Capture {
	served := a.servedUntil()
	a.capture = Capture{
		attempt: a, outer: w, header: w.Header().Clone(), limit: int(a.route.MaxAnswer), latest: sooner(served, a.ctx.deadline),
		canStream: a.route.Recovery != Rollback, flushable: a.route.Streaming,
		keyName: a.m.cfg.Header, key: a.req.echo,
	}
	c := &a.capture
	c.attempt, c.foreign = a, misspelled(c.header)
	if a.steps != nil {
		c.durable = a.makeDurable
	}
	if c.canStream && a.request.ProtoAtLeast(1, 1) { // an answer of HTTP/1.0 ends where its connection ends
		c.breaker = deadlinerOf(w)
	}
	if c.latest.Equal(a.ctx.deadline) {
		c.until = c.latest
	}
	return c
}

// servedUntil is when the server ends the answer by its WriteTimeout, at the latest; zero if it has none.
func (a *Attempt) servedUntil() time.Time {
	if timeout := writeTimeout(a.request); timeout > 0 {
		return a.begun.Add(timeout)
	}
	return time.Time{}
}

// Finish ends the attempt after its handler has returned: the answer is recorded, and only then returned to be sent
// . A nil reply means that nothing is left to send: the answer has been streamed, and is broken off if it was not
// recorded. If outer middleware renders the handler's error, the reply has only a status, so that the client sees no success
// if there is no such middleware.
func (a *Attempt) Finish() *Reply {
	reply := a.end(false)
	if a.capture.streaming {
		return nil
	}
	reply.keyName, reply.key = a.m.cfg.Header, a.req.echo
	reply.within, reply.ends = a.route.Deadline, a.capture.ends
	return reply
}

// Panicked ends the attempt after its handler has panicked; the adapter then lets the panic continue. If the outcome is
// unknown, Panicked says so in h, the headers that the recovery middleware will send, and with Retry-After if a repeat
// continues the operation (C-2, X-3).
func (a *Attempt) Panicked(h http.Header) {
	reply := a.end(true)
	unknown := reply.says(wire.ResultUnknown) || a.steps != nil && a.steps.hasCommitted() // another attempt may have answered
	if !unknown || a.capture.streaming {
		return
	}
	h[a.m.cfg.Header] = a.req.echo
	h[wire.HeaderResult] = resultUnknown
	if a.steps != nil && reply.problem != CodeOutcomeUnknown && reply.problem != CodeStepsChanged {
		h["Retry-After"] = []string{inSeconds(a.pauseAhead())}
	}
}

func (a *Attempt) end(panicked bool) *Reply {
	defer traceEnd(a.req.values, a.m.tracer)
	defer a.ctx.cancel(context.Canceled)
	defer func() {
		if a.wakes {
			a.m.wakeRun()
		}
	}()
	// A goroutine that the handler has left behind may still have the capture. By then the framework may use the writer for
	// another request, and the capture would send this answer there.
	defer func() { a.capture.outer = discard{} }()
	a.worked, a.panicked = time.Since(a.begun), panicked
	a.inside.Calls.End()
	c := &a.capture
	if p := a.incomplete(); p != nil && !panicked {
		a.code, panicked = p.Code, true // it ends like one
		c.replace(a.refuse(p))
	}
	if c.unread != nil {
		a.observe(Event{Kind: EventOverdue, Status: c.finalStatus(),
			Err: fmt.Errorf("idem: the client did not read its answer: %w", c.unread)})
	}
	if panicked {
		c.breakOff()
	}
	c.overflow = c.overflow || !panicked && !c.streaming && a.m.headersOverflow(c)
	var taken progress
	if a.steps != nil {
		taken = a.steps.finish()
	}
	e := ending{
		recovery: a.route.Recovery, status: c.finalStatus(), panicked: panicked, unrendered: c.unrendered,
		notApplied: a.inside.NotApplied.Load(), committed: taken.committed, keepRows: a.inside.KeepRows.Load(),
		failed: a.inside.Failed.Load(), cut: a.cutShort() != nil, unfinished: taken.unfinished, lost: taken.lost != nil,
		relayed: c.relaysUnfinished(),
	}
	a.status = e.status
	v := judge(e)
	if v == failReplaced {
		c.breakOff()
	}
	if e.notApplied && v != free {
		a.observe(Event{Kind: EventNotAppliedRefused, Status: e.status})
	}
	var reply *Reply
	switch {
	case a.steps != nil:
		reply = a.endResume(v, taken, a.stopDeadline())
	case a.tx != nil:
		taken.lost = a.cutShort()
		reply = a.endTransaction(v, a.stopDeadline(), taken)
	default:
		reply = a.endPark(v)
	}
	if v <= recordAlone && !reply.says(wire.ResultCreated) { // what was streamed is not the answer that a repeat gets
		c.breakOff()
	}
	return reply
}

// ended is how the attempts have ended, with this one, which leaves its operation open.
func (a *Attempt) ended() []byte {
	e := store.AttemptEnd{Fence: a.ticket.Fence, At: a.now.Add(time.Since(a.begun)), Code: string(a.code),
		Instance: a.ticket.Owner.Instance()}
	switch cause := context.Cause(&a.ctx); {
	case a.status == 0 && a.code == "":
		e.How = store.EndLimit
	case a.panicked:
		e.How = store.EndPanic
	case errors.Is(cause, errDeadline):
		e.How = store.EndDeadline
	case errors.Is(cause, ErrLeaseLost):
		e.How = store.EndLeaseLost
	default:
		e.How, e.Status = store.EndAnswered, a.status
	}
	return store.Record{Ticket: a.ticket, Attempts: a.attempts, Ends: a.ends}.WithEnd(e)
}

// cutShort is why a handler that has got less than it asked for has no answer; nil where it has not.
func (a *Attempt) cutShort() error {
	if cut := a.cut.Load(); cut != nil {
		return fmt.Errorf("%w: %w", ErrAborted, *cut)
	}
	return nil
}

// incomplete returns the problem if the handler has written less than it announced, if a part of what it wrote was
// refused, or if it has replaced its request by one without the attempt. Otherwise it returns nil.
func (a *Attempt) incomplete() (p *Problem) {
	switch {
	case a.capture.detached:
		p = NewProblem(CodeMisconfigured, "the handler replaced its request by one whose context is not derived from the "+
			"request's, and nothing was recorded; use context.WithoutCancel in place of context.Background")
	case a.capture.refused != nil:
		p = NewProblem(CodeAnswerIncomplete, "a write of the answer was refused, because what stands before it is not durable; "+
			"nothing was recorded") // Write has told the handler why
	case a.capture.brokeOff():
		p = NewProblem(CodeAnswerIncomplete, "the handler announced more bytes than it wrote; nothing was recorded")
	default:
		return nil
	}
	p.unknown = a.route.Recovery == Park
	return p
}

// bypassed is the answer in place of one that did not come from the capture. The attempt ends like one that has panicked.
func (a *Attempt) bypassed() *Reply {
	p := NewProblem(CodeMisconfigured, "an answer was written past the attempt, and it is not sent: a handler must not run "+
		"another chain that has a writer of its own, such as gin.Engine.HandleContext; call the other handler's function, "+
		"or redirect")
	p.unknown = a.mayHaveChanged()
	reply := a.refuse(p)
	reply.keyName, reply.key, reply.within = a.m.cfg.Header, a.req.echo, a.route.Deadline
	return reply
}

// mayHaveChanged reports whether nothing will undo what the attempt has done so far.
func (a *Attempt) mayHaveChanged() bool {
	return a.route.Recovery == Park || a.steps != nil && a.steps.hasCommitted()
}

func (a *Attempt) refuse(p *Problem) *Reply {
	if p.Operation == "" {
		p.Operation = a.ticket.ID.String()
	}
	a.observe(Event{Kind: EventRefused, Code: p.Code, Err: p.wiring()})
	return a.m.refuse(a.request, p)
}

func (a *Attempt) observe(e Event) {
	if a.m.cfg.Observer == nil {
		return
	}
	e.Operation, e.Method, e.Route = a.ticket.ID, a.request.Method, a.req.pattern
	e.Recovery, e.Fence = a.route.Recovery, a.ticket.Fence
	if e.Kind.EndsAttempt() {
		e.Attempt = time.Since(a.begun)
		e.Recording = e.Attempt - a.worked
	}
	a.m.observe(&a.ctx, e)
}

// confirmFor is how long the end of an attempt waits at most for the store to confirm it. The client waits as long.
const confirmFor = 10 * time.Second

// confirm repeats an idempotent write until the store has answered, for confirmFor at most: the work of a handler should
// not be lost because of one failed try. It ignores the end of the request's own context.
func (a *Attempt) confirm(write func(context.Context) error) error {
	return a.confirmIn(new(lazyContext), write)
}

// confirmIn is confirm with the memory for the context of the first try.
func (a *Attempt) confirmIn(call *lazyContext, write func(context.Context) error) error {
	now := time.Now()
	giveUp := now.Add(confirmFor)
	for pause := 20 * time.Millisecond; ; pause, call = min(2*pause, time.Second), new(lazyContext) {
		err := write(call.until(&a.inside, now.Add(a.m.cfg.ClaimTimeout)))
		call.cancel(context.Canceled)
		answered := err == nil || errors.Is(err, ErrStale) || errors.Is(err, ErrNotFound) || errors.Is(err, store.ErrEnded) ||
			errors.Is(err, store.ErrUnsealed)
		if answered || time.Now().Add(pause).After(giveUp) {
			return err
		}
		time.Sleep(pause)
		now = time.Now()
	}
}

// wakeRun lets Run look for half-done operations at once.
func (m *Module) wakeRun() {
	select {
	case m.wake <- struct{}{}:
	default: // it is awake
	}
}
