package store

import (
	"context"
	"time"
)

// CrowdedError is ErrCrowded of a store that knows how long its line is.
type CrowdedError struct {
	// After is when those who are in the line, and those who were refused lately, may have had their turn.
	After time.Duration
	// Why the claim was refused: its context has ended, or the line is too long.
	Why error
}

// Error implements error.
func (e *CrowdedError) Error() string { return ErrCrowded.Error() + ": " + e.Why.Error() }

// Unwrap makes it an ErrCrowded.
func (e *CrowdedError) Unwrap() []error { return []error{ErrCrowded, e.Why} }

type clientKey struct{}

// ClientContext is the context of a claim for which a client waits. It does not end when the client leaves, because a claim
// that was sent is not cancelled. But a store in which the claim waits for its turn need not begin it then: see ClientOf.
type ClientContext struct {
	context.Context
	Client context.Context // ends when the client leaves
}

// Value implements [context.Context].
func (c *ClientContext) Value(key any) any {
	if key == (clientKey{}) {
		return c.Client
	}
	return c.Context.Value(key)
}

// ClientOf returns a context that ends when the client of a claim leaves. It never ends if there is none.
func ClientOf(ctx context.Context) context.Context {
	if client, ok := ctx.Value(clientKey{}).(context.Context); ok {
		return client
	}
	return context.WithoutCancel(ctx)
}
