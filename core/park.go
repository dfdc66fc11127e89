package core

import (
	"context"
	"errors"
)

// endPark ends a Park attempt, and a Resume attempt that has come to its end.
func (a *Attempt) endPark(v verdict) *Reply {
	a.lease.stop()
	c, store := &a.capture, a.m.cfg.Store
	reply := c.reply()
	switch v {
	case free:
		if err := a.confirm(func(ctx context.Context) error { return store.Release(ctx, a.ticket) }); err != nil {
			return a.notRecorded(err)
		}
		a.observe(Event{Kind: EventFreed, Status: reply.Status, Err: a.lease.ranOut()})
		return freed(reply)
	case fail:
		a.park()
		reply.result = resultUnknown
		return reply
	case withhold:
		a.park()
		return a.refuse(outcomeUnknown(a.ticket.ID))
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
		kind = EventStale // it was settled meanwhile; a repeat gets the result
	case err != nil: // not stored: the end of the lease has the same effect later
		a.observe(Event{Kind: EventFailed, Err: err})
	}
	a.observe(Event{Kind: kind, Status: a.capture.finalStatus()})
}
