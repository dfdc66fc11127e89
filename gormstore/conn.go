package gormstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync"
)

// DBTX is what statements of a handler run on: GORM's connection of an attempt, and the DBTX interface that sqlc
// generates for database/sql.
type DBTX interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

var (
	errOver = errors.New("idem: gormstore: the attempt is over, and its transaction with it; do not keep the context or " +
		"the transaction of a handler beyond its return")
	errNotYours = errors.New("idem: gormstore: the attempt ends its own transaction; return an error or a status from " +
		"the handler instead of calling Commit or Rollback")
)

// conn is the connection of an attempt's transaction as handlers see it. It looks at every error, because a handler
// may swallow one that decides what becomes of the attempt, and it refuses statements after the end.
type conn struct {
	sql     *sql.Conn
	dialect *dialect
	alive   func(ctx context.Context) bool // SQLite: the transaction is still there
	attempt context.Context                // set by Bind

	mu        sync.RWMutex // held for reading by statements, for writing by the end
	over      bool
	stateMu   sync.Mutex
	retryable error // the first error that asks for a repeat of the whole command
	lost      error // the error that ended the transaction behind our back
}

var _ DBTX = (*conn)(nil)

// begin admits a statement; done must be called after it with its error.
func (c *conn) begin() error {
	c.mu.RLock()
	if c.over {
		c.mu.RUnlock()
		return errOver
	}
	c.stateMu.Lock()
	defer c.stateMu.Unlock()
	if c.lost != nil {
		c.mu.RUnlock()
		return c.lost
	}
	return nil
}

func (c *conn) done(ctx context.Context, err error) {
	defer c.mu.RUnlock()
	if err != nil {
		c.note(ctx, err)
	}
}

// within returns ctx if it descends from the attempt's, or else one with its values that ends with the attempt: a
// statement under context.Background() would keep the rollback at the deadline waiting.
func (c *conn) within(ctx context.Context) context.Context {
	if t := txFrom(ctx); c.attempt == nil || t != nil && t.conn == c {
		return ctx
	}
	return foreign{Context: c.attempt, values: ctx}
}

// foreign ends with one context and has the values of another.
type foreign struct {
	context.Context
	values context.Context
}

// Value implements [context.Context].
func (f foreign) Value(key any) any { return f.values.Value(key) }

// note remembers what an error means for the transaction.
func (c *conn) note(ctx context.Context, err error) {
	// SQLite ends a transaction by itself where a statement is cut by its context or the disk is full; what comes then
	// would be committed on its own. PostgreSQL refuses everything after an error until a rollback.
	lost := c.dialect == sqlite && !c.alive(context.WithoutCancel(ctx))
	c.stateMu.Lock()
	defer c.stateMu.Unlock()
	if c.retryable == nil && isRetryable(err) {
		c.retryable = err
	}
	if c.lost == nil && lost {
		c.lost = errors.Join(errors.New("idem: gormstore: an earlier statement has ended the transaction"), err)
	}
}

// failure returns the errors noted so far.
func (c *conn) failure() (retryable, lost error) {
	c.stateMu.Lock()
	defer c.stateMu.Unlock()
	return c.retryable, c.lost
}

// ExecContext implements [DBTX].
func (c *conn) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if err := c.begin(); err != nil {
		return nil, err
	}
	result, err := c.sql.ExecContext(c.within(ctx), query, args...)
	c.done(ctx, err)
	return result, err
}

// PrepareContext implements [DBTX].
func (c *conn) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) {
	if err := c.begin(); err != nil {
		return nil, err
	}
	stmt, err := c.sql.PrepareContext(c.within(ctx), query)
	c.done(ctx, err)
	return stmt, err
}

// QueryContext implements [DBTX].
func (c *conn) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if err := c.begin(); err != nil {
		return nil, err
	}
	rows, err := c.sql.QueryContext(c.within(ctx), query, args...)
	c.done(ctx, err)
	return rows, err //nolint:sqlclosecheck // the caller's
}

// QueryRowContext implements [DBTX].
func (c *conn) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if err := c.begin(); err != nil {
		cancelled, cancel := context.WithCancelCause(ctx)
		cancel(err) // a *sql.Row cannot be made with an error: an ended context makes one
		return c.sql.QueryRowContext(cancelled, query, args...)
	}
	row := c.sql.QueryRowContext(c.within(ctx), query, args...)
	c.done(ctx, row.Err())
	return row
}

// Commit refuses: the attempt commits. That there are Commit and Rollback makes GORM use a savepoint for a transaction
// inside the attempt's.
func (c *conn) Commit() error { return errNotYours }

// Rollback refuses: the attempt rolls back.
func (c *conn) Rollback() error { return errNotYours }

// discard closes a connection for good instead of giving it back to the pool.
func discard(c *sql.Conn) {
	_ = c.Raw(func(any) error { return driver.ErrBadConn })
	_ = c.Close()
}
