package core

import (
	"context"
	"errors"
	"time"

	"github.com/auth19/idem/core/store"
)

// confirmFor is how long the end of an attempt waits at most for the store to confirm it. The client waits as long.
const confirmFor = 10 * time.Second

// confirm repeats an idempotent write until the store has answered, for confirmFor at most: the work of a handler should
// not be lost because of one failed try. It ignores the end of the request's own context.
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
		answered := err == nil || errors.Is(err, ErrStale) || errors.Is(err, ErrNotFound) || errors.Is(err, store.ErrEnded)
		if answered || time.Now().Add(pause).After(giveUp) {
			return err
		}
		time.Sleep(pause)
		now = time.Now()
	}
}

// notRecorded is the answer of an attempt that ran, but whose end was not recorded.
func (a *Attempt) notRecorded(err error) *Reply {
	if !errors.Is(err, ErrStale) {
		return a.unconfirmed(err)
	}
	a.observe(Event{Kind: EventStale, Status: a.capture.finalStatus()})
	ctx := new(bounded).until(&a.inside, time.Now().Add(a.m.cfg.ClaimTimeout))
	defer ctx.cancel(context.Canceled)
	if rec, err := a.m.cfg.Store.Find(ctx, a.ticket.ID); err == nil {
		// The key may have been freed and used for another command since then. So the record is not always this command's.
		switch problem := a.m.repeatProblem(ctx, a.admission, &store.Claimed{Record: rec}); {
		case problem == nil:
			return a.m.replay(a.request, a.admission, &rec)
		case problem.Code == CodeResponseNotReplayable, problem.Code == CodeInFlight && a.steps != nil:
			return a.refuse(problem) // another attempt has taken the Resume operation over
		}
	}
	return a.refuse(outcomeUnknown(a.ticket.ID))
}

// unconfirmed is the answer when it is not known yet whether the end of the attempt was recorded.
func (a *Attempt) unconfirmed(err error) *Reply {
	a.observe(Event{Kind: EventUnconfirmed, Err: err})
	problem := a.m.withRetry(NewProblem(CodeCommitUnconfirmed, "the outcome could not be confirmed yet; repeat with the "+
		"same key to learn it"))
	problem.Operation, problem.unknown = a.ticket.ID.String(), true
	return a.refuse(problem)
}
