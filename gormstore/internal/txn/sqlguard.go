package txn

import (
	"context"
	"database/sql/driver"
	"errors"
	"reflect"

	"github.com/auth19/idem/gormstore/internal/sqltext"
)

// SQLGuard is the guard around a connector: see gormstore.SQLWriteGuard.
func SQLGuard(connector driver.Connector) driver.Connector { return sqlGuard{connector} }

type sqlGuard struct{ driver.Connector }

// Connect implements [driver.Connector].
func (g sqlGuard) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := g.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &sqlGuardConn{Conn: c, reads: readsOf(g.Driver())}, nil
}

// readsOf is how the database of a driver reads a text.
func readsOf(d driver.Driver) sqltext.Dialect {
	of := reflect.TypeOf(d)
	for of != nil && of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	for _, known := range Dialects {
		if of != nil && known.Driver != "" && of.PkgPath() == known.Driver {
			return known.Text
		}
	}
	return sqltext.Unknown
}

// sqlGuardConn is a connection of an app's own *sql.DB, or an attempt's where the store is over the same one.
type sqlGuardConn struct {
	driver.Conn
	reads sqltext.Dialect
	begun context.Context // of an attempt, with which a transaction was begun; nil: there is none
}

var (
	_ driver.ConnBeginTx        = (*sqlGuardConn)(nil)
	_ driver.ConnPrepareContext = (*sqlGuardConn)(nil)
	_ driver.ExecerContext      = (*sqlGuardConn)(nil)
	_ driver.QueryerContext     = (*sqlGuardConn)(nil)
	_ driver.Pinger             = (*sqlGuardConn)(nil)
	_ driver.NamedValueChecker  = (*sqlGuardConn)(nil)
	_ driver.SessionResetter    = (*sqlGuardConn)(nil)
	_ driver.Validator          = (*sqlGuardConn)(nil)
)

// check returns the error of a text that may write past the attempt.
func (c *sqlGuardConn) check(ctx context.Context, text string) error {
	sent := ctx
	if c.begun != nil && !IsOutside(ctx) {
		ctx = c.begun
	}
	refusal := outsideOf(ctx)
	if refusal == nil || sqltext.IsControl(c.reads, text) || isOwn(sent, text) {
		return nil
	}
	if _, attempts := attemptConns.Load(c); attempts {
		return nil
	}
	return pastAttempt(ctx, refusal, c.reads, text)
}

// ExecContext implements [driver.ExecerContext].
func (c *sqlGuardConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if err := c.check(ctx, query); err != nil {
		return nil, err
	}
	if below, ok := c.Conn.(driver.ExecerContext); ok {
		return below.ExecContext(ctx, query, args)
	}
	return nil, driver.ErrSkip
}

// QueryContext implements [driver.QueryerContext].
func (c *sqlGuardConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if err := c.check(ctx, query); err != nil {
		return nil, err
	}
	if below, ok := c.Conn.(driver.QueryerContext); ok {
		return below.QueryContext(ctx, query, args)
	}
	return nil, driver.ErrSkip
}

// PrepareContext implements [driver.ConnPrepareContext].
func (c *sqlGuardConn) PrepareContext(ctx context.Context, query string) (stmt driver.Stmt, err error) {
	if err := c.check(ctx, query); err != nil {
		return nil, err
	}
	if below, ok := c.Conn.(driver.ConnPrepareContext); ok {
		stmt, err = below.PrepareContext(ctx, query)
	} else {
		stmt, err = c.Prepare(query)
	}
	if err != nil {
		return nil, err
	}
	return &sqlGuardStmt{Stmt: stmt, conn: c, text: query}, nil
}

// BeginTx implements [driver.ConnBeginTx]. Where the driver has none, database/sql's own rules hold.
func (c *sqlGuardConn) BeginTx(ctx context.Context, opts driver.TxOptions) (tx driver.Tx, err error) {
	if below, ok := c.Conn.(driver.ConnBeginTx); ok {
		tx, err = below.BeginTx(ctx, opts)
	} else if opts != (driver.TxOptions{}) {
		return nil, errors.New("idem: gormstore.SQLWriteGuard: this driver has no isolation levels and no read-only transactions")
	} else {
		tx, err = c.Begin() // a driver of before Go 1.8
	}
	if err != nil {
		return nil, err
	}
	if outsideOf(ctx) != nil {
		c.begun = ctx
	}
	return sqlGuardTx{tx, c}, nil
}

