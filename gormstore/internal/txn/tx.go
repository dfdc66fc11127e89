package txn

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"gorm.io/gorm"

	"github.com/auth19/idem/core/store"
)

// Tx is a transaction with an app's statements in it. It has its own connection, on which the library itself sends BEGIN
// and COMMIT. It does not use the transactions of database/sql, because a context can cancel their COMMIT, and this COMMIT
// is never cancelled.
type Tx struct {
	DB    *Database
	Conn  *Conn
	Entry Entry
	Mark  Mark

	LeaveLine func() // gives back its place in the pool, or the turn to write

	ending  sync.Mutex // held while the transaction ends: Commit, Rollback or the deadline
	ended   bool
	checked bool  // it was the one that was begun, and nothing of a handler's has come since
	Gone    bool  // the last message has found another transaction
	unknown error // why it is not known which rows were committed: see undo
	Steps   int   // that have written in it, of a Resume attempt

	// OtherRecord is what a look for another attempt's record has found, once for each transaction: see attempt.errorByRecord.
	OtherRecord struct {
		Looked sync.Once
		Err    error
	}
}

// Entry is what a transaction writes besides the app's rows: the answer of an attempt, the result of a step, the marker of a
// message. It shows afterwards whether the transaction has committed.
type Entry interface {
	// Lock is the number of the lock that the transaction holds, if the database has locks.
	Lock() int64
	// Committed reports whether the entry is there, once the transaction has ended.
	Committed(ctx context.Context, q Querier) (bool, error)
	// RecordUnknown records, in another transaction, that it is not known which rows of this one were committed. If the entry
	// was undone, it is written again. If there is another transaction's entry now, that entry stays. left is how long the
	// handler may still run.
	RecordUnknown(ctx context.Context, q Querier, left time.Duration) error
	// Unreserve releases what was reserved for the transaction in this process.
	Unreserve()
}

// NewTx is the transaction that has begun on a connection.
func (d *Database) NewTx(own *sql.Conn, e Entry) *Tx {
	t := &Tx{DB: d, Entry: e, LeaveLine: d.LeaveAttempt}
	t.Conn = &Conn{SQL: own, db: d, serial: d.Process.Serial(), onEnded: t.recordUnknownEarly, guarded: guardedConns(own)}
	return t
}

// Begin opens a transaction for e on a connection of the pool. begin sends BEGIN, and what belongs to it.
func (d *Database) Begin(ctx context.Context, e Entry, begin func(t *Tx) error) (*Tx, error) {
	own, err := d.Pool.Conn(ctx)
	if err != nil {
		return nil, err
	}
	t := d.NewTx(own, e)
	if err := begin(t); err != nil {
		t.Conn.endAccess()
		Undo(own, err)
		return nil, err
	}
	return t, nil
}

// During makes ctx the handler's.
func (t *Tx) During(ctx context.Context) { t.Conn.attempt = ctx }

// Use returns the connection for statements of the handler's transaction.
func (t *Tx) Use() Querier { return t.Conn }

// isOpen reports that the handler has the transaction.
func (t *Tx) isOpen() bool {
	t.Conn.mu.RLock()
	defer t.Conn.mu.RUnlock()
	return !t.Conn.over
}

// end ends the handler's access and runs fn, once. Later calls get errOver.
func (t *Tx) end(fn func() error) error {
	t.ending.Lock()
	defer t.ending.Unlock()
	if t.ended {
		return errOver
	}
	t.ended = true
	t.Conn.endAccess()
	return fn()
}

// giveUpPlace releases what the transaction holds in this process. First the connection must be closed, or its transaction
// ended.
func (t *Tx) giveUpPlace() {
	t.Entry.Unreserve()
	t.LeaveLine()
}

// undo rolls back, and gives its place up. It fails with store.ErrEnded if the handler has ended the transaction itself: the
// handler's rows may have been committed.
func (t *Tx) undo() error {
	if !t.rollback() {
		t.unknown = t.recordUnknown()
	}
	t.giveUpPlace()
	return t.unknown
}

