package core

import (
	"context"
	"sync"
	"time"
)

// bounded is a context that has the values of another, none of its cancellation, and a deadline: what
// [context.WithDeadlineCause] and [context.WithCancelCause] make on [context.WithoutCancel]. Those are made here, too,
// but not before somebody waits for the end. A store in memory never does, nor do most handlers, and channels, timers and
// links were most of what a request in memory cost.
type bounded struct {
	values   context.Context // has no end
	deadline time.Time
	late     error // the cause of an end by the deadline; nil where nobody asks for causes

	mu    sync.Mutex
	made  context.Context // nil until somebody waits, or asks after the end
	end   context.CancelCauseFunc
	ended error // the cause of an end that came before it was made
}

// begin makes b, which is new, a context with the values of values, which has no end of its own, until deadline.
func (b *bounded) begin(values context.Context, deadline time.Time) *bounded {
	b.values, b.deadline = values, deadline
	return b
}

// cancel ends the context and frees what was made for it.
func (b *bounded) cancel(cause error) {
	b.mu.Lock()
	end := b.end
	if end == nil && b.ended == nil {
		b.ended = cause
	}
	b.mu.Unlock()
	if end != nil {
		end(cause)
	}
}

// current is the context behind b. It is nil as long as there is none and none is needed.
func (b *bounded) current(needed bool) context.Context {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.made != nil || !needed && b.ended == nil && time.Now().Before(b.deadline) {
		return b.made
	}
	if b.late == nil {
		made, cancel := context.WithDeadline(b.values, b.deadline)
		b.made, b.end = made, func(error) { cancel() }
	} else {
		ctx, cancel := context.WithCancelCause(b.values)
		made, stop := context.WithDeadlineCause(ctx, b.deadline, b.late)
		b.made, b.end = made, func(cause error) { cancel(cause); stop() }
	}
	if b.ended != nil {
		b.end(b.ended)
	}
	return b.made
}

// Deadline implements [context.Context].
func (b *bounded) Deadline() (time.Time, bool) { return b.deadline, true }

// Done implements [context.Context].
func (b *bounded) Done() <-chan struct{} { return b.current(true).Done() }

// Err implements [context.Context].
func (b *bounded) Err() error {
	if ctx := b.current(false); ctx != nil {
		return ctx.Err()
	}
	return nil
}

// Value implements [context.Context].
func (b *bounded) Value(key any) any {
	if ctx := b.current(false); ctx != nil {
		return ctx.Value(key) // context.Cause asks in this way
	}
	return b.values.Value(key)
}
