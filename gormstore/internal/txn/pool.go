package txn

import (
	"context"
	"fmt"
	"time"

	"github.com/auth19/idem/core/store"
)

// slots divide a limited pool on PostgreSQL. An attempt or a claim needs a slot before it asks the pool for a connection.
// Without slots, many new attempts could take every connection, and the running attempts could not end. Slots are given
// in the order of the requests.
type slots struct {
	attempts chan struct{} // for transactions with an app's statements in them: three connections of four
	claims   chan struct{} // for claims without a transaction, which are short; the same number
	looks    chan struct{} // of the other connections: a waiting attempt uses one to look whether its key is in use
	segments chan struct{} // half of those, for segments behind a call; a small pool has one place for both
}

// newSlots divides a pool of limit connections.
func newSlots(limit int) *slots {
	free := max(1, limit/4)
	s := &slots{attempts: make(chan struct{}, limit-free), claims: make(chan struct{}, limit-free),
		looks: make(chan struct{}, free-free/2), segments: make(chan struct{}, free/2)}
	if free == 1 {
		s.segments = s.looks
	}
	return s
}

// enter takes a slot. If it fails, nothing was sent.
func enter(ctx context.Context, slot chan struct{}) error {
	select {
	case slot <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: all connections for attempts are taken: %w", store.ErrCrowded, ctx.Err())
	}
}

// inLine bounds the wait for a slot to three quarters of the claim's time. The last quarter is for the statement: a
// statement whose context ends loses its connection.
func inLine(ctx context.Context) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, end.Add(-time.Until(end)/4))
}

// lookAfter is how long an attempt waits for a slot before it looks at the record. Short attempts get a slot sooner, and
// looking would only slow them down: with 64 clients on 24 slots, a sixth fewer requests were served when all looked.
const lookAfter = 100 * time.Millisecond

// EnterOrLook takes a slot for an attempt. If it waits for longer than lookAfter, it looks at the record meanwhile, so that
// a repeat does not wait for the attempt that it repeats. It has the slot unless it returns a record, Busy or an error.
func (d *Database) EnterOrLook(
	ctx context.Context, look func(context.Context) (store.Claimed, error),
) (store.Claimed, error) {
	if d.slots == nil {
		return store.Claimed{}, d.enterAttempt(ctx)
	}
	select {
	case d.slots.attempts <- struct{}{}:
		return store.Claimed{}, nil
	default:
	}
	line, leave := inLine(ctx)
	defer leave()
	soon, stop := context.WithTimeout(line, lookAfter)
	defer stop()
	if enter(soon, d.slots.attempts) == nil {
		return store.Claimed{}, nil
	}
	select {
	case d.slots.attempts <- struct{}{}:
		return store.Claimed{}, nil
	case d.slots.looks <- struct{}{}:
		claimed, err := look(ctx)
		<-d.slots.looks
		if err != nil || IsThere(claimed) {
			return claimed, err
		}
	case <-line.Done():
	}
	return store.Claimed{}, enter(line, d.slots.attempts)
}

// IsThere reports whether a look found a record, or an attempt that is running.
func IsThere(c store.Claimed) bool { return c.Busy || c.Record.Stored != 0 }

// enterAttempt takes SQLite's writer, or a slot, for a transaction with an app's statements.
func (d *Database) enterAttempt(ctx context.Context) error {
	if d.File != nil {
		return d.File.lockWriter(ctx)
	}
	if d.slots == nil {
		return nil
	}
	return enter(ctx, d.slots.attempts)
}

// EnterSegment takes SQLite's writer, or a slot, for a segment behind a call. What a provider has been paid for does not
// wait for new attempts.
func (d *Database) EnterSegment(ctx context.Context) (leave func(), err error) {
	if d.slots == nil {
		return d.LeaveAttempt, d.enterAttempt(ctx)
	}
	select {
	case d.slots.segments <- struct{}{}:
		return func() { <-d.slots.segments }, nil
	case d.slots.attempts <- struct{}{}:
		return d.LeaveAttempt, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: all connections for attempts are taken: %w", store.ErrCrowded, ctx.Err())
	}
}

// EnterMessage takes SQLite's writer, or a slot, for a message with a transaction of its own. In a Resume attempt it may
// also take a slot for segments: the attempt's own segment may hold one of the others, and so may attempts that do the same.
func (d *Database) EnterMessage(ctx context.Context) (leave func(), err error) {
	if err := d.ownsWriter(ctx); err != nil {
		return nil, err
	}
	if ReaderFrom(ctx) != nil {
		return d.EnterSegment(ctx)
	}
	return d.LeaveAttempt, d.enterAttempt(ctx)
}

// LeaveAttempt gives back what enterAttempt took.
func (d *Database) LeaveAttempt() {
	if d.slots != nil {
		<-d.slots.attempts
	}
	if d.File != nil {
		d.File.unlockWriter()
	}
}

// EnterClaim takes a slot for a claim without a transaction.
func (d *Database) EnterClaim(ctx context.Context) error {
	if d.slots == nil {
		return nil
	}
	select {
	case d.slots.claims <- struct{}{}:
		return nil
	default:
	}
	line, leave := inLine(ctx)
	defer leave()
	return enter(line, d.slots.claims)
}

// LeaveClaim gives back what EnterClaim took.
func (d *Database) LeaveClaim() {
	if d.slots != nil {
		<-d.slots.claims
	}
}