// SQLSTATEs of PostgreSQL.
const (
	nothingRecorded = "22012" // a division by zero, of what has changed no row, or not as many as it must
	otherTx         = "22P02" // of asBegun: not an integer
	aborted         = "25P02"
	noSavepoint     = "3B001"
	noTransaction   = "25P01"
	queryCanceled   = "57014"
)

// rollback ends the transaction and gives its connection back. It returns false if the handler has ended it before.
func (t *Tx) rollback() (ours bool) {
	ctx, cancel := Ending()
	defer cancel()
	ours, err := t.RollbackOurs(ctx)
	if err != nil {
		t.Conn.discard()
	} else {
		t.Conn.giveBack()
	}
	return ours
}

// RollbackOurs ends the transaction. It returns false if the handler has ended it before; then it ends the one that the
// handler has begun, if there is one. After an error the connection must be closed.
//
// In a transaction of PostgreSQL that has failed nothing can be read. There the server's status after each of the handler's
// statements is the proof that it was never ended. Where the driver does not show it, the library's savepoint is: only the
// transaction that was begun has it.
func (t *Tx) RollbackOurs(ctx context.Context) (ours bool, err error) {
	own := t.Conn.SQL
	ours = !t.Gone && !t.Conn.ended.Load()
	if ours && !t.checked && !t.Conn.lost.Load() && Status(own) != Failed {
		calls, err := t.Undoing(ctx)
		if err == nil {
			_, err = Send(ctx, own, calls...)
		}
		switch state := SQLState(err); {
		case err == nil:
			return true, nil
		case t.isOtherTx(err):
			ours = false
		case state == "": // broken, or busy
			return true, err
		case state == aborted && Status(own) == Unknown:
			_, missing := own.ExecContext(ctx, t.Mark.rollbackToSavepoint())
			ours = SQLState(missing) != noSavepoint
		}
	}
	_, err = own.ExecContext(ctx, "ROLLBACK")
	return ours, err
}

// proof is a statement that fails unless this is the transaction that was begun. Where the savepoint is its mark, that is
// what it does with the savepoint.
func (t *Tx) proof(ctx context.Context, savepoint string) (Call, error) {
	if t.Mark.isSavepoint() {
		return Call{Text: savepoint}, nil
	}
	return t.DB.CallOf(ctx, t.Conn.SQL, asBegun, nil, t.Mark.args()...)
}

// recordUnknown records that it is not known which rows were committed. It tries for EndPatience: if the entry was undone,
// the key is free until recordUnknown succeeds.
func (t *Tx) recordUnknown() error {
	ctx, cancel := context.WithTimeout(context.Background(), EndPatience)
	defer cancel()
	var err error
	recorded := again(ctx, long, func(int) bool {
		err = t.DB.transactDurably(ctx, func(q Querier) error { return t.Entry.RecordUnknown(ctx, q, 0) })
		return err == nil
	})
	if !recorded {
		return fmt.Errorf("%w; and it could not be recorded: %w", store.ErrEnded, err)
	}
	return store.ErrEnded
}

// recordUnknownEarly is recordUnknown while the handler is still at work: a repeat, or the end of the process, must not find
// a free key. It tries once, because the end of the attempt does the rest.
func (t *Tx) recordUnknownEarly(ctx context.Context) {
	var left time.Duration
	if deadline, ok := ctx.Deadline(); ok {
		left = max(0, time.Until(deadline))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), store.DefaultClaimTimeout)
	defer cancel()
	_ = t.DB.transactDurably(ctx, func(q Querier) error { return t.Entry.RecordUnknown(ctx, q, left) })
}

// Rollback implements that of [store.Attempt].
func (t *Tx) Rollback() error {
	if _ = t.end(t.undo); t.unknown != nil { // by this call, or the one that ended it
		return t.unknown
	}
	if retryable := t.Conn.failure(); retryable != nil {
		return fmt.Errorf("%w: %w", store.ErrRetryable, retryable)
	}
	return nil
}

