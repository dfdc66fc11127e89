package gormstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"gorm.io/gorm"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/sqltext"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// tx is a transaction with an app's statements in it. It has its own connection, on which the store itself sends BEGIN
// and COMMIT. It does not use the transactions of database/sql, because a context can cancel their COMMIT, and this
// COMMIT is never cancelled.
type tx struct {
	db    *database
	conn  *conn
	entry entry
	mark  txMark      // PostgreSQL
	asked atomic.Bool // the handler has asked for the transaction

	release func() // gives back its place in the pool, or SQLite's writer

	ending  sync.Mutex // held while the transaction ends: Commit, Rollback or the deadline
	ended   bool
	checked bool  // SQLite: the savepoint was there, see stillOpen
	gone    bool  // PostgreSQL: the last statement has found another transaction
	lost    error // why it is not known which rows were committed: see undo
	steps   int   // that have written in it, of a Resume attempt
}

const (
	setSavepoint    = "SAVEPOINT " + sqltext.Savepoint
	backToSavepoint = "ROLLBACK TO SAVEPOINT " + sqltext.Savepoint
)

// entry is what a transaction writes besides the app's rows: the answer of an attempt, the result of a step, the marker of a
// message. It shows afterwards whether the transaction has committed.
type entry interface {
	// lock is the advisory lock that the transaction holds; PostgreSQL.
	lock() int64
	// trace is a query that finds a row for as long as the transaction is open; SQLite.
	trace() (name statement, args []any)
	// committed reports whether the entry is there, once the transaction has ended.
	committed(ctx context.Context, q querier) (bool, error)
	// lose records, in another transaction, that it is not known which rows of this one were committed. If the entry was
	// undone, it is written again. If there is another transaction's entry now, that entry stays. left is how long the
	// handler may still run.
	lose(ctx context.Context, q querier, left time.Duration) error
	// leave releases what was reserved for the transaction in this process.
	leave()
}

func (d *database) newTx(own *sql.Conn, e entry) *tx {
	t := &tx{db: d, entry: e, release: d.leaveAttempt}
	t.conn = &conn{sql: own, db: d, alive: t.alive, onEnded: t.loseEarly, guarded: guardedConns(own)}
	return t
}

// open opens a transaction for e on a connection of the pool. begin sends BEGIN, and what belongs to it.
func (d *database) open(ctx context.Context, e entry, begin func(t *tx) error) (*tx, error) {
	own, err := d.pool.Conn(ctx)
	if err != nil {
		return nil, err
	}
	t := d.newTx(own, e)
	if err := begin(t); err != nil {
		t.conn.end()
		txn.Rollback(own)
		return nil, err
	}
	return t, nil
}

// during makes ctx the handler's.
func (t *tx) during(ctx context.Context) { t.conn.attempt = ctx }

// use returns the connection for statements of the handler's transaction.
func (t *tx) use() *conn {
	t.asked.Store(true)
	return t.conn
}

// alive reports on SQLite whether the transaction is still open: the row that it has written first can be seen nowhere else.
func (t *tx) alive(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, txn.EndTimeout)
	defer cancel()
	name, args := t.entry.trace()
	var one int
	return t.db.queryRow(ctx, t.conn.sql, name, args...).Scan(&one) == nil
}

// holdsWriter reports that SQLite's one writer is the transaction's.
func (t *tx) holdsWriter() bool {
	t.conn.mu.RLock()
	defer t.conn.mu.RUnlock()
	return t.db.file != nil && !t.conn.over
}

// end ends the handler's access and runs fn, once. Later calls get errOver.
func (t *tx) end(fn func() error) error {
	t.ending.Lock()
	defer t.ending.Unlock()
	if t.ended {
		return errOver
	}
	t.ended = true
	t.conn.end()
	return fn()
}

// leave releases what the transaction holds in this process. First the connection must be closed, or its transaction
// ended.
func (t *tx) leave() {
	t.entry.leave()
	t.release()
}

