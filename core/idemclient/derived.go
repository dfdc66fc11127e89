package idemclient

import (
	"context"
	"errors"
	"fmt"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/internal/attemptctx"
)

var errWrongContext = errors.New("idem: the request was made with a guarded handler's context and is sent with another; " +
	"pass the handler's context to Do, its key is derived from it")

// DeriveKey returns the key under which the handler of an operation makes the call of the given name, for the reconciler
// that asks the provider about it: what was sent is its UUID form. step is the provider step that makes the call, ""
// outside one. No call has the key of a step, that of [core.StepKey]: not even the one that has the step's name (C-5).
// For a call of an inbox handler, operation is what stands for the message: gormstore.MessageKey.
func DeriveKey(operation core.ID, step, name string) core.DerivedKey {
	if step == "" {
		return core.DeriveKey(operation, name)
	}
	return inStep(core.DeriveStepKey(operation, step), name)
}

// inStep derives the key of a call from that of its step.
func inStep(step core.DerivedKey, name string) core.DerivedKey {
	return core.DeriveKey(core.ID(step), name)
}

// derive returns the key of a call that a handler makes (C-3, Q-4). It is an error once the attempt is over: a key that
// nobody asks for again is none (C-5).
func derive(ctx context.Context, calls *attemptctx.Calls, name string) (core.DerivedKey, error) {
	if over := calls.Over(); over != nil {
		return core.DerivedKey{}, over
	}
	if step, ok := core.StepKey(ctx); ok {
		return inStep(step, name), nil
	}
	return core.DeriveKey(calls.Origin, name), nil
}

// inJournal reports whether a call of a handler is an intent of the journal: then it goes under the intent's key, not
// under a derived one (C-5). It is an error where the handler has planned it and that is not to be seen: its transaction
// has not committed, and a command of an intent that may yet be rolled back is not sent.
func (c *Client) inJournal(ctx context.Context, calls *attemptctx.Calls, intent string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, journalPatience)
	defer cancel()
	_, is, err := c.cfg.Journal.Find(ctx, intent)
	switch {
	case err != nil:
		return false, &Error{Intent: intent, Cause: fmt.Errorf("idem: the journal did not answer: %w", err)}
	case !is && calls.Planned(intent):
		return false, &Error{Intent: intent, Reason: ErrNotCommitted}
	}
	return is, nil
}
