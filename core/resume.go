package core

import (
	"context"
	"errors"
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
func (a *Attempt) endResume(v verdict, steps course) *Reply {
	switch {
	case steps.unknown:
		return a.giveUp()
	case v == free:
		return a.endPark(v) // judge has considered the steps
	case steps.changed, v != fail && steps.leftOut:
		return a.yield(ErrStepsChanged, func() *Reply {
			return a.refuse(NewProblem(CodeStepsChanged, "the handler takes other steps than before; nothing was recorded"))
		})
	case v == fail && !a.capture.unrendered:
		return a.yield(nil, a.capture.reply)
	case v == fail, a.capture.finalStatus() >= 400 && steps.unfinished: // the step may have taken effect
		return a.yield(nil, a.notFinal)
	}
	return a.endPark(v)
}

// notFinal is the handler's answer, or what outer middleware makes of its error, to an operation that continues. A client
// must not take it for the answer to its command, and pay with a new key (C-4).
func (a *Attempt) notFinal() *Reply {
	reply := a.capture.reply()
	reply.result = resultUnknown
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