// undo rolls back and leaves. It fails with store.ErrEnded if the handler has ended the transaction itself: the handler's
// rows may have been committed.
func (t *tx) undo() error {
	if !t.rollback() {
		t.lost = t.lose()
	}
	t.leave()
	return t.lost
}

// SQLSTATEs of PostgreSQL.
const (
	nothingRecorded = "22012" // of recordAnswer, recordOver and recordStep: a division by zero
	recordedBefore  = "23505" // of recordAnswer: a unique violation
	notOurs         = "22P02" // of recordAnswer, recordOver and asBegun: not an integer
	clockOutside    = "22003" // of recordRunning and sealRunning: no integer is so large
	aborted         = "25P02"
	noSavepoint     = "3B001"
	queryCanceled   = "57014"
)

// rollback ends the transaction and gives its connection back. It returns false if the handler has ended it before.
func (t *tx) rollback() (ours bool) {
	ctx, cancel := txn.Ending()
	defer cancel()
	if t.db.dialect == sqlite {
		if ours = t.checked || t.oursSQLite(ctx); ctx.Err() != nil {
			txn.Discard(t.conn.sql)
		} else {
			txn.Rollback(t.conn.sql)
		}
		return ours
	}
	ours, err := t.rollbackPostgres(ctx)
	if err != nil {
		txn.Discard(t.conn.sql)
	} else {
		t.conn.giveBack()
	}
	return ours
}

// rollbackPostgres ends the transaction. It returns false if the handler has ended it before; then it ends the one that the
// handler has begun, if there is one. After an error the connection must be closed.
//
// In a transaction that has failed nothing can be read. There the server's status after each of the handler's statements is
// the proof that it was never ended. Where the driver does not show it, the library's savepoint is: only the transaction
// that was begun has it.
func (t *tx) rollbackPostgres(ctx context.Context) (ours bool, err error) {
	own := t.conn.sql
	ours = !t.gone && !t.conn.ended.Load()
	if ours && txn.Status(own) != txn.Failed {
		check, err := t.db.call(ctx, own, asBegun, []any{new(int)}, t.mark.args()...)
		if err == nil {
			_, err = txn.Send(ctx, own, check, txn.Call{Text: "ROLLBACK"})
		}
		switch state := txn.SQLState(err); {
		case err == nil:
			return true, nil
		case state == "": // broken, or busy
			return true, err
		case state == notOurs:
			ours = false
		case state == aborted && txn.Status(own) == txn.Unknown:
			_, missing := own.ExecContext(ctx, backToSavepoint)
			ours = txn.SQLState(missing) != noSavepoint
		}
	}
	_, err = own.ExecContext(ctx, "ROLLBACK")
	return ours, err
}

// oursSQLite reports whether the library's savepoint is there, or SQLite itself has ended the transaction after the error of
// a statement: nothing was sent after that.
func (t *tx) oursSQLite(ctx context.Context) bool {
	_, err := t.conn.sql.ExecContext(ctx, backToSavepoint)
	if err == nil || ctx.Err() != nil { // a busy connection is closed
		return true
	}
	return t.conn.mayHaveFailed() && !t.alive(ctx)
}

// lose records that it is not known which rows were committed. It tries for endPatience: if the entry was undone, the key is
// free until lose succeeds.
func (t *tx) lose() error {
	ctx, cancel := context.WithTimeout(context.Background(), endPatience)
	defer cancel()
	var err error
	recorded := txn.Again(ctx, txn.Long, func(int) bool {
		err = t.db.transact(ctx, func(q querier) error { return t.entry.lose(ctx, q, 0) })
		return err == nil
	})
	if !recorded {
		return fmt.Errorf("%w; and it could not be recorded: %w", store.ErrEnded, err)
	}
	return store.ErrEnded
}

// loseEarly is lose while the handler is still at work: a repeat, or the end of the process, must not find a free key. It
// tries once, because the end of the attempt does the rest.
func (t *tx) loseEarly(ctx context.Context) {
	var left time.Duration
	if deadline, ok := ctx.Deadline(); ok {
		left = max(0, time.Until(deadline))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), store.DefaultClaimTimeout)
	defer cancel()
	_ = t.db.transact(ctx, func(q querier) error { return t.entry.lose(ctx, q, left) })
}

