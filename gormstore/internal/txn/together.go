package txn

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync/atomic"
)

// together says of a database whose parameters are in its texts whether it takes several statements as one message: the
// address decides.
type together struct{ on atomic.Bool }

// askTogether asks a connection of the pool, once for all of them.
func (d *Database) askTogether(ctx context.Context, own *sql.Conn) {
	if d.bound == nil || d.bound.on.Load() {
		return
	}
	_, err := own.ExecContext(d.asOwn(ctx), "DO 1;\nDO 2")
	d.bound.on.Store(err == nil)
}

// areTogether reports that calls go as one text. That tells nothing of how many rows one of them has changed.
func areTogether(calls []Call) bool {
	known := false
	for _, c := range calls {
		if c.Changed != nil || c.changes > 0 {
			return false
		}
		known = known || c.bound != nil && c.bound.on.Load()
	}
	return known && len(calls) > 1
}

// endOfCall is the column of the row behind a call.
const endOfCall = "idem_end"

// sendTogether sends calls as one text. The server runs nothing behind a statement that fails. exact: behind an error it is
// known how many calls have succeeded, by a row behind each.
func sendTogether(ctx context.Context, own *sql.Conn, calls []Call, exact bool) (succeeded int, err error) {
	var text strings.Builder
	ends := make([]bool, len(calls))
	for i, c := range calls {
		text.WriteString(c.Text)
		if i+1 == len(calls) {
			break
		}
		if ends[i] = exact || c.bound != nil && c.Row == nil; ends[i] {
			text.WriteString(";\nSELECT 1 AS " + endOfCall)
		}
		text.WriteString(";\n")
	}
	rows, err := own.QueryContext(context.WithValue(ctx, ownText{}, true), text.String())
	if err != nil {
		return 0, named(err, calls[0])
	}
	defer func() { _ = rows.Close() }()
	n, unchanged := 0, error(nil)
	for more := true; more; more = rows.NextResultSet() {
		switch columns, _ := rows.Columns(); {
		case len(columns) == 0: // of statements that return none
			continue
		case len(columns) == 1 && columns[0] == endOfCall:
			for !ends[n] {
				n++
			}
			n++
			continue
		}
		for !ends[n] && calls[n].Row == nil && n+1 < len(calls) { // those have returned nothing
			n++
		}
		if c := calls[n]; c.Row != nil {
			err := c.scanned(scanOne(rows, c.Row))
			if errors.Is(err, errUnchanged) {
				unchanged = err
			} else if err != nil {
				return n, named(err, c)
			}
		}
		if !ends[n] && n+1 < len(calls) {
			n++
		}
	}
	if err := rows.Err(); err != nil {
		return n, named(err, calls[n])
	}
	return len(calls), unchanged
}

// scanOne reads the first row.
func scanOne(rows *sql.Rows, into []any) error {
	if !rows.Next() {
		if err := rows.Err(); err != nil {
			return err
		}
		return sql.ErrNoRows
	}
	return rows.Scan(into...)
}
