package idemclient

import (
	"context"
	"errors"
	"fmt"

	"github.com/auth19/idem/core/internal/attemptctx"
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
		return false, &Error{Intent: intent, Cause: fmt.Errorf("idem: the journal did not answer: %w", err)}
	case !is && calls.Planned(intent):
		return false, &Error{Intent: intent, Reason: ErrNotCommitted}
	}
	return is, nil
}

// mayHaveCalled reports whether an earlier attempt of the handler may have made a call without getting an answer (C-5).
func mayHaveCalled(ctx context.Context, calls *attemptctx.Calls) bool {
	step := attemptctx.StepFrom(ctx)
	return calls.Again && (step == nil || !step.First)
}
