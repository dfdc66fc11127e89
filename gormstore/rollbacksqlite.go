package gormstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// On SQLite a Rollback attempt is the one writer from its begin on. It claims the record at once: the row shows whether
// SQLite itself has rolled back (see txn.Tx.alive), and the library's savepoint whether the handler has committed.

// beginSQLite opens the transaction of an attempt and claims in it.
func (s *Store) beginSQLite(ctx context.Context, own *sql.Conn, c store.Claim) (*txn.Tx, store.Claimed, error) {
	if _, err := own.ExecContext(ctx, s.db.Dialect.Begin); err != nil {
		return nil, store.Claimed{}, err
	}
	claimed, err := s.claimSQLite(ctx, own, c)
	if err != nil || !claimed.Won {
		return nil, claimed, err
	}
	if _, err := own.ExecContext(ctx, txn.SetSavepoint); err != nil {
		return nil, store.Claimed{}, err
	}
	return s.db.NewTx(own, &answer{store: s, claim: c, fence: claimed.Record.Fence, timed: claimed.Record.Timed}), claimed, nil
}

// recordSQLite writes the answer, and returns the last message.
func (t rollbackTx) recordSQLite(ctx context.Context, args []any, undoRows bool) (txn.LastCalls, error) {
	if undoRows {
		if _, err := t.Conn.SQL.ExecContext(ctx, txn.BackToSavepoint); err != nil {
			return txn.LastCalls{}, txn.NotCommitted(err)
		}
	} else if err := t.StillOpen(ctx); err != nil {
		return txn.LastCalls{}, err
	}
	n, err := t.DB.Exec(ctx, t.Conn.SQL, complete, append(ownedBy(t.answer.ticket()), args...)...)
	switch {
	case err != nil:
		return txn.LastCalls{}, txn.NotCommitted(err)
	case n != 1:
		return txn.LastCalls{}, fmt.Errorf("%w: %w", store.ErrAborted, errNotRecorded)
	}
	return txn.Committing(), nil
}

// errNotRecorded: the handler has changed the library's row in its transaction.
var errNotRecorded = errors.New("idem: gormstore: the record of the attempt is gone")

// loseSQLite claims again as the same owner, and parks the operation. If the handler has committed, the record exists. If
// it has rolled back, the key is free.
func (a *answer) loseSQLite(ctx context.Context, q txn.Querier) error {
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
	_, err = s.db.Exec(ctx, q, park, ownedBy(claimed.Record.Ticket)...)
	return err
}
