package main

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync"
)

// statement is one that the library has sent, and what it was sent with.
type statement struct {
	sql  string
	args []any
	rows bool // it was a query: its rows were read
}

// recorder opens connections of a driver, and records what is sent over them. So the floor always sends the statements that
// the library really sends, also after a change of the library.
type recorder struct {
	driver.Connector

	mu   sync.Mutex
	on   bool
	sent []statement
}

// listen returns what was sent while fn ran.
func (r *recorder) listen(fn func() error) ([]statement, error) {
	r.set(true)
	err := fn()
	return r.set(false), err
}

func (r *recorder) set(on bool) []statement {
	r.mu.Lock()
	defer r.mu.Unlock()
	sent := r.sent
	r.on, r.sent = on, nil
	return sent
}

func (r *recorder) note(query string, args []driver.NamedValue, rows bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.on {
		return
	}
	s := statement{sql: query, rows: rows}
	for _, arg := range args {
		if b, ok := arg.Value.([]byte); ok {
			arg.Value = bytes.Clone(b)
		}
		s.args = append(s.args, arg.Value)
	}
	r.sent = append(r.sent, s)
}

// Connect implements [driver.Connector].
func (r *recorder) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := r.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return recordedConn{c, r}, nil
}

// recordedConn sends all that has parameters as prepared statements, of which it knows the end of each.
type recordedConn struct {
	driver.Conn
	r *recorder
}

func (c recordedConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	s, err := c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	return recordedStmt{s, c.Conn, query, c.r}, nil
}

func (c recordedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if len(args) > 0 {
		return nil, driver.ErrSkip
	}
	result, err := c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
	if !errors.Is(err, driver.ErrSkip) {
		c.r.note(query, args, false)
	}
	return result, err
}

func (c recordedConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	tx, err := c.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts)
	if err != nil {
		return nil, err
	}
	begin := "BEGIN"
	if opts.Isolation == driver.IsolationLevel(sql.LevelSerializable) {
		begin = "BEGIN IMMEDIATE" // only on SQLite is a transaction begun so
	}
	c.r.note(begin, nil, false)
	return recordedTx{tx, c.r}, nil
}

type recordedTx struct {
	driver.Tx
	r *recorder
}

func (t recordedTx) Commit() error {
	t.r.note("COMMIT", nil, false)
	return t.Tx.Commit()
}

func (t recordedTx) Rollback() error {
	t.r.note("ROLLBACK", nil, false)
	return t.Tx.Rollback()
}

type recordedStmt struct {
	driver.Stmt
	conn  driver.Conn
	query string
	r     *recorder
}

func (s recordedStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	s.r.note(s.query, args, false)
	return s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
}

func (s recordedStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	s.r.note(s.query, args, true)
	return s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
}

// CheckNamedValue converts an argument as the driver itself does.
func (s recordedStmt) CheckNamedValue(value *driver.NamedValue) error {
	for _, by := range []any{s.Stmt, s.conn} {
		if checker, ok := by.(driver.NamedValueChecker); ok {
			return checker.CheckNamedValue(value)
		}
	}
	return driver.ErrSkip
}
