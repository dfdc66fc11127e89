package txn

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"io"
)

// rowOf returns a row of rows, or of an error. A [sql.Row] closes its rows only when it is scanned, and they cannot be
// reached from outside: those of a row that is never scanned would stay open. So the row comes from a driver of its own,
// which answers with rows that the attempt knows. The attempt can close them, and sees the errors of Scan.
func rowOf(rows *sql.Rows, err error, shut func() error) *sql.Row {
	db := sql.OpenDB(rowConnector{&rowConn{oneRow{rows, shut}, err}})
	row := db.QueryRowContext(context.Background(), "")
	_ = db.Close() // the row keeps what it uses
	return row
}

// refusedRow returns a row that has an error.
func refusedRow(err error) *sql.Row { return rowOf(nil, err, nil) }

type rowConnector struct{ conn *rowConn }

// Connect implements [driver.Connector].
func (c rowConnector) Connect(context.Context) (driver.Conn, error) { return c.conn, nil }

// Driver implements [driver.Connector].
func (c rowConnector) Driver() driver.Driver { return nil } // the database is never handed out, so it is not asked

type rowConn struct {
	rows oneRow
	err  error // instead of the rows
}

// QueryContext implements [driver.QueryerContext].
func (c *rowConn) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	return c.rows, c.err
}

// Prepare implements [driver.Conn].
func (c *rowConn) Prepare(string) (driver.Stmt, error) { return nil, driver.ErrSkip }

// Begin implements [driver.Conn].
func (c *rowConn) Begin() (driver.Tx, error) { return nil, driver.ErrSkip }

// Close implements [driver.Conn].
func (c *rowConn) Close() error { return nil }

type oneRow struct {
	rows *sql.Rows
	shut func() error // why the rows may have been closed before they were read; nil if they were not
}

// Columns implements [driver.Rows].
func (r oneRow) Columns() []string {
	names, _ := r.rows.Columns()
	return names
}

// Next implements [driver.Rows].
func (r oneRow) Next(row []driver.Value) error {
	if !r.rows.Next() {
		return cmp.Or(r.shut(), r.rows.Err(), io.EOF) // "no rows" would be an answer
	}
	values, into := make([]any, len(row)), make([]any, len(row))
	for i := range values {
		into[i] = &values[i]
	}
	err := r.rows.Scan(into...)
	for i, v := range values {
		row[i] = v
	}
	return err
}

// Close implements [driver.Rows].
func (r oneRow) Close() error { return r.rows.Close() }
