package gormstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/auth19/idem/core"
)

// tx is a transaction with an app's statements in it: a connection of its own, on which the store says BEGIN and COMMIT
// itself. database/sql's own transactions tie COMMIT to a context; this one is never cancelled.
type tx struct {
	store *Store
	conn  *conn
	entry entry
	pid   uint32      // of the server's process; 0 where it is not known
	asked atomic.Bool // the handler has asked for it

	marked bool // the library's savepoint was set

	ending  sync.Mutex // one end at a time: Commit, Rollback, the deadline
	ended   bool
	checked bool  // SQLite: the savepoint was there, see stillOpen
	gone    bool  // PostgreSQL: the savepoint was not
	lost    error // why nobody knows what has stayed: see undo
}

// entry is what a transaction writes beside the app's rows, so that it is known afterwards whether it has committed: the
// answer of an attempt, the result of a step, the marker of a message.
type entry interface {
	// lock is the advisory lock that the transaction holds; PostgreSQL.
	lock() int64
	// trace is a query that finds a row from the first statement of the transaction on until it has ended; SQLite.
	trace() (name statement, args []any)
	// committed reports whether the entry is there, once the transaction has ended.
	committed(ctx context.Context, s *Store, q querier) (bool, error)
	// touch is a statement that changes nothing of a committed entry: see touch.
	touch() (name statement, args []any)
	// lose makes it known that nobody knows what has stayed of the transaction, in another one. Where the entry was
	// undone it is written again; where somebody else's is there by now, it stays.
	lose(ctx context.Context, s *Store, q querier) error
	// leave gives back what was reserved for the transaction in this process.
	leave(s *Store)
}

func (s *Store) newTx(own *sql.Conn, e entry) *tx {
	t := &tx{store: s, entry: e}
	t.conn = newConn(own, s, t.alive)
	return t
}

// probeConnectionCheck finds out once whether the server can look after a client that went away (PostgreSQL 14).
func (s *Store) probeConnectionCheck(ctx context.Context, c *sql.Conn) error {
	if s.connectionCheck.Load() != 0 {
		return nil
	}
	_, err := c.ExecContext(ctx, "SELECT pg_catalog.set_config('client_connection_check_interval', '500', true)")
	switch {
	case err == nil:
		s.connectionCheck.Store(1)
	case slices.Contains([]string{"42704", "22023", "42501"}, sqlState(err)):
		s.connectionCheck.Store(2) // an unknown parameter, not for this system, not for this user
	default:
		return err
	}
	return nil
}

// endTimeout bounds a ROLLBACK. A connection that does not answer is dropped, and the server rolls back by itself.
const endTimeout = 5 * time.Second

// rollback ends the transaction on c, if there is one, and gives the connection back.
func rollback(c *sql.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	if _, err := c.ExecContext(ctx, "ROLLBACK"); err != nil {
		discard(c) // never a connection with an open transaction back into the pool
		return
	}
	_ = c.Close()
}

// alive reports whether the transaction is still there on SQLite: outside it, what it has written first is not.
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

// end shuts the handler out and runs fn, once; later calls get errOver.
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

// leave gives everything back. The connection must be out of its transaction, or discarded.
func (t *tx) leave() {
	t.entry.leave(t.store)
	t.store.leaveAttempt()
}

// undo rolls back and leaves. It fails with core.ErrEnded where the handler has ended the transaction itself: what it
// wrote before or after that may have stayed.
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
)

// rollback ends the transaction. It is false where the handler had ended it before.
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
	case sqlState(err) == aborted && t.marked: // its own savepoint tells it from another one
		_, missing := c.ExecContext(ctx, "ROLLBACK TO SAVEPOINT "+savepoint)
		t.gone = t.gone || sqlState(missing) == noSavepoint
		rollback(c)
	default: // aborted, and so open, as a failed statement leaves it; or another transaction, or none
		rollback(c)
	}
	return sqlState(err) != divisionByZero && !t.gone
}

// oursSQLite reports whether the library's savepoint is there, or else SQLite itself has ended the transaction, with the
// error of a statement: nothing was sent after it.
func (t *tx) oursSQLite(ctx context.Context) bool {
	_, err := t.conn.sql.ExecContext(ctx, "ROLLBACK TO SAVEPOINT "+savepoint)
	if err == nil || ctx.Err() != nil { // a busy connection is closed
		return true
	}
	return t.conn.mayHaveFailed() && !t.alive(ctx)
}

// lose makes it known that nobody knows what has stayed: for as long as endPatience, because the key is free until then
// where the entry was undone.
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

// finish runs the last statement and commits; or rolls back.
func (t *tx) finish(ctx context.Context, last func() error) error {
	return t.end(func() error {
		err := t.failed(ctx)
		if err == nil {
			err = last()
		}
		if err != nil {
			return cmp.Or(t.undo(), err)
		}
		return t.commit(ctx)
	})
}

// failed tells of what the handler's statements have run into.
func (t *tx) failed(ctx context.Context) error {
	if retryable := t.conn.failure(); retryable != nil {
		return fmt.Errorf("%w: %w", core.ErrRetryable, retryable)
	}
	if t.store.dialect == sqlite && !t.alive(ctx) {
		return fmt.Errorf("%w: %w", core.ErrAborted, errLost)
	}
	return nil
}

// stillOpen fails on SQLite unless the transaction is the one that was begun: the savepoint ends with it. On PostgreSQL
// the last statement itself asks for that (asBegun).
func (t *tx) stillOpen(ctx context.Context) error {
	if t.store.dialect == postgres {
		return nil
	}
	_, err := t.conn.sql.ExecContext(ctx, "RELEASE SAVEPOINT "+savepoint)
	t.checked = err == nil
	return err
}

// errNotRecorded: the last statement of a transaction found nothing to record in. The transaction is not the one that was
// begun, or somebody has changed the library's row in it.
var errNotRecorded = errors.New("idem: gormstore: the record of the attempt is gone")