// Run does the rest of a transaction that has begun: work, the last message.
func (t *Tx) Run(
	ctx context.Context, work func(tx *gorm.DB) error, last func(ctx context.Context) (FinalCalls, error),
) error {
	defer func() { _ = t.Rollback() }() // an error, a panic; does nothing after the end

	// The deadline and a lost lease end the transaction even if work does not look at its context.
	stop := context.AfterFunc(ctx, func() { _ = t.Rollback() })
	defer stop()
	bound := t.Bind(ctx)
	if err := work(t.DB.session(bound, t.Conn)); err != nil {
		switch ended := t.Rollback(); {
		case errors.Is(ended, store.ErrEnded):
			err = fmt.Errorf("%w: %w", ended, err)
		case ended != nil && !errors.Is(err, store.ErrRetryable):
			err = fmt.Errorf("%w: %w", store.ErrRetryable, err)
		}
		return err
	}
	if !stop() {
		return context.Cause(ctx)
	}
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), EndPatience)
	defer cancel()
	return t.Finish(patience, func() (FinalCalls, error) { return last(patience) })
}

// EndPatience is how long the library waits for the end of a step's or a message's transaction.
const EndPatience = 10 * time.Second

// Finish sends the last message, or rolls back.
func (t *Tx) Finish(ctx context.Context, last func() (FinalCalls, error)) error {
	return t.end(func() error {
		err := t.failed()
		var calls FinalCalls
		if err == nil {
			calls, err = last()
		}
		if err != nil {
			return cmp.Or(t.undo(), err)
		}
		return t.commit(ctx, calls)
	})
}

// failed returns the error after which nothing may commit: of the handler's statements, or of a message that has joined
// the transaction. The marker of a message that is still being processed must not commit without the rest of its rows.
func (t *Tx) failed() error {
	if t.Conn.ended.Load() {
		return store.ErrEnded
	}
	if retryable := t.Conn.failure(); retryable != nil {
		return fmt.Errorf("%w: %w", store.ErrRetryable, retryable)
	}
	if t.Conn.message.Load() != nil { // no more statements are admitted: the message has no end
		return fmt.Errorf("%w: %w", store.ErrAborted, errUnfinished)
	}
	if t.Conn.lost.Load() {
		return t.Conn.lostItself()
	}
	return nil
}

// FailedStep returns why the segment of a step cannot commit. A failed statement dooms it, unless the handler has undone the
// statement with a savepoint.
func (t *Tx) FailedStep() error {
	if err := t.failed(); err != nil {
		return err
	}
	if err := t.Conn.NotOfCommand(false); err != nil {
		return err
	}
	if err := t.Conn.abortCause(); err != nil {
		return fmt.Errorf("%w: %w", store.ErrAborted, err)
	}
	return nil
}

var errUnfinished = errors.New("idem: gormstore: a message was still being processed in the transaction when it ended; " +
	"wait for inbox.Inbox.Process before the handler returns")

// Undoing is a proof and ROLLBACK.
func (t *Tx) Undoing(ctx context.Context) ([]Call, error) {
	check, err := t.proof(ctx, t.Mark.rollbackToSavepoint())
	return []Call{check, {Text: "ROLLBACK"}}, err
}

// CommitOnly is the last message of a transaction whose entry was written first.
func (t *Tx) CommitOnly(ctx context.Context) (FinalCalls, error) { return t.Restored(ctx) }

// Restored returns calls and COMMIT, after the settings that the handler may have changed are as they were. They are
// restored first: a driver may prepare the message's statements before it sends it, and for that the role must be the
// library's. The first call proves that the transaction is the one that was begun, and that no failed statement has aborted
// it: there COMMIT would roll back without an error.
func (t *Tx) Restored(ctx context.Context, calls ...Call) (FinalCalls, error) {
	if err := t.Conn.restoreSettings(ctx); err != nil {
		return FinalCalls{}, NotCommitted(t.withAbortCause(err))
	}
	proof, err := t.proof(ctx, t.Mark.releaseSavepoint())
	if err != nil {
		return FinalCalls{}, err
	}
	all := append(make([]Call, 0, len(calls)+2), proof)
	return FinalCalls{Within: append(append(all, calls...), Call{Text: "COMMIT"})}, nil
}
