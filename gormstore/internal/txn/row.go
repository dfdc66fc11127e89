package txn

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"io"
	"reflect"
	"sync"
	"sync/atomic"
	"time"
)

// A [sql.Rows] and a [sql.Row] are concrete types: they do not say that somebody else has closed them, and end as if they
// had been read. So a handler gets rows of a driver of the library's own, which answers with those of the database. The
// library closes the latter, and whoever reads on in the former gets an error. It sees the errors of Scan, too.

// handouts are the database of that driver. It costs as much as some ten queries, and has a goroutine: so all attempts share
// it, and it is closed where nobody has needed it for a while.
type handouts struct {
	mu   sync.RWMutex
	db   *sql.DB
	used atomic.Bool // since unneeded was called
}

// handoutsStay is for how long.
const handoutsStay = 100 * time.Millisecond

// use runs fn with the database.
func (h *handouts) use(fn func(db *sql.DB)) {
	h.mu.RLock()
	for h.db == nil {
		h.mu.RUnlock()
		h.open()
		h.mu.RLock()
	}
	defer h.mu.RUnlock()
	h.used.Store(true)
	fn(h.db)
}

func (h *handouts) open() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.db == nil {
		h.db = sql.OpenDB(rowConnector{})
		h.db.SetMaxIdleConns(64)
		time.AfterFunc(handoutsStay, h.unneeded)
	}
}

// unneeded closes the database if nobody has needed it. Rows that are open keep what they use.
func (h *handouts) unneeded() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.used.Swap(false) {
		time.AfterFunc(handoutsStay, h.unneeded)
		return
	}
	_ = h.db.Close()
	h.db = nil
}

// rows returns rows for the handler.
func (h *handouts) rows(r *handedRows) (rows *sql.Rows, err error) {
	h.use(func(db *sql.DB) {
		rows, err = db.QueryContext(context.Background(), "", r) //nolint:rowserrcheck,sqlclosecheck // the handler's
	})
	return rows, err
}

// row returns a row for the handler.
func (h *handouts) row(r *handedRows) (row *sql.Row) {
	h.use(func(db *sql.DB) { row = db.QueryRowContext(context.Background(), "", r) })
	return row
}

// refused returns a row that has an error.
func (h *handouts) refused(err error) *sql.Row { return h.row(&handedRows{err: err}) }

type rowConnector struct{}

// Connect implements [driver.Connector].
func (rowConnector) Connect(context.Context) (driver.Conn, error) { return rowConn{}, nil }

// Driver implements [driver.Connector].
func (rowConnector) Driver() driver.Driver { return nil } // the database is never handed out, so it is not asked

// rowConn answers a query with the rows that are its argument.
type rowConn struct{}

// CheckNamedValue implements [driver.NamedValueChecker].
func (rowConn) CheckNamedValue(*driver.NamedValue) error { return nil }

// QueryContext implements [driver.QueryerContext].
func (rowConn) QueryContext(_ context.Context, _ string, args []driver.NamedValue) (driver.Rows, error) {
	r := args[0].Value.(*handedRows)
	return r, r.err
}

// Prepare implements [driver.Conn].
func (rowConn) Prepare(string) (driver.Stmt, error) { return nil, driver.ErrSkip }

// Begin implements [driver.Conn].
func (rowConn) Begin() (driver.Tx, error) { return nil, driver.ErrSkip }

// Close implements [driver.Conn].
func (rowConn) Close() error { return nil }

// handedRows are rows of the database, as the handler's are read from them.
type handedRows struct {
	rows *sql.Rows
	err  error // instead of them
	conn *Conn
	out  *sql.Rows   // the handler's; nil: it has a row
	ends func()      // of their context
	shut atomic.Bool // the library has closed them
	more bool        // another result comes behind the one that has ended

	types  []*sql.ColumnType
	values []any
	into   []any
}

// Columns implements [driver.Rows].
func (r *handedRows) Columns() []string {
	names, _ := r.rows.Columns()
	return names
}

// Next implements [driver.Rows].
func (r *handedRows) Next(row []driver.Value) error {
	if more := r.rows.Next(); r.shut.Load() {
		return r.conn.readOn()
	} else if !more {
		if err := r.rows.Err(); err != nil {
			r.conn.failedRow()
			return err
		}
		if r.more = r.rows.NextResultSet(); !r.more {
			if err := r.rows.Err(); err != nil && !r.shut.Load() { // of a statement behind the one whose rows these are
				r.conn.failedRow()
				return err
			}
		}
		return io.EOF
	}
	if len(r.values) != len(row) {
		r.values, r.into = make([]any, len(row)), make([]any, len(row))
		for i := range r.values {
			r.into[i] = &r.values[i]
		}
	}
	err := r.rows.Scan(r.into...)
	for i, v := range r.values {
		row[i] = v
	}
	return err
}

// Close implements [driver.Rows]: the handler's rows are closed. A statement behind the one whose rows they are may have
// failed.
func (r *handedRows) Close() error {
	err := r.close()
	if err != nil {
		r.conn.failedClose(err)
	}
	return err
}

func (r *handedRows) close() error {
	defer r.ends()
	return r.rows.Close()
}

// HasNextResultSet implements [driver.RowsNextResultSet].
func (r *handedRows) HasNextResultSet() bool { return r.more }

// NextResultSet implements [driver.RowsNextResultSet].
func (r *handedRows) NextResultSet() error {
	if !r.more && !r.shut.Load() {
		return io.EOF
	}
	r.more, r.types, r.values = false, nil, nil
	return nil
}

// columnType is what the database says of a column.
func (r *handedRows) columnType(i int) *sql.ColumnType {
	if r.types == nil {
		r.types, _ = r.rows.ColumnTypes()
	}
	if i >= len(r.types) {
		return new(sql.ColumnType)
	}
	return r.types[i]
}

// ColumnTypeScanType implements [driver.RowsColumnTypeScanType].
func (r *handedRows) ColumnTypeScanType(i int) reflect.Type {
	if scan := r.columnType(i).ScanType(); scan != nil {
		return scan
	}
	return reflect.TypeFor[any]()
}

// ColumnTypeDatabaseTypeName implements [driver.RowsColumnTypeDatabaseTypeName].
func (r *handedRows) ColumnTypeDatabaseTypeName(i int) string {
	return r.columnType(i).DatabaseTypeName()
}

// ColumnTypeLength implements [driver.RowsColumnTypeLength].
func (r *handedRows) ColumnTypeLength(i int) (int64, bool) { return r.columnType(i).Length() }

// ColumnTypeNullable implements [driver.RowsColumnTypeNullable].
func (r *handedRows) ColumnTypeNullable(i int) (nullable, ok bool) { return r.columnType(i).Nullable() }

// ColumnTypePrecisionScale implements [driver.RowsColumnTypePrecisionScale].
func (r *handedRows) ColumnTypePrecisionScale(i int) (precision, scale int64, ok bool) {
	return r.columnType(i).DecimalSize()
}

// unreadRows are rows as the library closes them.
type unreadRows struct{ *handedRows }

// Close implements [unread].
func (r unreadRows) Close() error {
	r.shut.Store(true)
	return r.close()
}

// Err implements [unread].
func (r unreadRows) Err() error { return r.rows.Err() }

// forget takes the row away that the handler has read last. It is called in the goroutine of the handler.
func (r unreadRows) forget() {
	if r.out != nil {
		r.out.NextResultSet()
	}
}
