package txn

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
	*Conn
	ends <-chan struct{} // of the step's context, which ends with the attempt
	over atomic.Bool
}

var _ DBTX = (*stepConn)(nil)

// BindStep returns the context for the work of a step, and a function that ends the step's access.
func (t *Tx) BindStep(ctx context.Context) (inside context.Context, leave func()) {
	access := &stepConn{Conn: t.Conn, ends: ctx.Done()}
	t.Conn.step.Store(access)
	b := &Binding{Tx: t, Raw: access}
	return context.WithValue(ctx, txKey{}, b), func() {
		access.over.Store(true)
		t.Conn.step.Store(nil)
		t.Conn.CloseRows()
	}
}

// pgx returns the segment's connection for statements of pgx.
func (c *stepConn) pgx(context.Context, ...string) (*Conn, error) {
	if c.over.Load() {
		return nil, c.refused(errStepOver)
	}
	return c.Conn, nil
}

// session is a session of the app's db whose statements go over an attempt's connection.
func (d *Database) session(ctx context.Context, conn gorm.ConnPool) *gorm.DB {
	session := d.Gorm.Session(&gorm.Session{NewDB: true, Context: ctx})
	session.Statement.ConnPool = conn
	session.Statement.Settings.Store(attemptSetting, conn)
	return session
}

// ExecContext implements [DBTX].
func (c *stepConn) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if c.over.Load() {
		return nil, c.refused(errStepOver)
	}
	return c.Conn.ExecContext(ctx, query, args...)
}

// QueryContext implements [DBTX].
func (c *stepConn) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if c.over.Load() {
		return nil, c.refused(errStepOver)
	}
	return c.Conn.QueryContext(ctx, query, args...)
}

// QueryRowContext implements [DBTX].
func (c *stepConn) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if c.over.Load() {
		return c.db.handouts.refused(c.refused(errStepOver))
	}
	return c.Conn.QueryRowContext(ctx, query, args...)
}

// errStepOver: a step's transaction was kept.
var errStepOver = errors.New("idem: gormstore: the step is over; write in a step of your own, and do not keep its " +
	"transaction")

type readerKey struct{}

// Reader is how a Resume handler reads outside its steps: in the open segment, so that it sees what its steps have written.
type Reader struct {
	DB       *Database
	Segments Segments
	attempt  context.Context // the handler's
}

// Segments are the transactions of a Resume attempt, one after the other.
type Segments interface {
	// Current returns the open one. It opens one if none is open.
	Current(ctx context.Context) (*Tx, error)
	// OpenOrFirst returns the open one, or the first one; nil behind the first seal where none is open.
	OpenOrFirst(ctx context.Context) (*Tx, error)
	// HasOpen reports whether one is open.
	HasOpen() bool
}

var _ DBTX = (*Reader)(nil)

// WithReader returns the context of a Resume handler outside its steps.
func WithReader(ctx context.Context, d *Database, of Segments) context.Context {
	return context.WithValue(ctx, readerKey{}, &Reader{d, of, ctx})
}

// Session reads with GORM.
func (r *Reader) Session(ctx context.Context) *gorm.DB { return r.DB.session(ctx, r) }

// ReaderFrom returns the reader of the Resume handler that ctx belongs to; nil: there is none.
func ReaderFrom(ctx context.Context) *Reader {
	r, _ := ctx.Value(readerKey{}).(*Reader)
	return r
}

func (r *Reader) conn(ctx context.Context, queries ...string) (*Conn, error) {
	for _, query := range queries {
		if why := sqltext.MayWrite(r.DB.Dialect.Text, query); why != "" {
			return nil, refused(r.attempt, fmt.Errorf("%w. This may write: %s", outsideStep{}, why))
		}
	}
	t, err := r.Segments.Current(ctx)
	if err != nil {
		return nil, err
	}
	return t.Conn, nil
}

// ExecContext implements [DBTX].
func (r *Reader) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	c, err := r.conn(ctx, query)
	if err != nil {
		return nil, err
	}
	return c.ExecContext(ctx, query, args...)
}

// PrepareContext implements [DBTX].
func (r *Reader) PrepareContext(context.Context, string) (*sql.Stmt, error) {
	return nil, refused(r.attempt, errPrepare)
}

// QueryContext implements [DBTX].
func (r *Reader) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	c, err := r.conn(ctx, query)
	if err != nil {
		return nil, err
	}
	return c.QueryContext(ctx, query, args...)
}

// QueryRowContext implements [DBTX].
func (r *Reader) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	c, err := r.conn(ctx, query)
	if err != nil {
		return r.DB.handouts.refused(err)
	}
	return c.QueryRowContext(ctx, query, args...)
}

// Commit refuses, as that of the attempt's connection does. GORM uses a savepoint for a transaction inside.
func (r *Reader) Commit() error { return refused(r.attempt, errNotYours) }

// Rollback refuses likewise.
func (r *Reader) Rollback() error { return refused(r.attempt, errNotYours) }
