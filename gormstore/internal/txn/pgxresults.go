package txn

import (
	"cmp"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// unread are results that a handler was given, and perhaps has not read: of database/sql or of pgx. Close reads their rest.
// An error may come while they are read.
type unread interface {
	Close() error
	Err() error
}

// pgxTurn serialises what reads results of pgx: the handler, and the end of the attempt, which closes them.
type pgxTurn struct {
	conn   *Conn
	ends   func() // of the context of the statement
	mu     sync.Mutex
	closed bool // by the library: what was not read is not there any more
}

// read runs fn, unless the library has closed the results.
func (t *pgxTurn) read(fn func()) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return errClosed
	}
	_, err := onPgx(t.conn, func(*pgx.Conn) (struct{}, error) { fn(); return struct{}{}, nil })
	return err
}

func (t *pgxTurn) isClosed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

// close runs fn, and lets nothing be read behind it.
func (t *pgxTurn) close(fn func() error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	defer t.ends()
	_, err := onPgx(t.conn, func(*pgx.Conn) (struct{}, error) { return struct{}{}, fn() })
	return err
}

// errClosed: results are read after another statement was sent, or after the attempt has ended.
var errClosed = errors.New("idem: gormstore: these results were closed before they were read: the attempt is over, or a " +
	"call, a step, a checkpoint or another statement came in between; read results to their end before, in the handler")

// pgxRows are the rows of a statement as the handler gets them.
type pgxRows struct {
	turn *pgxTurn
	rows pgx.Rows // nil: the statement was not sent
	err  error    // why there are no rows, or no more
	over bool     // they have ended, or the handler has closed them

	inBatch bool // there may be results behind them
}

var _ pgx.Rows = (*pgxRows)(nil)

// Close implements [pgx.Rows].
func (r *pgxRows) Close() {
	if r.rows != nil {
		_ = r.turn.read(r.rows.Close)
		r.over = true
		r.endStatement()
	}
}

// Err implements [pgx.Rows].
func (r *pgxRows) Err() error {
	if r.rows == nil || r.err != nil {
		return r.err
	}
	r.turn.mu.Lock()
	failed := r.rows.Err()
	r.turn.mu.Unlock()
	return cmp.Or(failed, r.cutShort())
}

// cutShort returns an error if the library has closed the rows before the handler has read them to their end. It is asked
// when the handler reads on.
func (r *pgxRows) cutShort() error {
	if r.over || !r.turn.isClosed() {
		return nil
	}
	r.err = r.turn.conn.readOn()
	return r.err
}

// Next implements [pgx.Rows].
func (r *pgxRows) Next() (more bool) {
	if r.rows == nil || r.err != nil || r.over {
		return false
	}
	if r.err = r.turn.read(func() { more = r.rows.Next() }); errors.Is(r.err, errClosed) {
		_ = r.turn.conn.readOn()
	}
	if r.over = !more && r.err == nil; r.over {
		r.endStatement()
	}
	return more
}

// endStatement ends the context of the statement, unless there are results behind these.
func (r *pgxRows) endStatement() {
	if !r.inBatch {
		r.turn.ends()
	}
}

// Scan implements [pgx.Rows]. The row lies in the connection's buffer.
func (r *pgxRows) Scan(targets ...any) error {
	if r.rows == nil || cmp.Or(r.err, r.cutShort()) != nil {
		return r.err
	}
	r.turn.mu.Lock()
	defer r.turn.mu.Unlock()
	if r.turn.closed {
		return errClosed
	}
	return r.rows.Scan(targets...)
}

// Values implements [pgx.Rows].
func (r *pgxRows) Values() (values []any, err error) {
	if r.rows == nil || cmp.Or(r.err, r.cutShort()) != nil {
		return nil, r.err
	}
	r.turn.mu.Lock()
	defer r.turn.mu.Unlock()
	if r.turn.closed {
		return nil, errClosed
	}
	return r.rows.Values()
}

// RawValues implements [pgx.Rows]. They are valid until the next row.
func (r *pgxRows) RawValues() [][]byte {
	if r.rows == nil {
		return nil
	}
	return r.rows.RawValues()
}

// FieldDescriptions implements [pgx.Rows].
func (r *pgxRows) FieldDescriptions() []pgconn.FieldDescription {
	if r.rows == nil {
		return nil
	}
	return r.rows.FieldDescriptions()
}

// CommandTag implements [pgx.Rows].
func (r *pgxRows) CommandTag() pgconn.CommandTag {
	if r.rows == nil {
		return pgconn.CommandTag{}
	}
	r.turn.mu.Lock()
	defer r.turn.mu.Unlock()
	return r.rows.CommandTag()
}

// Conn implements [pgx.Rows]. It is nil: a handler must not use the attempt's connection itself.
func (r *pgxRows) Conn() *pgx.Conn { return nil }

// TypeMap implements [pgx.Rows], which has it since pgx v5.11.
func (r *pgxRows) TypeMap() *pgtype.Map {
	if r.rows == nil {
		return nil
	}
	return r.rows.Conn().TypeMap()
}

// pgxUnread are rows as the library closes them.
type pgxUnread struct{ *pgxRows }

// Close implements [unread].
func (r pgxUnread) Close() error {
	return r.turn.close(func() error { r.rows.Close(); return nil })
}

// Err implements [unread].
func (r pgxUnread) Err() error {
	r.turn.mu.Lock()
	defer r.turn.mu.Unlock()
	return r.rows.Err()
}

// pgxRow is the one row of a statement.
type pgxRow struct{ rows pgx.Rows }

// Scan implements [pgx.Row].
func (r pgxRow) Scan(targets ...any) error {
	defer r.rows.Close()
	for _, target := range targets {
		if _, borrows := target.(*pgtype.DriverBytes); borrows {
			return errors.New("idem: gormstore: PgxTx: a *pgtype.DriverBytes is not valid behind QueryRow; use a *[]byte")
		}
	}
	if !r.rows.Next() {
		return cmp.Or(r.rows.Err(), pgx.ErrNoRows)
	}
	if err := r.rows.Scan(targets...); err != nil {
		return err
	}
	r.rows.Close()
	return r.rows.Err()
}
