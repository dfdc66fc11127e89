package gormstore

import (
	"context"
	"fmt"
	"time"

	"github.com/auth19/idem/core"
)

// slots divide a limited pool on PostgreSQL, so that a crowd waits outside of it. Who waits for a connection waits
// beside everybody else who does, and the crowd of those who want to begin would leave none to those who want to end.
// A place is had in the order of asking.
type slots struct {
	attempts chan struct{} // for transactions with an app's statements in them: three connections of four
	claims   chan struct{} // for claims without a transaction, as many: they are short
	looks    chan struct{} // for looks of those who wait among the attempts: the connections that are left
}

// newSlots divides a pool of limit connections.
func newSlots(limit int) *slots {
	free := max(1, limit/4)
	return &slots{attempts: make(chan struct{}, limit-free), claims: make(chan struct{}, limit-free),
		looks: make(chan struct{}, free)}
}

// enter takes a place. Where it fails, nothing has been sent.
func enter(ctx context.Context, place chan struct{}) error {
	select {
	case place <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: all connections for attempts are taken: %w", core.ErrCrowded, ctx.Err())
	}
}

// inLine bounds the wait for a place to three quarters of a claim's time. The last quarter is for the statement: one that
// is cut by its context costs its connection, and the next in line would find none.
func inLine(ctx context.Context) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, end.Add(-time.Until(end)/4))
}

// lookAfter is how long an attempt waits for a place before it looks. A crowd of short attempts moves faster than that,
// and would only be held up: where all 64 clients of 24 places looked, a sixth fewer of them came through.
const lookAfter = 100 * time.Millisecond

// enterOrLook takes a place for an attempt. Where none gets free, it looks meanwhile: a repeat does not wait for the
// attempt that it repeats. It has a place unless it found something.
func (s *Store) enterOrLook(ctx context.Context, c core.Claim) (core.Claimed, error) {
	if s.slots == nil {
		return core.Claimed{}, s.enterAttempt(ctx)
	}
	select {
	case s.slots.attempts <- struct{}{}:
		return core.Claimed{}, nil
	default:
	}
	line, leave := inLine(ctx)
	defer leave()
	soon, stop := context.WithTimeout(line, lookAfter)
	defer stop()
	if enter(soon, s.slots.attempts) == nil {
		return core.Claimed{}, nil
	}
	select {
	case s.slots.attempts <- struct{}{}:
		return core.Claimed{}, nil
	case s.slots.looks <- struct{}{}:
		claimed, err := s.peek(ctx, c)
		<-s.slots.looks
		if err != nil || isThere(claimed) {
			return claimed, err
		}
	case <-line.Done():
	}
	return core.Claimed{}, enter(line, s.slots.attempts)
}

// isThere reports whether a look found something.
func isThere(c core.Claimed) bool { return c.Busy || c.Record.Stored != 0 }

// enterAttempt takes what a transaction with an app's statements in it takes beside its connection: SQLite's writer, or
// a place.
func (s *Store) enterAttempt(ctx context.Context) error {
	if s.file != nil {
		return s.file.lockWriter(ctx)
	}
	if s.slots == nil {
		return nil
	}
	return enter(ctx, s.slots.attempts)
}

// leaveAttempt gives back what enterAttempt took.
func (s *Store) leaveAttempt() {
	if s.slots != nil {
		<-s.slots.attempts
	}
	if s.file != nil {
		s.file.unlockWriter()
	}
}

// enterClaim takes a place for a claim without a transaction.
func (s *Store) enterClaim(ctx context.Context) error {
	if s.slots == nil {
		return nil
	}
	select {
	case s.slots.claims <- struct{}{}:
		return nil
	default:
	}
	line, leave := inLine(ctx)
	defer leave()
	return enter(line, s.slots.claims)
}

// leaveClaim gives back what enterClaim took.
func (s *Store) leaveClaim() {
	if s.slots != nil {
		<-s.slots.claims
	}
}
