package txn

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/auth19/idem/core/store"
)

// slots divide a limited pool on PostgreSQL. An attempt or a claim needs a place before it asks the pool for a connection.
// Without places, many new attempts could take every connection, and the running attempts could not end.
type slots struct {
	line  *line         // three connections of four; segments behind a call may have half of the rest, too
	looks chan struct{} // of the other connections: a waiting attempt uses one to look whether its key is in use

	seconds atomic.Int32 // messages that wait for a place, beside the one of the attempt that they are processed in
}

// newSlots divides a pool of limit connections. A small one has one place for looks and segments.
func newSlots(limit int) *slots {
	free := max(1, limit/4)
	return &slots{line: newLine(limit-free, max(1, free/2)), looks: make(chan struct{}, max(1, free-free/2))}
}

// inLine bounds the wait for a place to three quarters of the claim's time. The last quarter is for the statement.
func inLine(ctx context.Context) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, end.Add(-time.Until(end)/4))
}

// lookAfter is how long an attempt waits for a place before it looks at the record. Short attempts get a place sooner, and
// looking would only slow them down: with 64 clients on 24 places, a sixth fewer requests were served when all looked.
const lookAfter = 100 * time.Millisecond

// EnterOrLook takes a place for an attempt. If it waits for longer than lookAfter, it looks at the record meanwhile, so that
// a repeat does not wait for the attempt that it repeats. It has the place unless it returns a record, Busy or an error.
func (d *Database) EnterOrLook(
	ctx context.Context, look func(context.Context) (store.Claimed, error),
) (store.Claimed, error) {
	if d.slots == nil {
		return store.Claimed{}, d.enterAttempt(ctx)
	}
	if d.slots.line.take() {
		return store.Claimed{}, nil
	}
	line, leave := inLine(ctx)
	defer leave()
	t, err := d.slots.line.join(line, false)
	if err != nil || t.has() {
		return store.Claimed{}, err
	}
	soon, stop := context.WithTimeout(line, lookAfter)
	defer stop()
	select {
	case <-t.given:
		return store.Claimed{}, t.wait(line)
	case <-soon.Done():
	}
	if !d.noLateClaims() { // a look would be one more that waits
		return store.Claimed{}, t.wait(line)
	}
	select {
	case <-t.given:
	case d.slots.looks <- struct{}{}:
		claimed, err := look(ctx)
		<-d.slots.looks
		if err != nil || IsThere(claimed) {
			_ = t.giveUp(nil)
			return claimed, err
		}
	case <-store.ClientOf(ctx).Done():
	case <-line.Done():
	}
	return store.Claimed{}, t.wait(line)
}

// IsThere reports whether a look found a record, or an attempt that is running.
func IsThere(c store.Claimed) bool { return c.Busy || c.Record.Stored != 0 }

// enterAttempt takes SQLite's writer, or a place, for a transaction with an app's statements.
func (d *Database) enterAttempt(ctx context.Context) error {
	if d.slots == nil {
		return d.Process.LockWriter(ctx)
	}
	return d.slots.line.enter(ctx, false)
}

// EnterSegment takes SQLite's writer, or a place, for a segment behind a call. The segment may use the reserve, so that it
// does not wait for new attempts: a provider has been paid.
func (d *Database) EnterSegment(ctx context.Context) (leave func(), err error) {
	if d.slots == nil {
		return d.LeaveAttempt, d.enterAttempt(ctx)
	}
	return d.LeaveAttempt, d.slots.line.enter(ctx, true)
}

// EnterMessage takes SQLite's writer, or a place, for a message with a transaction of its own. In a Resume attempt it may
// use the reserve, as a segment does, because the attempt may hold a place itself. If attempts hold all places, and a
// message of each waits for one, the last message gets an error: no place would become free.
func (d *Database) EnterMessage(ctx context.Context) (leave func(), err error) {
	if err := d.ownsWriter(ctx); err != nil {
		return nil, err
	}
	r := ReaderFrom(ctx)
	if r == nil {
		return d.LeaveAttempt, d.enterAttempt(ctx)
	}
	if d.slots != nil && r.Segments.HasOpen() {
		defer d.slots.seconds.Add(-1)
		if int(d.slots.seconds.Add(1)) >= d.slots.line.places+d.slots.line.reserve {
			return nil, &store.CrowdedError{Why: errAllWait}
		}
	}
	return d.EnterSegment(ctx)
}

var errAllWait = errors.New("all connections are held by attempts whose messages wait for one")

// LeaveAttempt gives back what enterAttempt took.
func (d *Database) LeaveAttempt() {
	if d.slots == nil {
		d.Process.UnlockWriter()
		return
	}
	d.slots.line.leave()
}

// EnterClaim takes a place for a claim without a transaction.
func (d *Database) EnterClaim(ctx context.Context) error {
	if d.slots == nil || d.slots.line.take() {
		return nil
	}
	line, leave := inLine(ctx)
	defer leave()
	return d.slots.line.enter(line, false)
}

// LeaveClaim gives back what EnterClaim took.
func (d *Database) LeaveClaim() {
	if d.slots != nil {
		d.slots.line.leave()
	}
}
