package core

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/auth19/idem/core/internal/attemptctx"
)

// Attempt is one execution of a handler. An adapter runs the handler with Request and into Capture, and ends it with
// exactly one of Finish, Panicked and Abandon, in the request's goroutine.
type Attempt struct {
	m         *Module
	route     *route
	admission *admission
	request   *http.Request
	ticket    Ticket
	capture   Capture

	ctx    bounded         // the handler's
	inside attemptctx.View // what ctx says of the attempt
	lease  lease           // Park and Resume
	tx     Tx              // Rollback: the transaction is the lease
	steps  *steps          // Resume

	// What is kept of the record as it was claimed: all of it would be a third of an attempt.
	attempts  int  // with this one
	outOfTime bool // Resume: the operation was out of time
	timed     bool // the key is a timed one

	completing   bounded     // of the call that records the answer, if there is no transaction
	stopDeadline func() bool // Rollback: false when the deadline has rolled back already
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

// newAttempt gives the handler its context: with the request's values and without the client's cancellation, with an
// earlier deadline of the request, bounded by the attempt's own.
func (m *Module) newAttempt(r *http.Request, adm *admission, rec *Record, won winnings, claimedAt time.Time) *Attempt {
	tx, t := won.tx, rec.Ticket
	a := &Attempt{m: m, route: adm.route, admission: adm, ticket: t, tx: tx, steps: won.steps,
		attempts: rec.Attempts, timed: rec.Timed}
	a.outOfTime = a.steps != nil && a.route.outOfTime(rec)
	a.inside.Context = adm.values
	a.inside.Core, a.inside.Operation, a.inside.Command = a, t.ID, attemptctx.Command(adm.hash)
	// What a Rollback attempt was before is not to be seen: its record was rolled back with it.
	a.inside.Calls.Origin, a.inside.Calls.Again, a.inside.Calls.Life = t.ID, t.Fence > 1 || tx != nil, &a.ctx
	a.ctx.values, a.ctx.deadline, a.ctx.late = &a.inside, claimedAt.Add(a.route.Deadline), errDeadline
	if earlier, ok := r.Context().Deadline(); ok && earlier.Before(a.ctx.deadline) {
		a.ctx.deadline = earlier
	}
	if tx != nil {
		a.stopDeadline = context.AfterFunc(&a.ctx, func() { _ = tx.Rollback() })
		a.request = r.WithContext(tx.Bind(&a.ctx))
	} else {
		a.request = r.WithContext(&a.ctx)
		a.lease.start(a, claimedAt)
	}
	a.observe(Event{Kind: EventClaimed})
	return a
}

// Request is the request for the handler: its context is the attempt's.
func (a *Attempt) Request() *http.Request { return a.request }

// Capture takes the handler's answer in place of w, the writer that the reply will go to.
func (a *Attempt) Capture(w http.ResponseWriter) *Capture {
	header := w.Header().Clone()
	if header == nil {
		header = make(http.Header, 4)
	}
	a.capture = Capture{
		outer: w, header: header, limit: int(a.route.MaxAnswer),
		canStream: a.route.Recovery != Rollback, flushable: a.route.Streaming,
		keyName: a.m.cfg.Header, key: a.admission.echo,
	}
	return &a.capture
}

// Finish ends the attempt after its handler has returned: the answer is recorded, and only then returned to be sent
// . A nil reply means that nothing is left to send: the answer has been streamed. If outer middleware renders the
// handler's error, the reply has only a status, so that the client sees no success if there is no such middleware.
func (a *Attempt) Finish() *Reply {
	reply := a.end(false)
	if reply == nil || a.capture.streaming {
		return nil
	}
	reply.keyName, reply.key = a.m.cfg.Header, a.admission.echo
	return reply
}

// Panicked ends the attempt after its handler has panicked; the adapter lets the panic go on. If the outcome is unknown, it
// says so in h, the headers that the recovery middleware will send (C-2).
func (a *Attempt) Panicked(h http.Header) {
	if reply := a.end(true); reply != nil && reply.result != nil && !a.capture.streaming {
		h[a.m.cfg.Header] = a.admission.echo
		h[HeaderResult] = reply.result
	}
}

func (a *Attempt) end(panicked bool) *Reply {
	defer a.ctx.cancel(context.Canceled)
	a.inside.Calls.End()
	c := &a.capture
	if !panicked && c.brokeOff() {
		panicked = true // it ends like one
		c.replace(a.refuse(a.incomplete()))
	}
	if panicked {
		c.breakOff()
	}
	c.overflow = c.overflow || !panicked && !c.streaming && a.m.headersOverflow(c)
	var taken course
	if a.steps != nil {
		taken = a.steps.close()
	}
	e := ending{
		recovery: a.route.Recovery, status: c.finalStatus(), panicked: panicked, unrendered: c.unrendered,
		notApplied: a.inside.NotApplied.Load(), applied: taken.applied, keepRows: a.inside.KeepRows.Load(),
	}
	v := judge(e)
	if e.notApplied && v != free {
		a.observe(Event{Kind: EventNotAppliedRefused, Status: e.status})
	}
	switch {
	case a.tx != nil:
		return a.endTransaction(v)
	case a.steps != nil:
		return a.endResume(v, taken)
	}
	return a.endPark(v)
}

// incomplete is the problem of a handler that has written less than it announced.
func (a *Attempt) incomplete() *Problem {
	p := NewProblem(CodeAnswerIncomplete, "the handler announced more bytes than it wrote; nothing was recorded")
	p.unknown = a.route.Recovery == Park
	return p
}

// endTransaction ends a Rollback attempt.
func (a *Attempt) endTransaction(v verdict) *Reply {
	c := &a.capture
	inTime := a.stopDeadline()
	if !inTime || c.overflow || v == free || v == fail {
		err := a.tx.Rollback()
		if errors.Is(err, ErrEnded) {
			return a.endedByHandler(err)
		}
		a.observe(Event{Kind: EventRolledBack, Status: c.finalStatus(), Err: err})
		if !inTime {
			a.observe(Event{Kind: EventOverdue, Status: c.finalStatus()})
		}
		switch {
		case errors.Is(err, ErrRetryable):
			return a.refuse(a.m.withRetry(NewProblem(CodeRolledBack, "a conflict in the database; nothing was applied")))
		case c.overflow: // of a failure too: only a part of it is left
			return a.refuse(NewProblem(CodeAnswerTooLarge, "the answer is above the cap of this route; nothing was applied"))
		case v == free || v == fail:
			return c.reply()
		default:
			return a.refuse(a.m.withRetry(NewProblem(CodeRolledBack, "the deadline has passed; nothing was applied")))
		}
	}

	reply := c.reply()
	ctx := new(bounded).until(&a.inside, time.Now().Add(confirmFor))
	defer ctx.cancel(context.Canceled)
	err := a.tx.Commit(ctx, a.completion(v, a.m.recorded(c, reply)), v == recordAlone)
	switch {
	case err == nil:
		a.observe(Event{Kind: EventCompleted, Status: reply.Status})
		a.watchTransaction(reply.Status)
		reply.result = resultCreated
		return reply
	case errors.Is(err, ErrEnded):
		return a.endedByHandler(err)
	case errors.Is(err, ErrRetryable):
		a.observe(Event{Kind: EventRolledBack, Err: err})
		return a.refuse(a.m.withRetry(NewProblem(CodeRolledBack, "a conflict in the database; nothing was applied")))
	case errors.Is(err, ErrAborted):
		a.observe(Event{Kind: EventRolledBack, Err: err})
		return a.refuse(NewProblem(CodeTransactionAborted, "a statement of the transaction had failed; nothing was applied"))
	default:
		return a.unconfirmed(err)
	}
}

// endedByHandler is the answer where the handler has ended its transaction itself, so that some of its rows may stay.
func (a *Attempt) endedByHandler(err error) *Reply {
	a.observe(Event{Kind: EventUnknown, Status: a.capture.finalStatus(), Err: err})
	return a.refuse(outcomeUnknown(a.ticket.ID))
}

// watchTransaction tells of a success that has never asked for its transaction: what it has written is somewhere else,
// and the next attempt after a crash writes it again.
func (a *Attempt) watchTransaction(status int) {
	tx, ok := a.tx.(AskedTx)
	if !ok || tx.Asked() || status >= 400 {
		return
	}
	count, _ := a.m.unasked.LoadOrStore(routeKey{a.request.Method, a.admission.pattern}, new(atomic.Int64))
	a.observe(Event{Kind: EventTransactionUnused, Status: status, Count: int(count.(*atomic.Int64).Add(1))})
}

// endPark ends an attempt that has no transaction around it.
func (a *Attempt) endPark(v verdict) *Reply {
	a.lease.stop()
	c, store := &a.capture, a.m.cfg.Store
	reply := c.reply()
	switch v {
	case free:
		if err := a.confirm(func(ctx context.Context) error { return store.Release(ctx, a.ticket) }); err != nil {
			return a.notRecorded(err)
		}
		a.observe(Event{Kind: EventFreed, Status: reply.Status})
		return reply
	case fail:
		a.park()
		reply.result = resultUnknown
		return reply
	}
	completion := a.completion(v, a.m.recorded(c, reply))
	complete := func(ctx context.Context) error { return store.Complete(ctx, a.ticket, completion) }
	if err := a.confirmIn(&a.completing, complete); err != nil {
		return a.notRecorded(err)
	}
	a.observe(Event{Kind: EventCompleted, Status: reply.Status})
	reply.result = resultCreated
	return reply
}

// park makes the operation unknown.
func (a *Attempt) park() {
	a.lease.stop()
	kind := EventUnknown
	switch err := a.confirm(func(ctx context.Context) error { return a.m.cfg.Store.Park(ctx, a.ticket) }); {
	case errors.Is(err, ErrStale):
		kind = EventStale // settled meanwhile, a repeat gets to know how
	case err != nil: // the lease running out says the same, later
		a.observe(Event{Kind: EventFailed, Err: err})
	}
	a.observe(Event{Kind: kind, Status: a.capture.finalStatus()})
}

// confirmFor bounds how long the end of an attempt waits for the store to confirm it. The client waits as long.
const confirmFor = 10 * time.Second

// confirm repeats an idempotent write until the store has answered it, for confirmFor at most: a handler that has
// worked is worth more than one try. The request's own context does not matter any more.
func (a *Attempt) confirm(write func(context.Context) error) error {
	return a.confirmIn(new(bounded), write)
}

// confirmIn is confirm with the memory for the context of the first try.
func (a *Attempt) confirmIn(call *bounded, write func(context.Context) error) error {
	now := time.Now()
	giveUp := now.Add(confirmFor)
	for pause := 20 * time.Millisecond; ; pause, call = min(2*pause, time.Second), new(bounded) {
		err := write(call.until(&a.inside, now.Add(a.m.cfg.ClaimTimeout)))
		call.cancel(context.Canceled)
		answered := err == nil || errors.Is(err, ErrStale) || errors.Is(err, ErrNotFound) || errors.Is(err, ErrStepsChanged)
		if answered || time.Now().Add(pause).After(giveUp) {
			return err
		}
		time.Sleep(pause)
		now = time.Now()
	}
}

// notRecorded is the answer of an attempt that ran and whose end the store did not take.
func (a *Attempt) notRecorded(err error) *Reply {
	if !errors.Is(err, ErrStale) {
		return a.unconfirmed(err)
	}
	a.observe(Event{Kind: EventStale, Status: a.capture.finalStatus()})
	ctx := new(bounded).until(&a.inside, time.Now().Add(a.m.cfg.ClaimTimeout))
	defer ctx.cancel(context.Canceled)
	if rec, err := a.m.cfg.Store.Find(ctx, a.ticket.ID); err == nil {
		// The key may have been freed and used for another command since: what is there now is not always ours.
		switch problem := a.m.repeatProblem(ctx, a.admission, Claimed{Record: rec}); {
		case problem == nil:
			return a.m.replay(a.request, a.admission, rec)
		case problem.Code == CodeResponseNotReplayable, problem.Code == CodeInFlight && a.steps != nil:
			return a.refuse(problem) // a Resume attempt that was overtaken is going on elsewhere
		}
	}
	return a.refuse(outcomeUnknown(a.ticket.ID))
}

// unconfirmed is the answer when nobody can say yet whether the end of the attempt was recorded.
func (a *Attempt) unconfirmed(err error) *Reply {
	a.observe(Event{Kind: EventUnconfirmed, Err: err})
	problem := a.m.withRetry(NewProblem(CodeCommitUnconfirmed, "the outcome could not be confirmed yet; repeat with the "+
		"same key to learn it"))
	problem.Operation, problem.unknown = a.ticket.ID.String(), true
	return a.refuse(problem)
}

func (a *Attempt) refuse(p *Problem) *Reply {
	if p.Operation == "" {
		p.Operation = a.ticket.ID.String()
	}
	a.observe(Event{Kind: EventRefused, Code: p.Code})
	return a.m.refuse(a.request, p)
}

func (a *Attempt) observe(e Event) {
	e.Operation, e.Method, e.Route = a.ticket.ID, a.request.Method, a.admission.pattern
	e.Recovery, e.Fence = a.route.Recovery, a.ticket.Fence
	a.m.observe(&a.ctx, e)
}
