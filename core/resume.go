package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/auth19/idem/core/store"
)

// readSteps reads the steps of the attempts before, within the attempt's time: they may be many, or large. If they cannot be
// read the handler does not run, and the attempt counts: readSteps ends it, and returns its answer and the error.
func (a *Attempt) readSteps() (*Reply, error) {
	if a.steps == nil || a.attempts == 1 {
		return nil, nil
	}
	var err error
	a.steps.read = time.Now()
	if a.steps.recorded, err = a.m.cfg.Store.(store.Attempts).Steps(&a.ctx, a.ticket.ID); err == nil {
		err = unread(a.steps.recorded)
	}
	if err == nil {
		return nil, nil
	}
	defer a.ctx.cancel(context.Canceled)
	a.observe(Event{Kind: EventFailed, Err: err})
	if errors.Is(err, errStepLost) {
		return a.giveUp(), err
	}
	reply := a.yield(err, CodeStoreUnavailable, func() *Reply {
		p := a.m.unavailable(err)
		p.unknown, p.RetryAfter = true, a.pauseAhead()
		return a.refuse(p)
	})
	reply.keyName, reply.key = a.m.cfg.Header, a.req.echo
	return reply, err
}

// errStepLost: the handler cannot go on, here or elsewhere.
var errStepLost = errors.New("idem: the result of a step cannot be read any more; the operation is parked")

// unread returns an error if a step's result cannot be read.
func unread(steps []store.StepRecord) (err error) {
	for _, step := range steps {
		switch step.Unread {
		case store.Lost:
			return fmt.Errorf("step %q: %w", step.Name, errStepLost)
		case store.Unreadable:
			err = fmt.Errorf("step %q: %w", step.Name, store.ErrUnreadable)
		}
	}
	return err
}

// endResume ends a Resume attempt. As long as no segment has committed, it ends as a Rollback attempt. After that, the open
// segment of a failed attempt is undone, and the next repeat continues behind the last one that has committed. If the
// operation cannot continue, it is parked. The results of finished calls stay, whatever becomes of their segment.
func (a *Attempt) endResume(v verdict, steps progress, inTime bool) *Reply {
	a.watchSegment()
	switch {
	case errors.Is(steps.seal, ErrUnconfirmed), errors.Is(steps.seal, store.ErrEnded),
		steps.committed && errors.Is(steps.seal, store.ErrStatement):
		_ = a.tx.Rollback() // the handler may have read since
		_ = a.saveResults()
		return a.told(steps.seal)
	case !steps.committed:
		return a.endTransaction(v, inTime, steps)
	case v == record && !steps.unknown && !steps.changed && !steps.leftOut && (inTime || !a.steps.hasRows()):
		return a.complete(v)
	}
	err := a.tx.Rollback()
	_ = a.saveResults() // if another attempt has taken over, yield notices
	switch {
	case errors.Is(err, store.ErrEnded):
		return a.told(err)
	case steps.unknown:
		return a.giveUp()
	case steps.changed, v == record && steps.leftOut:
		return a.yield(ErrStepsChanged, CodeStepsChanged, func() *Reply {
			p := NewProblem(CodeStepsChanged, "the handler takes other steps than before; nothing was recorded")
			p.unknown = true // and no Retry-After: a repeat would only use the operation's attempts up
			return a.refuse(p)
		})
	case v == fail:
		return a.yield(steps.lost, "", func() *Reply { return a.notFinal() })
	case v == record:
		return a.yield(errDeadline, CodeCallUnfinished, a.callUnfinished)
	}
	return a.yield(cmp.Or(steps.lost, errCallUnfinished), CodeCallUnfinished, a.callUnfinished)
}

// complete seals the last segment with the answer.
func (a *Attempt) complete(v verdict) *Reply {
	a.lease.pause()
	reply := a.capture.reply()
	answer := a.completion(v, a.m.recorded(&a.capture, reply))
	seal := func(ctx context.Context) error {
		_, err := a.tx.Seal(ctx, store.Seal{Steps: a.steps.unsealed(), Answer: &answer})
		return err
	}
	send := func() error { return a.confirm(seal) } // it can be repeated
	if a.steps.hasRows() {
		ctx := new(lazyContext).until(&a.inside, time.Now().Add(confirmFor))
		defer ctx.cancel(context.Canceled)
		send = func() error { return seal(ctx) }
	}
	err := send()
	if a.withoutSeal(err, &answer.Answer) {
		err = send()
	}
	a.lease.stop()
	if err == nil {
		a.observe(Event{Kind: EventCompleted, Status: reply.Status})
		reply.result = resultCreated
		return reply
	}
	if !errors.Is(err, ErrStale) {
		_ = a.saveResults()
	}
	return a.told(err)
}

