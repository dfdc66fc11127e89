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

	"github.com/auth19/idem/core"
)

// tx is a transaction with an app's statements in it. It has its own connection, on which the store itself sends BEGIN
// and COMMIT. It does not use the transactions of database/sql, because a context can cancel their COMMIT, and this
// COMMIT is never cancelled.
type tx struct {
	store *Store
	conn  *conn
	entry entry
	pid   uint32      // of the server's process; 0 where it is not known
	asked atomic.Bool // the handler has asked for the transaction

	unwatch func() // nil, or ends what watchStrays has begun

	marked    bool // the library's savepoint was set
	pipelined bool // the last statements go together with COMMIT

	ending  sync.Mutex // held while the transaction ends: Commit, Rollback or the deadline
	ended   bool
	checked bool  // SQLite: the savepoint was there, see stillOpen
	gone    bool  // PostgreSQL: the savepoint was not there
	lost    error // why nobody knows which rows were committed: see undo
}

// entry is what a transaction writes besides the app's rows: the answer of an attempt, the result of a step, the marker of a
// message. It shows afterwards whether the transaction has committed.
type entry interface {
	// lock is the advisory lock that the transaction holds; PostgreSQL.
	lock() int64
	// trace is a query that finds a row for as long as the transaction is open; SQLite.
	trace() (name statement, args []any)
	// committed reports whether the entry is there, once the transaction has ended.
	committed(ctx context.Context, s *Store, q querier) (bool, error)
	// touch is a statement that writes a committed entry without changing it: see the statement touch.
	touch() (name statement, args []any)
	// lose records, in another transaction, that nobody knows which rows of this one were committed. If the entry was
	// undone, it is written again. If there is another transaction's entry now, that entry stays.
	lose(ctx context.Context, s *Store, q querier) error
	// leave releases what was reserved for the transaction in this process.
	leave(s *Store)
}

func (s *Store) newTx(own *sql.Conn, e entry) *tx {
	t := &tx{store: s, entry: e}
	t.conn = newConn(own, s, t.alive)
	return t
}

// endTimeout bounds a ROLLBACK. A connection that does not answer is closed, and the server rolls back by itself.
const endTimeout = 5 * time.Second

// rollback ends the transaction on c, if there is one, and gives the connection back.
func rollback(c *sql.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	if _, err := c.ExecContext(ctx, "ROLLBACK"); err != nil {
		discard(c) // a connection with an open transaction must not go back to the pool
		return
	}
	_ = c.Close()
}

// alive reports on SQLite whether the transaction is still open: the row that it has written first can be seen nowhere else.
func (t *tx) alive(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	name, args := t.entry.trace()
	var one int
	return t.store.queryRow(ctx, t.conn.sql, name, args...).Scan(&one) == nil
}

// holdsWriter reports that SQLite's one writer is the transaction's.
func (t *tx) holdsWriter() bool {
	t.conn.mu.RLock()
	defer t.conn.mu.RUnlock()
	return t.store.file != nil && !t.conn.over
}

// end ends the handler's access and runs fn, once. Later calls get errOver.
func (t *tx) end(fn func() error) error {
	t.ending.Lock()
	defer t.ending.Unlock()
	if t.ended {
		return errOver
	}
	t.ended = true
	if t.unwatch != nil {
		t.unwatch()
	}
	t.conn.end()
	return fn()
}

// leave releases what the transaction holds in this process. First the connection must be closed, or its transaction
// ended.
func (t *tx) leave() {
	t.entry.leave(t.store)
	t.store.leaveAttempt()
}

// undo rolls back and leaves. It fails with core.ErrEnded if the handler has ended the transaction itself: the handler's
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
	divisionByZero = "22012" // of rollbackOurs
	aborted        = "25P02"
	noSavepoint    = "3B001"
	noTransaction  = "25P01"

	lockNotAvailable = "55P03"
	queryCanceled    = "57014"
)

