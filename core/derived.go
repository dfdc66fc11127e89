package core

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/auth19/idem/core/internal/attemptctx"
)

// ErrNoHandler means that the context belongs to no handler that a key could be derived from.
var ErrNoHandler = errors.New("idem: the context belongs to no attempt and to no message of an inbox")

// Origin returns the id that the handler's keys are derived from, and that its money rows carry (D-1). Inside an attempt it
// is the operation. In the handler of an inbox it is an id for the message and its consumer group, also where the message
// has joined an attempt. It is false outside both.
func Origin(ctx context.Context) (ID, bool) {
	if calls := attemptctx.CallsFrom(ctx); calls != nil {
		return calls.Origin, true
	}
	return ID{}, false
}

// DeriveCall returns the key for the call of the given name that the handler of ctx makes. core/idemclient sends this key
// by itself. A handler that calls a provider in another way sends the key itself. If the call is itself a step ([Call]),
// use the key that Call passes to its function.
//
// Errors: [ErrNoHandler]; another error says that the handler has returned, that its deadline has passed, or that a Resume
// handler calls outside [Call].
func DeriveCall(ctx context.Context, name string) (DerivedKey, error) {
	calls, err := callsOf(ctx)
	if err != nil {
		return DerivedKey{}, err
	}
	if a := attemptFrom(ctx); a != nil {
		a.m.calls.Note(name)
	}
	if step := attemptctx.StepFrom(ctx); step != nil {
		return DerivedKey(step.Key).DeriveCall(name), nil
	}
	if err := attemptctx.MayLeave(ctx); err != nil {
		return DerivedKey{}, err
	}
	return ID(calls.Origin).DeriveCall(name), nil
}

// callsOf returns the calls of a handler that is still running. A key that is derived later would be useless: no later
// attempt derives it again (C-5).
func callsOf(ctx context.Context) (*attemptctx.Calls, error) {
	calls := attemptctx.CallsFrom(ctx)
	if calls == nil {
		return nil, ErrNoHandler
	}
	return calls, calls.Over()
}

// WithMessage returns the context for the handler of a message. It is for packages that implement an inbox, as
// gormstore/inbox does. message is an id for the message and its consumer group, the same in every delivery, and payload the
// SHA-256 of its payload. The handler's calls and events derive their keys from message, as those of an attempt derive
// theirs from the operation, and its money rows carry both (D-1). Call end when the handler has returned; after that
// no key is derived (C-5).
//
// The outcome of each call is uncertain until there is an answer to it, because the message may have been delivered before.
func WithMessage(ctx context.Context, message ID, payload [sha256.Size]byte) (handlers context.Context, end func()) {
	calls := &attemptctx.Calls{Origin: message, Command: attemptctx.Command{Sum: payload}, Again: true, Life: ctx}
	if around := attemptctx.CallsFrom(ctx); around != nil {
		calls.InSteps = around.InSteps && attemptctx.StepFrom(ctx) == nil
	}
	outside := attemptctx.WithStep(ctx, nil) // calls of an inbox inside a step are the message's, not the step's
	return attemptctx.WithCalls(outside, calls), calls.End
}

// ErrSameEvent means that the handler has made an event of this name before. Both would have one id, and a consumer that
// processes each id once would drop one of them.
var ErrSameEvent = errors.New("idem: this handler has made an event of the same name before, and a consumer would take " +
	"the second for a duplicate; give each event of an operation a name of its own")

// DeriveEvent returns the key of the event of the given name that the handler of ctx publishes: see [DerivedKey].
//
// Errors: [ErrSameEvent] for the second event of this name in one attempt or delivery, including the events of steps that
// an earlier attempt has finished; the errors of [DeriveCall].
func DeriveEvent(ctx context.Context, name string) (DerivedKey, error) {
	calls, err := callsOf(ctx)
	if err != nil {
		return DerivedKey{}, err
	}
	key := ID(calls.Origin).DeriveEvent(name)
	if !calls.Enter(key) {
		return DerivedKey{}, fmt.Errorf("%w: %q", ErrSameEvent, name)
	}
	return key, nil
}
