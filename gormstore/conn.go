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
	errLost = errors.New("idem: gormstore: an earlier statement has ended the transaction: SQLite does so where a write " +
		"is cut by its context, the disk is full, or a conflict is resolved with ROLLBACK")
	errPrepare = errors.New("idem: gormstore: an attempt prepares no statements, because it would not see their errors; " +
		"run them directly, drivers prepare and cache them by themselves (GORM: no Session{PrepareStmt: true} on Tx)")
)

// conn is the connection of an attempt's transaction as handlers see it. It looks at every error, because a handler
// may swallow one that decides what becomes of the attempt, and it refuses transaction control and statements
// after the end.
type conn struct {
	sql   *sql.Conn
	store *Store
	alive func(ctx context.Context) bool // SQLite: the transaction is still there

	life    context.Context // ends with the attempt, and what was begun in it
	cut     context.CancelCauseFunc
	attempt context.Context // the handler's, set by bind

	mu     sync.RWMutex // held for reading by statements, for writing by the end
	over   bool
	serial sync.Mutex // SQLite: alive and the statement after it are one step

	stateMu   sync.Mutex
	retryable error       // the first error that asks for a repeat of the whole command
	rows      []*sql.Rows // handed out; their errors come up while they are read
	erred     bool        // a statement has failed, or may have where nobody sees it
	settings  *settings   // as they were before a statement that may change them; nil where there was none
}

var _ DBTX = (*conn)(nil)

func newConn(own *sql.Conn, s *Store, alive func(context.Context) bool) *conn {
	c := &conn{sql: own, store: s, alive: alive}
	c.life, c.cut = context.WithCancelCause(context.Background())
	return c
}

// bind makes ctx the handler's: it ends with the attempt, and every statement with it.
func (c *conn) bind(ctx context.Context) context.Context {
	bound, cut := context.WithCancelCause(ctx)
	context.AfterFunc(c.life, func() { cut(errOver) })
	c.attempt = bound
	return bound
}

// end shuts the handler out. It waits for a statement that is under way, closes rows that were not read to their end,
// and cuts what is left: none may reach the connection after COMMIT.
func (c *conn) end() {
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	c.stateMu.Lock()
	defer c.stateMu.Unlock()
	c.checkRows()
	c.cut(errOver)
}

// begin admits a statement; done must be called after it.
func (c *conn) begin(ctx context.Context, query string) (err error) {
	inside := inspect(c.store.dialect, query)
	if inside.control != nil {
		return inside.control
	}
	c.mu.RLock()
	if c.store.dialect == sqlite {
		c.serial.Lock()
	}
	switch {
	case c.over:
		err = errOver
	case c.store.dialect == sqlite && !c.alive(context.WithoutCancel(ctx)):
		err = errLost // PostgreSQL refuses by itself; here it would be committed on its own
	case c.store.dialect == postgres && inside.changes:
		err = c.keepSettings(ctx)
	}
	if err != nil {
		c.leave()
	}
	return err
}

func (c *conn) leave() {
	if c.store.dialect == sqlite {
		c.serial.Unlock()
	}
	c.mu.RUnlock()
}

// done notes what became of a statement.
func (c *conn) done(rows *sql.Rows, err error) {
	defer c.leave()
	c.stateMu.Lock()
	defer c.stateMu.Unlock()
	if err != nil {
		c.note(err)
		return
	}
	if c.store.dialect == postgres {
		c.checkRows() // a connection has one result at a time: the rows before these are closed
	}
	if rows != nil {
		c.rows = append(c.rows, rows)
	}
}

// checkRows closes the rows that were handed out and notes the errors that came up while they were read.
func (c *conn) checkRows() {
	for _, rows := range c.rows {
		_ = rows.Close()
		c.note(rows.Err())
	}
	c.rows = nil
}

// note remembers an error that asks for a repeat of the whole command.
func (c *conn) note(err error) {
	c.erred = c.erred || err != nil
	if c.retryable == nil && isRetryable(err) {
		c.retryable = err
	}
}

// fail makes the transaction one that is not to commit.
func (c *conn) fail(err error) {
	c.stateMu.Lock()
	defer c.stateMu.Unlock()
	if c.retryable == nil {
		c.retryable = err
	}
}

// failure returns the first error that asks for a repeat of the whole command.
func (c *conn) failure() error {
	c.stateMu.Lock()
	defer c.stateMu.Unlock()
	return c.retryable
}

// mayHaveFailed reports whether a statement has failed, or was cut, or may have failed where nobody sees it.
func (c *conn) mayHaveFailed() bool {
	c.stateMu.Lock()
	defer c.stateMu.Unlock()
	return c.erred || c.attempt != nil && c.attempt.Err() != nil
}

// within returns a context that ends with ctx and with the attempt: a statement under context.Background() would keep
// the rollback at the deadline waiting.
func (c *conn) within(ctx context.Context) context.Context {
	attempt := c.attempt
	if attempt == nil || ctx.Done() == attempt.Done() {
		return ctx
	}
	both, cut := context.WithCancelCause(ctx)
	context.AfterFunc(attempt, func() { cut(context.Cause(attempt)) })
	return both
}

// ExecContext implements [DBTX].
func (c *conn) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if err := c.begin(ctx, query); err != nil {
		return nil, err
	}
	result, err := c.sql.ExecContext(c.within(ctx), query, args...)
	c.done(nil, err)
	return result, err
}

// PrepareContext refuses: the errors of a prepared statement would go unseen, and it could outlive the attempt.
func (c *conn) PrepareContext(context.Context, string) (*sql.Stmt, error) { return nil, errPrepare }

// QueryContext implements [DBTX].
func (c *conn) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if err := c.begin(ctx, query); err != nil {
		return nil, err
	}
	rows, err := c.sql.QueryContext(c.within(ctx), query, args...)
	c.done(rows, err)
	return rows, err
}

// QueryRowContext implements [DBTX].
func (c *conn) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if err := c.begin(ctx, query); err != nil {
		return refusedRow(ctx, c.store.pool, err)
	}
	row := c.sql.QueryRowContext(c.within(ctx), query, args...)
	c.done(nil, row.Err())
	c.stateMu.Lock()
	c.erred = true // perhaps: what comes up in Scan is not seen here
	c.stateMu.Unlock()
	return row
}

// refusedRow is a row that is an error. Only an ended context makes one: asked with it, the pool gives no connection.
func refusedRow(ctx context.Context, pool *sql.DB, err error) *sql.Row {
	ended, end := context.WithCancelCause(ctx)
	end(err)
	if pool == nil {
		pool = new(sql.DB) // it gives no connection either
	}
	return pool.QueryRowContext(ended, "")
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
