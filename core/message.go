package core

import (
	"context"

	"github.com/auth19/idem/core/internal/attemptctx"
)

// WithMessage returns the context for the handler of a message, for packages that bring an inbox: gormstore.Inbox. Calls
// and events that are made in it derive their keys from message, which stands for the message and its consumer
// group as an operation's id stands for an attempt: the same in every delivery. end is to be called when the handler
// has returned; from then on nothing is derived (C-5).
//
// Their outcome is uncertain until there is an answer: nobody knows how often the message was delivered before.
func WithMessage(ctx context.Context, message ID) (handlers context.Context, end func()) {
	calls := &attemptctx.Calls{Origin: message, Again: true, Life: ctx}
	outside := context.WithValue(ctx, stepKey{}, nil) // an inbox inside a step is not the step's call
	return attemptctx.WithCalls(outside, calls), calls.End
}
