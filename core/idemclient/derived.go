package idemclient

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/auth19/idem/core/internal/attemptctx"
	"github.com/auth19/idem/core/store"
)

var errWrongContext = errors.New("idem: the request was made with a guarded handler's context and is sent with another; " +
	"pass the handler's context to Do, its key is derived from it")

// inJournal reports whether a handler's call is an intent of the journal. If so, it has the intent's key, not a derived
// one (C-5). It returns an error if the handler has planned the intent in a transaction that has not committed: the
// intent may still be rolled back, so its command must not be sent.
func (c *Client) inJournal(ctx context.Context, calls *attemptctx.Calls, intent string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, journalPatience)
	defer cancel()
	_, is, err := c.cfg.Journal.Find(ctx, intent)
	switch {
	case err != nil:
		return false, noAnswer(intent, err)
	case !is && calls.Planned(intent):
		return false, &Error{Intent: intent, Reason: ErrNotCommitted, Uncertain: mayHaveCalled(ctx, calls, intent)}
	}
	return is, nil
}

// noAnswer is the error of a journal that could not be asked. What it would say of the intent is not known.
func noAnswer(intent string, err error) *Error {
	return &Error{Intent: intent, Cause: fmt.Errorf("idem: the journal did not answer: %w", err), Uncertain: true}
}

// mayHaveCalled reports whether the handler may have made the call before: in an earlier attempt, which may have got no
// answer (C-5), or in this one.
func mayHaveCalled(ctx context.Context, calls *attemptctx.Calls, name string) bool {
	key, again := store.ID(calls.Origin).DeriveCall(name), calls.Again
	if step := attemptctx.StepFrom(ctx); step != nil {
		key, again = store.DerivedKey(step.Key).DeriveCall(name), again && !step.First
	}
	return again || slices.Contains(calls.Made(0), [sha256.Size]byte(key))
}