// saveResults makes the results of finished calls durable that are not yet, in a segment of their own.
func (a *Attempt) saveResults() error {
	results := a.steps.results()
	if len(results) == 0 {
		return nil
	}
	err := a.confirm(func(ctx context.Context) error {
		_, err := a.seal(ctx, store.Seal{Steps: results, Alone: true})
		return err
	})
	if err == nil {
		a.steps.saved()
	}
	return err
}

// makeDurable makes a segment of what stands before the bytes of a streaming answer.
func (a *Attempt) makeDurable() error {
	if !a.steps.mustSeal() {
		return nil
	}
	p, _ := stepContextOf(&a.inside)
	err := p.steps.mayCheckpoint()
	if err == nil {
		_, err = p.seal(nil)
	}
	if err != nil {
		return fmt.Errorf("idem: what the answer rests on is not durable, and no byte leaves before it: %w", err)
	}
	return nil
}

// openSegment is called before a segment opens behind the first seal.
func (a *Attempt) openSegment() error {
	if err := a.steps.open(); err != nil {
		return err
	}
	a.lease.pause()
	return nil
}

// watchSegment sends an event if the open segment was open for more than a third of its attempt's deadline: it holds locks
// and a connection, and what it has written can still be lost.
func (a *Attempt) watchSegment() {
	if open := a.steps.openFor(); open > a.route.Deadline/3 {
		a.observe(Event{Kind: EventLongSegment, Err: fmt.Errorf("idem: a segment was open for %v, more than a third of its "+
			"deadline; make a core.Checkpoint in between", open.Round(time.Millisecond))})
	}
}

var errCallUnfinished = errors.New("idem: the handler answered with a success, and a step has not finished")

// callUnfinished takes the place of a success that is not recorded.
func (a *Attempt) callUnfinished() *Reply {
	p := a.m.withRetry(NewProblem(CodeCallUnfinished, "the handler answered with a success, and a call of it has not "+
		"finished; nothing was recorded, and a repeat continues"))
	p.unknown, p.RetryAfter = true, a.pauseAhead()
	return a.refuse(p)
}

// notFinal is the handler's answer, or what outer middleware makes of its error, to an operation that continues. A client
// must not take it for the answer to its command, and pay with a new key (C-4, X-3). Retry-After tells a 5xx of an operation
// that a repeat continues from one whose outcome will never be known.
func (a *Attempt) notFinal() *Reply {
	reply := a.capture.reply()
	reply.result = resultUnknown
	pause := a.pauseAhead()
	if reply.Status >= http.StatusInternalServerError && (reply.Header["Retry-After"] == nil || pause > a.m.cfg.RetryAfter) {
		if reply.Header == nil { // of an error that outer middleware renders
			reply.Header = http.Header{}
		}
		reply.Header.Set("Retry-After", inSeconds(pause))
	}
	return reply
}

// pauseAhead is when a repeat helps: after the pause that follows this attempt.
func (a *Attempt) pauseAhead() time.Duration {
	ended := store.Record{Attempts: a.attempts}
	return max(a.m.cfg.RetryAfter, ended.NextAttempt(a.route.ResumePause).Sub(ended.LeaseUntil))
}

// yield ends the lease, so that the next repeat can continue at once, and returns the attempt's own reply. code is that of
// the problem in it, "" for the handler's answer. If the store does not answer, the lease runs out by itself. If another
// attempt has taken the operation over, yield returns what that attempt has recorded. After the last allowed attempt it
// parks the operation.
func (a *Attempt) yield(cause error, code Code, own func() *Reply) *Reply {
	a.code = cmp.Or(code, a.code)
	if a.attempts >= a.route.MaxAttempts {
		return a.giveUp()
	}
	err := a.lease.yield(a.ended())
	if errors.Is(err, ErrStale) {
		return a.told(err)
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
	reply.keyName, reply.key = a.m.cfg.Header, a.req.echo
	return reply
}
