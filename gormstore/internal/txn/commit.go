package txn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/auth19/idem/core/store"
)

// commit sends the last message, and waits for its end as long as ctx allows. A message that takes longer continues, because
// a server that waits for its standby must not be interrupted.
func (t *Tx) commit(ctx context.Context, last FinalCalls) error {
	var atCommit bool
	warned := t.DB.Notices.Expect(t.Mark.pid)
	write := write{
		Watch: t.DB.StallOf(t.Mark.pid, store.ID{}),
		Send: func(ctx context.Context) (err error) {
			atCommit, err = t.sendLast(ctx, last)
			return err
		},
		AfterSend: func(left bool, err error) error {
			warned := warned() // before the connection has another user
			switch {
			case err == nil:
				t.Conn.giveBack()
			case atCommit && len(last.Alone) == 0 && errors.Is(err, errUnchanged): // COMMIT was on its way already
				t.Conn.giveBack()
				err = fmt.Errorf("%w: %w", t.recordUnknown(), err)
			case atCommit:
				t.Conn.rollback() // a database may keep the transaction open after some errors
			case t.DB.Dialect.Class(err) == "" && !errors.Is(err, errUnchanged): // not read, and COMMIT may be in it
				t.Conn.discard()
			default:
				if IsConflict(err) { // of the proof itself: the savepoint is gone, and the handler has not ended it
					t.Conn.lost.Store(true)
				}
				if err = t.noteLast(err); !t.rollback() {
					err = t.recordUnknown()
				}
			}
			if !left {
				t.giveUpPlace()
			}
			if warned && err == nil {
				err = errWarned
			}
			return err
		},
		OnStall: t.giveUpPlace,
	}
	switch err := write.Run(ctx, nil); {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrEnded):
		t.unknown = err
		return err
	case errors.Is(err, store.ErrStale), errors.Is(err, store.ErrClock), errors.Is(err, store.ErrUnconfirmed):
		return err
	default:
		return t.readBack(ctx, err, atCommit)
	}
}

// FinalCalls end a transaction. They are one message.
type FinalCalls struct {
	Within []Call // in the transaction; the last one is COMMIT or ROLLBACK. None: it was rolled back before
	Alone  []Call // after a ROLLBACK, in a transaction of their own; the last one records the answer
}

// sendLast sends the last message. atCommit: the error is that of a COMMIT, or came after a ROLLBACK. If it is false, and
// the error comes from the server (see isRefusal), nothing was committed, and the transaction may still be open.
func (t *Tx) sendLast(ctx context.Context, last FinalCalls) (atCommit bool, err error) {
	own, within := t.Conn.SQL, len(last.Within)
	if len(last.Alone) > 0 && t.DB.Dialect.WriteIn != nil { // nothing commits by itself there
		last.Alone = t.DB.durably(last.Alone)
	}
	succeeded, err := Send(ctx, own, append(last.Within[:within:within], last.Alone...)...)
	t.checked = succeeded > 0 // the first call was the proof
	if len(last.Alone) == 0 {
		return succeeded >= within-1, err
	}
	if succeeded < within {
		if !t.unprepared(err) {
			return false, err
		}
		_, err = Send(ctx, own, last.Alone...)
	}
	for try := 1; try < MaxTries && IsConflict(err); try++ { // no handler has run in this transaction
		_, err = Send(ctx, own, last.Alone...)
	}
	if t.DB.isWeak(err) {
		_, err = Send(ctx, own, t.DB.durably(last.Alone)...)
	}
	return true, t.ofRecord(err)
}

// durably puts calls into a transaction of their own.
func (d *Database) durably(alone []Call) []Call {
	return append(append(calls(d.Dialect.BeginDurably), alone...), Call{Text: "COMMIT"})
}

// unprepared reports that a driver could not prepare the record of an undone attempt, because a function or a trigger has
// changed the role. The transaction is ended then, and the role with it.
func (t *Tx) unprepared(err error) bool {
	if state := SQLState(err); err == nil || state == "" || state == otherTx {
		return false
	}
	ctx, cancel := Ending()
	defer cancel()
	ours, err := t.RollbackOurs(ctx)
	return ours && err == nil
}

// IsUnrecorded reports that a transaction has committed without its record: something in the database has dropped the
// record.
func IsUnrecorded(err error) bool {
	return errors.Is(err, store.ErrEnded) && errors.Is(err, errUnchanged)
}

// noteLast looks at an error of the message's statements before COMMIT.
func (t *Tx) noteLast(err error) error {
	if t.isOtherTx(err) && !t.checked {
		t.Gone = true
	}
	return t.withAbortCause(t.ofRecord(err))
}

