package gormstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/auth19/idem/core/store"
)

// On SQLite a Rollback attempt is the one writer from its begin on. It claims the record at once: the row shows whether
// SQLite itself has rolled back (see tx.alive), and the library's savepoint whether the handler has committed.

// beginSQLite opens the transaction of an attempt and claims in it.
func (s *Store) beginSQLite(ctx context.Context, own *sql.Conn, c store.Claim) (*tx, store.Claimed, error) {
	if _, err := own.ExecContext(ctx, s.dialect.begin); err != nil {
		return nil, store.Claimed{}, err
	}
	claimed, err := s.claimSQLite(ctx, own, c)
	if err != nil || !claimed.Won {
		return nil, claimed, err
	}
	if _, err := own.ExecContext(ctx, setSavepoint); err != nil {
		return nil, store.Claimed{}, err
	}
	return s.newTx(own, &answer{store: s, claim: c, fence: claimed.Record.Fence, timed: claimed.Record.Timed}), claimed, nil
}

// recordSQLite writes the answer, and returns the last message.
func (t rollbackTx) recordSQLite(ctx context.Context, args []any, undoRows bool) (lastCalls, error) {
	if undoRows {
		if _, err := t.conn.sql.ExecContext(ctx, backToSavepoint); err != nil {
			return lastCalls{}, notCommitted(err)
		}
	} else if err := t.stillOpen(ctx); err != nil {
		return lastCalls{}, err
	}
	n, err := t.db.exec(ctx, t.conn.sql, complete, append(ownedBy(t.answer.ticket()), args...)...)
	switch {
	case err != nil:
		return lastCalls{}, notCommitted(err)
	case n != 1:
		return lastCalls{}, fmt.Errorf("%w: %w", store.ErrAborted, errNotRecorded)
	}
	return committing(), nil
}

// errNotRecorded: the handler has changed the library's row in its transaction.
var errNotRecorded = errors.New("idem: gormstore: the record of the attempt is gone")

// loseSQLite claims again as the same owner, and parks the operation. If the handler has committed, the record exists. If
// it has rolled back, the key is free.
func (a *answer) loseSQLite(ctx context.Context, q querier) error {
	s, c := a.store, a.claim
	c.Lease, c.Deadline = 0, 0                                          // the attempt is over, and may be settled
	c.Key, c.Window = store.KeyTime{Timed: c.Key.Timed}, store.Window{} // and its key was taken in time
	claimed, err := s.claimSQLite(ctx, q, c)
	if err != nil {
		return err
	}
	if !claimed.Won && !ours(claimed.Record, c) {
		return nil // another attempt has had the key since
	}
	_, err = s.exec(ctx, q, park, ownedBy(claimed.Record.Ticket)...)
	return err
}
