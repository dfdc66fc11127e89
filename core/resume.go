package core

import (
	"context"
	"errors"
	"net/http"
)

// stepsOf begins the sequence of a Resume attempt, with the steps of the attempts before it. A first attempt has none,
// and does not ask the store.
func (m *Module) stepsOf(ctx context.Context, rec Record) (*steps, error) {
	s := &steps{}
	if rec.Fence == 1 {
		return s, nil
	}
	var err error
	s.recorded, err = m.cfg.Store.(Stepper).Steps(ctx, rec.ID) // New has refused any other store
	return s, err
}

// endResume ends a Resume attempt. If the attempt has failed, the next repeat continues after the last finished step. If
// the operation cannot continue, it is parked.
func (a *Attempt) endResume(v verdict, e ending, steps course) *Reply {
	switch {
	case steps.unknown:
		return a.giveUp()
	case v == free:
		return a.endPark(v) // judge has considered the steps
	case steps.changed, v == record && steps.leftOut:
		return a.yield(ErrStepsChanged, func() *Reply {
			return a.refuse(NewProblem(CodeStepsChanged, "the handler takes other steps than before; nothing was recorded"))
		})
	case v == withhold:
		return a.yield(errCallUnfinished, a.callUnfinished)
	case v == fail:
		return a.yield(nil, func() *Reply { return a.notFinal(e) })
	}
	return a.endPark(v)
}

var errCallUnfinished = errors.New("idem: the handler answered with a success, and a step has not finished")

// callUnfinished takes the place of a success that is not recorded.
func (a *Attempt) callUnfinished() *Reply {
	p := a.m.withRetry(NewProblem(CodeCallUnfinished, "the handler answered with a success, and a call of it has not "+
		"finished; nothing was recorded, and a repeat continues"))
	p.unknown = true
	return a.refuse(p)
}

// notFinal is the handler's answer, or what outer middleware makes of its error, to an operation that continues. A client
// must not take it for the answer to its command, and pay with a new key (C-4). Where the
// steps show that nothing was applied, a 5xx, or a panic, needs no word of it. Retry-After tells a 5xx of an operation
// that a repeat continues from one whose outcome nobody will know.
func (a *Attempt) notFinal(e ending) *Reply {
	reply := a.capture.reply()
	if !e.applied && !e.unrendered && (e.panicked || e.status >= http.StatusInternalServerError) {
		return reply
	}
	reply.result = resultUnknown
	if reply.Status >= http.StatusInternalServerError && reply.Header != nil && reply.Header["Retry-After"] == nil {
		reply.Header.Set("Retry-After", inSeconds(a.m.cfg.RetryAfter))
	}
	return reply
}

// yield ends the lease, so that the next repeat can continue at once, and returns the attempt's own reply. If the store
// does not answer, the lease runs out by itself. If another attempt has taken the operation over, yield returns what that
// attempt has recorded. After the last allowed attempt it parks the operation.
func (a *Attempt) yield(cause error, own func() *Reply) *Reply {
	if a.attempts >= a.route.MaxAttempts {
		return a.giveUp()
	}
	err := a.lease.yield()
	if errors.Is(err, ErrStale) {
		return a.notRecorded(err)
	}
	a.observe(Event{Kind: EventYielded, Status: a.capture.finalStatus(), Err: errors.Join(cause, err)})
	return own()
}

// isOneTooMany reports whether the operation had used up its attempts or its time before this attempt.
func (a *Attempt) isOneTooMany() bool {
	return a.steps != nil && (a.attempts > a.route.MaxAttempts || a.outOfTime)
}

// isSpent reports whether the next attempt of a Resume operation would be one too many.
func (p *Policy) isSpent(rec *Record) bool { return rec.Attempts >= p.MaxAttempts || p.outOfTime(rec) }

// outOfTime reports whether ResumeFor is over, by the store's clock.
func (p *Policy) outOfTime(rec *Record) bool { return !rec.Now.Before(rec.CreatedAt.Add(p.ResumeFor)) }

// giveUp parks the operation: a reconciler or an operator settles it.
func (a *Attempt) giveUp() *Reply {
	defer a.ctx.cancel(context.Canceled)
	a.park()
	reply := a.refuse(outcomeUnknown(a.ticket.ID))
	reply.keyName, reply.key = a.m.cfg.Header, a.admission.echo
	return reply
}
