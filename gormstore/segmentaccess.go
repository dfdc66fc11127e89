package gormstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"

	"gorm.io/gorm"

	"github.com/auth19/idem/gormstore/internal/sqltext"
)

// A Resume handler writes only in its steps, because the next attempt takes over what a step has written, and nothing else.
// So each step has an access of its own to the segment's connection, which ends with the step. Elsewhere the handler reads.

// stepConn is a segment's connection as a step sees it.
type stepConn struct {
	*conn
	ends <-chan struct{} // of the step's context, which ends with the attempt
	over atomic.Bool
}

var _ dbtx = (*stepConn)(nil)

// bindStep returns the context for the work of a step, and a function that ends the step's access.
func (t *tx) bindStep(ctx context.Context) (inside context.Context, leave func()) {
	access := &stepConn{conn: t.conn, ends: ctx.Done()}
	t.conn.step.Store(access)
	b := &binding{tx: t, raw: access}
	return context.WithValue(ctx, txKey{}, b), func() {
		access.over.Store(true)
		t.conn.step.Store(nil)
		t.conn.stateMu.Lock()
		defer t.conn.stateMu.Unlock()
		t.conn.checkRows()
	}
}

// pgx returns the segment's connection for statements of pgx.
func (c *stepConn) pgx(context.Context, ...string) (*conn, error) {
	if c.over.Load() {
		return nil, errStepOver
	}
	return c.conn, nil
}

// session is a session of the app's db whose statements go over an attempt's connection.
func (d *database) session(ctx context.Context, conn gorm.ConnPool) *gorm.DB {
	session := d.gorm.Session(&gorm.Session{NewDB: true, Context: ctx})
	session.Statement.ConnPool = conn
	session.Statement.Settings.Store(attemptSetting, conn)
	return session
}

// ExecContext implements dbtx.
func (c *stepConn) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if c.over.Load() {
		return nil, errStepOver
	}
	return c.conn.ExecContext(ctx, query, args...)
}

// QueryContext implements dbtx.
func (c *stepConn) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if c.over.Load() {
		return nil, errStepOver
	}
	return c.conn.QueryContext(ctx, query, args...)
}

// QueryRowContext implements dbtx.
func (c *stepConn) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if c.over.Load() {
		return refusedRow(errStepOver)
	}
	return c.conn.QueryRowContext(ctx, query, args...)
}

// errStepOver: a step's transaction was kept.
var errStepOver = errors.New("idem: gormstore: the step is over; write in a step of your own, and do not keep its transaction")

type readerKey struct{}

// reader is how a Resume handler reads outside its steps: in the open segment, so that it sees what its steps have written.
type reader struct {
	db *database
	of attemptSegments
}

// attemptSegments are the transactions of a Resume attempt, one after the other.
type attemptSegments interface {
	// current returns the open one. It opens one if none is open.
	current(ctx context.Context) (*tx, error)
	// openOrFirst returns the open one, or the first one; nil behind the first seal where none is open.
	openOrFirst(ctx context.Context) (*tx, error)
	// hasOpen reports whether one is open.
	hasOpen() bool
}

var _ dbtx = (*reader)(nil)

// withReader returns the context of a Resume handler outside its steps.
func withReader(ctx context.Context, d *database, of attemptSegments) context.Context {
	return context.WithValue(ctx, readerKey{}, &reader{d, of})
}

// session reads with GORM.
func (r *reader) session(ctx context.Context) *gorm.DB { return r.db.session(ctx, r) }

func readerFrom(ctx context.Context) *reader {
	r, _ := ctx.Value(readerKey{}).(*reader)
	return r
}

func (r *reader) conn(ctx context.Context, queries ...string) (*conn, error) {
	for _, query := range queries {
		if why := sqltext.MayWrite(r.db.dialect.text, query); why != "" {
			return nil, fmt.Errorf("%w. This may write: %s", outsideStep{}, why)
		}
	}
	t, err := r.of.current(ctx)
	if err != nil {
		return nil, err
	}
	return t.conn, nil
}

// ExecContext implements dbtx.
func (r *reader) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	c, err := r.conn(ctx, query)
	if err != nil {
		return nil, err
	}
	return c.ExecContext(ctx, query, args...)
}

// PrepareContext implements dbtx.
func (r *reader) PrepareContext(context.Context, string) (*sql.Stmt, error) { return nil, errPrepare }

// QueryContext implements dbtx.
func (r *reader) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	c, err := r.conn(ctx, query)
	if err != nil {
		return nil, err
	}
	return c.QueryContext(ctx, query, args...)
}

// QueryRowContext implements dbtx.
func (r *reader) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	c, err := r.conn(ctx, query)
	if err != nil {
		return refusedRow(err)
	}
	return c.QueryRowContext(ctx, query, args...)
}

// Commit refuses, as that of the attempt's connection does. GORM uses a savepoint for a transaction inside.
func (r *reader) Commit() error { return errNotYours }

// Rollback refuses likewise.
func (r *reader) Rollback() error { return errNotYours }