// rollback ends the transaction. It returns false if the handler has ended it before.
func (t *tx) rollback() (ours bool) {
	c := t.conn.sql
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	if t.store.dialect == sqlite {
		if ours = t.checked || t.oursSQLite(ctx); ctx.Err() != nil {
			discard(c)
		} else {
			rollback(c)
		}
		return ours
	}
	_, err := t.store.exec(ctx, c, rollbackOurs)
	switch {
	case err == nil:
		_ = c.Close()
	case sqlState(err) == "": // broken, or busy
		discard(c)
	case sqlState(err) == aborted && t.marked: // only the transaction that was begun has the library's savepoint
		_, missing := c.ExecContext(ctx, backToSavepoint)
		t.gone = t.gone || sqlState(missing) == noSavepoint
		rollback(c)
	default: // a failed statement has aborted the transaction; or this is another transaction, or none
		rollback(c)
	}
	return sqlState(err) != divisionByZero && !t.gone
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

// lose records that nobody knows which rows were committed. It tries for endPatience: if the entry was undone, the key is
// free until lose succeeds.
func (t *tx) lose() error {
	ctx, cancel := context.WithTimeout(context.Background(), endPatience)
	defer cancel()
	for pause := 5 * time.Millisecond; ; pause *= 2 {
		err := t.store.transact(ctx, func(q querier) error { return t.entry.lose(ctx, t.store, q) })
		if err == nil {
			return core.ErrEnded
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w; and it could not be recorded: %w", core.ErrEnded, err)
		}
	}
}

// Rollback implements [core.Tx].
func (t *tx) Rollback() error {
	if _ = t.end(t.undo); t.lost != nil { // by this call, or the one that ended it
		return t.lost
	}
	if retryable := t.conn.failure(); retryable != nil {
		return fmt.Errorf("%w: %w", core.ErrRetryable, retryable)
	}
	return nil
}

// run does the rest of a transaction that has begun: work, the last statement, COMMIT.
func (t *tx) run(ctx context.Context, work func(tx *gorm.DB) error, last func(ctx context.Context) error) error {
	defer func() { _ = t.Rollback() }() // an error, a panic; does nothing after the end

	// The deadline and a lost lease end the transaction even if work does not look at its context.
	stop := context.AfterFunc(ctx, func() { _ = t.Rollback() })
	defer stop()
	bound := t.Bind(ctx)
	if err := work(bindingFrom(bound).gorm.WithContext(bound)); err != nil {
		switch ended := t.Rollback(); {
		case errors.Is(ended, core.ErrEnded):
			err = fmt.Errorf("%w: %w", ended, err)
		case ended != nil && !errors.Is(err, core.ErrRetryable):
			err = fmt.Errorf("%w: %w", core.ErrRetryable, err)
		}
		return err
	}
	if !stop() {
		return context.Cause(ctx)
	}
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), endPatience)
	defer cancel()
	return t.finish(patience, func() ([]PipelineStatement, error) { return nil, last(patience) })
}

// endPatience is how long the store waits for the end of a step's or a message's transaction.
const endPatience = 10 * time.Second

// finish runs the last statements and commits; or rolls back. What last returns is sent together with COMMIT.
func (t *tx) finish(ctx context.Context, last func() ([]PipelineStatement, error)) error {
	return t.end(func() error {
		err := t.failed(ctx)
		var together []PipelineStatement
		if err == nil {
			together, err = last()
		}
		if err != nil {
			return cmp.Or(t.undo(), err)
		}
		return t.commit(ctx, together)
	})
}

// failed returns the error after which nothing may commit: of the handler's statements, or of a message that has joined
// the transaction. The marker of a message that is still being processed must not commit without the rest of its rows.
func (t *tx) failed(ctx context.Context) error {
	if retryable := t.conn.failure(); retryable != nil {
		return fmt.Errorf("%w: %w", core.ErrRetryable, retryable)
	}
	if t.conn.message.Load() != nil { // no more statements are admitted: the message has no end
		return fmt.Errorf("%w: %w", core.ErrAborted, errUnfinished)
	}
	if t.store.dialect == sqlite && !t.alive(ctx) {
		return fmt.Errorf("%w: %w", core.ErrAborted, errLost)
	}
	return nil
}

// stillOpen fails on SQLite unless the transaction is the one that was begun: only that one has the savepoint. On PostgreSQL
// the last statement itself checks that (asBegun).
func (t *tx) stillOpen(ctx context.Context) error {
	if t.store.dialect == postgres {
		return nil
	}
	_, err := t.conn.sql.ExecContext(ctx, "RELEASE SAVEPOINT "+savepoint)
	t.checked = err == nil
	return err
}

// intact is the last statement before COMMIT. It fails in a transaction that a failed statement has aborted: there COMMIT
// would roll back without an error.
func (t *tx) intact(ctx context.Context) error {
	err := t.conn.restoreSettings(ctx)
	if err == nil {
		err = t.stillOpen(ctx)
	}
	if err == nil && t.store.dialect == postgres {
		var ours bool
		if err = t.store.queryRow(ctx, t.conn.sql, asBegun).Scan(&ours); err == nil && !ours {
			return fmt.Errorf("%w: %w", core.ErrAborted, errNotRecorded)
		}
	}
	if err != nil {
		return notCommitted(err)
	}
	return nil
}

// errNotRecorded: the last statement of a transaction found no row to write to. The transaction is not the one that was
// begun, or somebody has changed the library's row in it.
var errNotRecorded = errors.New("idem: gormstore: the record of the attempt is gone")