// Rollback implements [store.Tx].
func (t *tx) Rollback() error {
	if _ = t.end(t.undo); t.lost != nil { // by this call, or the one that ended it
		return t.lost
	}
	if retryable := t.conn.failure(); retryable != nil {
		return fmt.Errorf("%w: %w", store.ErrRetryable, retryable)
	}
	return nil
}

// run does the rest of a transaction that has begun: work, the last message.
func (t *tx) run(
	ctx context.Context, work func(tx *gorm.DB) error, last func(ctx context.Context) (lastCalls, error),
) error {
	defer func() { _ = t.Rollback() }() // an error, a panic; does nothing after the end

	// The deadline and a lost lease end the transaction even if work does not look at its context.
	stop := context.AfterFunc(ctx, func() { _ = t.Rollback() })
	defer stop()
	bound := t.Bind(ctx)
	if err := work(t.db.session(bound, t.conn)); err != nil {
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
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), endPatience)
	defer cancel()
	return t.finish(patience, func() (lastCalls, error) { return last(patience) })
}

// endPatience is how long the store waits for the end of a step's or a message's transaction.
const endPatience = 10 * time.Second

// finish sends the last message, or rolls back.
func (t *tx) finish(ctx context.Context, last func() (lastCalls, error)) error {
	return t.end(func() error {
		err := t.failed(ctx)
		var calls lastCalls
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
func (t *tx) failed(ctx context.Context) error {
	if t.conn.ended.Load() {
		return store.ErrEnded
	}
	if retryable := t.conn.failure(); retryable != nil {
		return fmt.Errorf("%w: %w", store.ErrRetryable, retryable)
	}
	if t.conn.message.Load() != nil { // no more statements are admitted: the message has no end
		return fmt.Errorf("%w: %w", store.ErrAborted, errUnfinished)
	}
	if t.db.dialect == sqlite && !t.alive(ctx) {
		return fmt.Errorf("%w: %w", store.ErrAborted, errLost)
	}
	return nil
}

// failedStep returns why the segment of a step cannot commit. A failed statement dooms it, unless the handler has undone the
// statement with a savepoint.
func (t *tx) failedStep(ctx context.Context) error {
	if err := t.failed(ctx); err != nil {
		return err
	}
	if err := t.conn.distress(false); err != nil {
		return err
	}
	if err := t.conn.standing(); err != nil {
		return fmt.Errorf("%w: %w", store.ErrAborted, err)
	}
	return nil
}

var errUnfinished = errors.New("idem: gormstore: a message was still being processed in the transaction when it ended; wait " +
	"for Inbox.Process before the handler returns")

// stillOpen fails on SQLite unless the transaction is the one that was begun: only that one has the savepoint. On PostgreSQL
// the last message itself checks that.
func (t *tx) stillOpen(ctx context.Context) error {
	_, err := t.conn.sql.ExecContext(ctx, "RELEASE SAVEPOINT "+sqltext.Savepoint)
	t.checked = err == nil
	if err != nil {
		return notCommitted(err)
	}
	return nil
}

// commitOnly is the last message of a transaction whose entry was written first. It fails in a transaction that a failed
// statement has aborted: there COMMIT would roll back without an error.
func (t *tx) commitOnly(ctx context.Context) (lastCalls, error) {
	if t.db.dialect == sqlite {
		return committing(), t.stillOpen(ctx)
	}
	check, err := t.db.call(ctx, t.conn.sql, asBegun, []any{new(int)}, t.mark.args()...)
	if err != nil {
		return lastCalls{}, err
	}
	return t.restored(ctx, check)
}

// restored returns calls and COMMIT, after the settings that the handler may have changed are as they were. They are
// restored first: a driver may prepare the message's statements before it sends it, and for that the role must be the
// library's.
func (t *tx) restored(ctx context.Context, calls ...txn.Call) (lastCalls, error) {
	if err := t.conn.restoreSettings(ctx); err != nil {
		return lastCalls{}, notCommitted(err)
	}
	return committing(calls...), nil
}
