package core

import (
	"context"
	"errors"
	"fmt"

	"github.com/auth19/idem/core/store"
)

// endPark ends a Park attempt, and a Resume attempt that has come to its end.
func (a *Attempt) endPark(v verdict) *Reply {
	a.lease.stop()
	c := &a.capture
	reply := c.reply()
	switch v {
	case free:
		if err := a.conclude(new(lazyContext), store.Ending{State: store.Free}); err != nil {
			return a.told(err)
		}
		a.observe(Event{Kind: EventFreed, Status: reply.Status, Err: a.lease.ranOut()})
		return freed(reply)
	case fail:
		a.park()
		reply.result = resultUnknown
		return reply
	case failReplaced:
		a.park()
		return a.refuse(outcomeUnknown(a.ticket.ID))
	}
	answered := store.Ending{State: store.Completed, Answer: a.completion(v, a.m.recorded(c, reply))}
	err := a.conclude(&a.completing, answered)
	if a.withoutSeal(err, &answered.Answer.Answer) {
		err = a.conclude(new(lazyContext), answered)
	}
	if err != nil {
		return a.told(err)
	}
	a.observe(Event{Kind: EventCompleted, Status: reply.Status})
	reply.result = resultCreated
	return reply
}

// withoutSeal reports whether the store could not seal an answer. Then the status alone is left of it, to be recorded: what
// the handler has done stays, and nobody may read the rest.
func (a *Attempt) withoutSeal(err error, answer *Answer) bool {
	if !errors.Is(err, store.ErrUnsealed) || errors.Is(err, ErrRetryable) {
		return false
	}
	a.observe(Event{Kind: EventFailed, Status: answer.Status, Err: fmt.Errorf("of the answer the status alone is recorded, "+
		"and a repeat is told response_not_replayable: %w", err)})
	*answer = Answer{Status: answer.Status, Partial: true}
	return true
}

// conclude ends the record of the attempt, with the memory for the context of the first try.
func (a *Attempt) conclude(call *lazyContext, end store.Ending) error {
	return a.confirmIn(call, func(ctx context.Context) error { return a.m.cfg.Store.End(ctx, a.ticket, end) })
}

// park makes the operation unknown.
func (a *Attempt) park() {
	a.lease.stop()
	kind := EventUnknown
	switch err := a.conclude(new(lazyContext), store.Ending{State: store.Unknown, Ends: a.ended()}); {
	case errors.Is(err, ErrStale):
		kind = EventStale // it was settled meanwhile; a repeat gets the result
	case err != nil: // not stored: the end of the lease has the same effect later
		a.observe(Event{Kind: EventFailed, Err: err})
	}
	a.observe(Event{Kind: kind, Status: a.capture.finalStatus()})
}
