package core

import (
	"context"
	"sync"
	"time"
)

// lazyContext is a context with the values of another one, and with a deadline and a cancellation of its own: what
// [context.WithoutCancel], [context.WithDeadlineCause] and [context.WithCancelCause] give together. It makes those three
// only when a caller waits for its end. Their channels and timers were most of the cost of a request in memory, and most
// handlers never wait.
type lazyContext struct {
	values   context.Context // never ends
	deadline time.Time
	late     error // the cause of an end by the deadline; nil if causes are not asked for

	mu    sync.Mutex
	made  context.Context // nil until a caller waits for the end, or asks whether b has ended
	stop  context.CancelCauseFunc
	cause error // why b was cancelled before made was made
}

// until sets up b: a context that ends at deadline and takes its values from the context values, which must never end.
// Call until once, on a new b.
func (b *lazyContext) until(values context.Context, deadline time.Time) *lazyContext {
	b.values, b.deadline = values, deadline
	return b
}

// cancel ends the context and frees what was made for it.
func (b *lazyContext) cancel(cause error) {
	b.mu.Lock()
	stop := b.stop
	if stop == nil && b.cause == nil {
		b.cause = cause
	}
	b.mu.Unlock()
	if stop != nil {
		stop(cause)
	}
}

// current returns the context behind b. If it does not exist yet, current makes it if needed is set, and otherwise
// returns nil.
func (b *lazyContext) current(needed bool) context.Context {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.made != nil || !needed && b.cause == nil && time.Until(b.deadline) > 0 {
		return b.made
	}
	if b.late == nil {
		made, cancel := context.WithDeadline(b.values, b.deadline)
		b.made, b.stop = made, func(error) { cancel() }
	} else {
		ctx, cancel := context.WithCancelCause(b.values)
		made, release := context.WithDeadlineCause(ctx, b.deadline, b.late)
		b.made, b.stop = made, func(cause error) { cancel(cause); release() }
	}
	if b.cause != nil {
		b.stop(b.cause)
	}
	return b.made
}

// Deadline implements [context.Context].
func (b *lazyContext) Deadline() (time.Time, bool) { return b.deadline, true }

// Done implements [context.Context].
func (b *lazyContext) Done() <-chan struct{} { return b.current(true).Done() }

// Err implements [context.Context].
func (b *lazyContext) Err() error {
	if ctx := b.current(false); ctx != nil {
		return ctx.Err()
	}
	return nil
}

// Value implements [context.Context].
func (b *lazyContext) Value(key any) any {
	if value := b.values.Value(key); value != nil {
		return value // it does not depend on whether b has ended: no lock and no clock are needed
	}
	if ctx := b.current(false); ctx != nil {
		return ctx.Value(key) // context.Cause asks in this way
	}
	return nil
}
