package gormstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// commit sends the last message, and waits for its end as long as ctx allows. A message that takes longer continues, because
// a server that waits for its standby must not be interrupted.
func (t *tx) commit(ctx context.Context, last lastCalls) error {
	var atCommit bool
	warned := t.db.notices.Expect(t.mark.pid)
	write := txn.Write{
		Watch: t.db.stallOf(t.mark.pid, store.ID{}),
		Send: func(ctx context.Context) (err error) {
			atCommit, err = t.sendLast(ctx, last)
			return err
		},
		End: func(left bool, err error) error {
			warned := warned() // before the connection has another user
			switch {
			case err == nil:
				t.conn.giveBack()
			case atCommit:
				t.conn.rollback() // SQLite keeps the transaction open after some errors
			default:
				if err = t.noteLast(err); !t.rollback() {
					err = t.lose()
				}
			}
			if !left {
				t.leave()
			}
			if warned && err == nil {
				err = txn.ErrWarned
			}
			return err
		},
		Leave: t.leave,
	}
	switch err := write.Run(ctx, nil); {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrEnded):
		t.lost = err
		return err
	case errors.Is(err, store.ErrStale), errors.Is(err, store.ErrClock), errors.Is(err, store.ErrUnconfirmed):
		return err
	default:
		return t.readBack(ctx, err)
	}
}

// lastCalls end a transaction. They are one message.
type lastCalls struct {
	within []txn.Call // in the transaction; the last one is COMMIT or ROLLBACK. None: it was rolled back before
	alone  []txn.Call // after a ROLLBACK, in a transaction of their own; the last one records the answer
}

// committing is the message of a transaction that commits.
func committing(calls ...txn.Call) lastCalls {
	return lastCalls{within: append(calls, txn.Call{Text: "COMMIT"})}
}

// sendLast sends the last message. atCommit says that the error is that of a COMMIT, or came after a ROLLBACK.
// Otherwise, if it comes from the server (see txn.IsRefusal), nothing was committed, and the transaction may be open.
func (t *tx) sendLast(ctx context.Context, last lastCalls) (atCommit bool, err error) {
	own, within := t.conn.sql, len(last.within)
	succeeded, err := txn.Send(ctx, own, append(last.within[:within:within], last.alone...)...)
	if len(last.alone) == 0 {
		return succeeded >= within-1, err
	}
	if succeeded < within {
		if !t.unprepared(err) {
			return false, err
		}
		_, err = txn.Send(ctx, own, last.alone...)
	}
	for try := 1; try < txn.MaxTries && txn.IsConflict(err); try++ { // no handler has run in this transaction
		_, err = txn.Send(ctx, own, last.alone...)
	}
	if state := txn.SQLState(err); state == notOurs || state == nothingRecorded {
		err = fmt.Errorf("%w: %w", store.ErrStale, err) // another attempt has the key, or has had it
	}
	return true, err
}

// unprepared reports that a driver could not prepare the record of an undone attempt, because a function or a trigger has
// changed the role. The transaction is ended then, and the role with it.
func (t *tx) unprepared(err error) bool {
	if state := txn.SQLState(err); err == nil || state == "" || state == notOurs {
		return false
	}
	ctx, cancel := txn.Ending()
	defer cancel()
	ours, err := t.rollbackPostgres(ctx)
	return ours && err == nil
}

// noteLast looks at an error of the message's statements before COMMIT.
func (t *tx) noteLast(err error) error {
	switch txn.SQLState(err) {
	case notOurs:
		t.gone = true
	case nothingRecorded, recordedBefore:
		return fmt.Errorf("%w: %w", store.ErrStale, err)
	case clockOutside:
		return fmt.Errorf("%w: %w", store.ErrClock, err)
	}
	return err
}

// notCommitted classifies an error before COMMIT. An error of a statement is ErrAborted, unless it asks for a repeat of the
// whole command. A connection that broke is ErrRetryable.
func notCommitted(err error) error {
	if state := txn.SQLState(err); state != "" && !txn.IsRetryable(err) && !strings.HasPrefix(state, "08") {
		return fmt.Errorf("%w: %w", store.ErrAborted, err)
	}
	return fmt.Errorf("%w: %w", store.ErrRetryable, err)
}

// readBack finds out whether a COMMIT that ended with err took effect. If the server refused it, nothing is
// committed. After any other error readBack looks for the entry on the primary. A missing entry is proof only if the old
// backend is gone, which is certain when its lock could be taken.
func (t *tx) readBack(ctx context.Context, err error) error {
	if txn.IsRefusal(err) {
		return notCommitted(err)
	}
	var committed, certain bool
	known := txn.Again(ctx, txn.Long, func(int) bool {
		committed, certain = t.look(ctx)
		return committed || certain
	})
	switch {
	case !known:
		return fmt.Errorf("%w: %w", store.ErrUnconfirmed, err)
	case committed:
		return nil
	case t.db.dialect == sqlite: // a constraint that is checked at COMMIT, a full disk
		return fmt.Errorf("%w: %w", store.ErrAborted, err)
	default:
		return fmt.Errorf("%w: %w", store.ErrRetryable, err)
	}
}

// look reads whether this transaction's entry is committed, and whether that is certain if it is not.
func (t *tx) look(ctx context.Context) (committed, certain bool) {
	d := t.db
	var started instant
	err := d.inTx(ctx, func(q querier) (err error) {
		locked := true // SQLite: this process holds the writer
		if d.dialect == postgres {
			var standby bool
			if err := d.queryRow(ctx, q, tryLock, t.entry.lock()).Scan(&locked, &standby, &started); err != nil {
				return err
			}
			locked = locked && !standby
		}
		committed, err = t.entry.committed(ctx, q)
		certain = locked
		return err
	})
	if err == nil && committed {
		// The entry is here, but perhaps not on the standby yet: its COMMIT may have been interrupted during the wait.
		err = d.confirm(ctx, started.Time)
	}
	return committed && err == nil, certain && err == nil
}
