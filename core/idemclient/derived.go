package idemclient

import (
	"context"
	"errors"
	"fmt"

	"github.com/auth19/idem/core/internal/attemptctx"
)

var errWrongContext = errors.New("idem: the request was made with a guarded handler's context and is sent with another; " +
	"pass the handler's context to Do, its key is derived from it")

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