// ofRecord says what the error means of a statement that records. ErrStale: another attempt has the key, or has had it, or
// the clock has gone back. ErrClock: it is outside of its window.
func (t *Tx) ofRecord(err error) error {
	switch d := t.DB.Dialect; {
	case err == nil:
	case SQLState(err) == nothingRecorded, errors.Is(err, errUnchanged), d.IsThere(err), d.IsNull(err, "created_at"),
		d.IsNull(err, "fence"):
		return fmt.Errorf("%w: %w", store.ErrStale, err)
	case d.IsNull(err, "lease_until"):
		return fmt.Errorf("%w: %w", store.ErrClock, err)
	}
	return err
}

// isWeak reports that a record or an intent was refused because its COMMIT would not have waited for the disk.
func (d *Database) isWeak(err error) bool {
	return err != nil && (d.Dialect.IsNull(err, "deadline_at") || d.Dialect.IsNull(err, "planned_at"))
}

// isOtherTx reports that the transaction is not the one that was begun: its proof has failed.
func (t *Tx) isOtherTx(err error) bool {
	return slices.Contains([]string{otherTx, noSavepoint, noTransaction}, SQLState(err)) || t.DB.Dialect.OfStatement(err)
}

// withAbortCause replaces 25P02, which says only that the transaction is aborted, by the error that has aborted it. If that
// error is no refusal, the result wraps both.
func (t *Tx) withAbortCause(err error) error {
	cause := t.Conn.abortCause()
	switch {
	case cause == nil || SQLState(err) != aborted:
		return err
	case isRefusal(cause):
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// NotCommitted classifies an error before COMMIT. An error of a statement is ErrAborted, unless it asks for a repeat of the
// whole command, or no command is to blame (store.ErrStatement). A connection that broke is ErrRetryable.
func NotCommitted(err error) error {
	if errors.Is(err, store.ErrStatement) {
		return fmt.Errorf("%w: %w", store.ErrRetryable, err)
	}
	if state := SQLState(err); state != "" && !isRetryable(err) && !strings.HasPrefix(state, "08") {
		return fmt.Errorf("%w: %w", store.ErrAborted, err)
	}
	return fmt.Errorf("%w: %w", store.ErrRetryable, err)
}

// readBack finds out whether a COMMIT that ended with err took effect. If the server refused it, nothing is
// committed. After any other error readBack looks for the entry on the primary. A missing entry is proof only if the old
// backend is gone, which is certain when its lock could be taken. What a COMMIT waited for in vain is told of no refusal.
func (t *Tx) readBack(ctx context.Context, err error, atCommit bool) error {
	if isRefusal(err) && (!atCommit || SQLState(err) != LockNotAvailable) {
		return NotCommitted(err)
	}
	var committed, certain bool
	var stale error
	known := again(ctx, long, func(int) bool {
		committed, certain, stale = t.Look(ctx)
		return committed || certain || stale != nil
	})
	switch {
	case stale != nil:
		return fmt.Errorf("%w: %w", stale, err)
	case !known:
		return fmt.Errorf("%w: %w", store.ErrUnconfirmed, err)
	case committed:
		return nil
	case t.DB.Dialect.OfCommand(err): // a constraint that is checked at COMMIT
		return fmt.Errorf("%w: %w", store.ErrAborted, err)
	default:
		return fmt.Errorf("%w: %w", store.ErrRetryable, err)
	}
}

// TryLock takes a lock in a transaction if nobody holds it, and says when the server was started, as Server does.
func (d *Database) TryLock(ctx context.Context, q Querier, lock int64) (locked bool, started pgtype.Int8, err error) {
	err = d.QueryRow(ctx, q, tryLock, lock).Scan(&locked, &started, new(bool))
	return locked, started, err
}

// Look reads whether this transaction's entry is committed, and whether that is certain if it is not. stale is ErrStale
// if another attempt has taken the record since; then the entry proves nothing.
func (t *Tx) Look(ctx context.Context) (committed, certain bool, stale error) {
	d := t.DB
	var started pgtype.Int8
	err := d.InTx(ctx, func(q Querier) (err error) {
		if certain, started, err = d.TryLock(ctx, q, t.Entry.Lock()); err == nil {
			committed, err = t.Entry.Committed(ctx, q)
		}
		return err
	})
	if err == nil && committed {
		// The entry is here, but perhaps not on the standby yet: its COMMIT may have been interrupted during the wait.
		err = d.Confirm(ctx, started.Int64)
	}
	if errors.Is(err, store.ErrStale) {
		stale = err
	}
	return committed && err == nil, certain && err == nil, stale
}