// Ping implements [driver.Pinger].
func (c *sqlGuardConn) Ping(ctx context.Context) error {
	if below, ok := c.Conn.(driver.Pinger); ok {
		return below.Ping(ctx)
	}
	return nil
}

// CheckNamedValue implements [driver.NamedValueChecker].
func (c *sqlGuardConn) CheckNamedValue(v *driver.NamedValue) error {
	if below, ok := c.Conn.(driver.NamedValueChecker); ok {
		return below.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

// ResetSession implements [driver.SessionResetter].
func (c *sqlGuardConn) ResetSession(ctx context.Context) error {
	c.begun = nil
	if below, ok := c.Conn.(driver.SessionResetter); ok {
		return below.ResetSession(ctx)
	}
	return nil
}

// BelowGuard implements [Guarded].
func (c *sqlGuardConn) BelowGuard() driver.Conn { return c.Conn }

// IsValid implements [driver.Validator].
func (c *sqlGuardConn) IsValid() bool {
	below, ok := c.Conn.(driver.Validator)
	return !ok || below.IsValid()
}

// sqlGuardTx is a transaction of the app's own.
type sqlGuardTx struct {
	driver.Tx
	conn *sqlGuardConn
}

// Commit implements [driver.Tx].
func (t sqlGuardTx) Commit() error {
	t.conn.begun = nil
	return t.Tx.Commit()
}

// Rollback implements [driver.Tx].
func (t sqlGuardTx) Rollback() error {
	t.conn.begun = nil
	return t.Tx.Rollback()
}

// sqlGuardStmt may have been prepared before there was an attempt.
type sqlGuardStmt struct {
	driver.Stmt
	conn *sqlGuardConn
	text string
}

var (
	_ driver.StmtExecContext   = (*sqlGuardStmt)(nil)
	_ driver.StmtQueryContext  = (*sqlGuardStmt)(nil)
	_ driver.NamedValueChecker = (*sqlGuardStmt)(nil)
	_ driver.ColumnConverter   = (*sqlGuardStmt)(nil) //nolint:staticcheck // older drivers have it
)

// ExecContext implements [driver.StmtExecContext].
func (s *sqlGuardStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	if err := s.conn.check(ctx, s.text); err != nil {
		return nil, err
	}
	if below, ok := s.Stmt.(driver.StmtExecContext); ok {
		return below.ExecContext(ctx, args)
	}
	values, err := unnamed(ctx, args)
	if err != nil {
		return nil, err
	}
	return s.Exec(values) // a driver of before Go 1.8
}

// QueryContext implements [driver.StmtQueryContext].
func (s *sqlGuardStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	if err := s.conn.check(ctx, s.text); err != nil {
		return nil, err
	}
	if below, ok := s.Stmt.(driver.StmtQueryContext); ok {
		return below.QueryContext(ctx, args)
	}
	values, err := unnamed(ctx, args)
	if err != nil {
		return nil, err
	}
	return s.Query(values) // a driver of before Go 1.8
}

// CheckNamedValue implements [driver.NamedValueChecker].
func (s *sqlGuardStmt) CheckNamedValue(v *driver.NamedValue) error {
	if below, ok := s.Stmt.(driver.NamedValueChecker); ok {
		return below.CheckNamedValue(v)
	}
	return s.conn.CheckNamedValue(v)
}

// ColumnConverter implements [driver.ColumnConverter].
func (s *sqlGuardStmt) ColumnConverter(i int) driver.ValueConverter {
	if below, ok := s.Stmt.(driver.ColumnConverter); ok { //nolint:staticcheck // older drivers have it
		return below.ColumnConverter(i)
	}
	return driver.DefaultParameterConverter
}

// unnamed are the arguments for a driver that knows neither names nor contexts.
func unnamed(ctx context.Context, args []driver.NamedValue) ([]driver.Value, error) {
	values := make([]driver.Value, len(args))
	for i, arg := range args {
		if arg.Name != "" {
			return nil, errors.New("idem: gormstore.SQLWriteGuard: this driver knows no named arguments")
		}
		values[i] = arg.Value
	}
	return values, ctx.Err()
}
