package txn

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Call is one statement of a message.
type Call struct {
	Name Statement // of the library's own
	Text string
	Args []any // $1, $2 and so on
	Row  []any // pointers that take the columns of the statement's row, if it has one; nil: no row is read

	Changed *int64 // takes how many rows the statement has changed, if it has no Row; may be nil

	changes int       // see Must
	bound   *together // of a database whose Args are in Text; nil elsewhere
}

// calls are those of texts.
func calls(texts []string) []Call {
	all := make([]Call, len(texts))
	for i, text := range texts {
		all[i].Text = text
	}
	return all
}

// Must is a call that changes n rows, or else fails. What may change fewer fails by itself where it can, because COMMIT may
// be on its way, and returns one row otherwise.
func (d *Database) Must(n int, c Call) Call {
	switch proves := d.Dialect.Proves; {
	case d.Dialect.Returns:
		c.changes = 1
	case proves == nil || !proves(c.Name):
		c.changes = n
	}
	return c
}

// errUnchanged: a statement of the library has changed less than it must.
var errUnchanged = errors.New("idem: gormstore: the record was not there, or was another one's")

// Send sends calls over a connection, in this order. Over pgx, the driver of gorm.io/driver/postgres, they are one message
// and one round trip; over another driver, or a wrapped one, they go one after the other. No call is run behind one that
// has failed. Send returns how many have succeeded, and the error of the next one.
//
// When ctx ends, pgx closes the connection and sends a cancel request. So a message with a COMMIT is sent with a context
// that never ends.
func Send(ctx context.Context, own *sql.Conn, calls ...Call) (succeeded int, err error) {
	return sendUntil(ctx, time.Time{}, own, calls)
}

// Ask is Send for calls that commit nothing. Over pgx the deadline of ctx is set on the connection itself, which is
// cheaper than a context that is watched. A connection that did not answer in time is closed, as with a context.
func Ask(ctx context.Context, own *sql.Conn, calls ...Call) error {
	end, _ := ctx.Deadline()
	_, err := sendUntil(ctx, end, own, calls)
	return err
}

// sendUntil is Send, until end if the connection takes a deadline. A tunnel may refuse one: then ctx is watched.
func sendUntil(ctx context.Context, end time.Time, own *sql.Conn, calls []Call) (succeeded int, err error) {
	if isBlank := func(c Call) bool { return c.Text == "" }; slices.ContainsFunc(calls, isBlank) { // there is no use for it
		calls = slices.DeleteFunc(slices.Clone(calls), isBlank)
	}
	known := false
	closed := own.Raw(func(connection any) error {
		std, ok := Pgx(connection)
		if known = ok; !known {
			return nil
		}
		if network := std.Conn().PgConn().Conn(); !end.IsZero() && network.SetDeadline(end) == nil {
			defer func() { _ = network.SetDeadline(time.Time{}) }() // before anything else is sent
			if err = ctx.Err(); err != nil {
				return nil
			}
			ctx = context.WithoutCancel(ctx)
		}
		succeeded, err = sendBatch(ctx, std.Conn(), calls)
		return nil
	})
	if known || closed != nil {
		if succeeded > 0 && succeeded < len(calls) { // else a driver may have prepared them all before it sent the first
			calls = calls[succeeded : succeeded+1]
		}
		return succeeded, named(cmp.Or(closed, err), calls...)
	}
	if areTogether(calls) {
		return sendTogether(ctx, own, calls, end.IsZero())
	}
	for i, c := range calls {
		if err = c.send(ctx, own); err != nil {
			return i, named(err, c)
		}
	}
	return len(calls), nil
}

// send sends a call through database/sql.
func (c *Call) send(ctx context.Context, own *sql.Conn) error {
	if c.bound != nil {
		ctx = context.WithValue(ctx, ownText{}, true)
	}
	before, last := parts(c.Text)
	for _, text := range before {
		if _, err := own.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	if c.Row != nil {
		return c.scanned(own.QueryRowContext(ctx, last, c.Args...).Scan(c.Row...))
	}
	result, err := own.ExecContext(ctx, last, c.Args...)
	if err != nil || c.Changed == nil && c.changes == 0 { // not every driver counts
		return err
	}
	n, err := result.RowsAffected()
	if err != nil {
		return err
	}
	return c.counted(n)
}

// parts are the statements of a text: see dialect.Dialect.Bind.
func parts(text string) (before []string, last string) {
	if !strings.Contains(text, ";\n") {
		return nil, text
	}
	all := strings.Split(text, ";\n")
	return all[:len(all)-1], all[len(all)-1]
}

// scanned is the outcome of a call with a row, whose Scan has returned err.
func (c *Call) scanned(err error) error {
	if c.changes > 0 && errors.Is(err, sql.ErrNoRows) {
		return errUnchanged
	}
	return withoutRow(err)
}

// counted is the outcome of a call without one, which has changed n rows.
func (c *Call) counted(n int64) error {
	if c.Changed != nil {
		*c.Changed = n
	}
	if c.changes > 0 && n != int64(c.changes) {
		return errUnchanged
	}
	return nil
}

// sendBatch sends all calls, COMMIT too, before it knows how many rows one of them has changed: all have succeeded then.
func sendBatch(ctx context.Context, conn *pgx.Conn, calls []Call) (succeeded int, err error) {
	if only := calls[0]; len(calls) == 1 { // without a pipeline; and of a COMMIT alone, nothing is prepared
		if only.Row != nil {
			err = only.scanned(conn.QueryRow(ctx, only.Text, only.Args...).Scan(only.Row...))
		} else {
			var tag pgconn.CommandTag
			if tag, err = conn.Exec(ctx, only.Text, only.Args...); err == nil {
				err = only.counted(tag.RowsAffected())
			}
		}
		if err != nil {
			return 0, err
		}
		return 1, nil
	}
	var unchanged error
	var batch pgx.Batch
	for _, c := range calls {
		batch.Queue(c.Text, c.Args...)
	}
	results := conn.SendBatch(ctx, &batch)
	defer func() {
		if closed := results.Close(); err == nil {
			err = closed // the last call has been answered, but the answer is not whole
		}
	}()
	for _, c := range calls {
		if c.Row != nil {
			err = c.scanned(results.QueryRow().Scan(c.Row...))
		} else {
			var tag pgconn.CommandTag
			if tag, err = results.Exec(); err == nil {
				err = c.counted(tag.RowsAffected())
			}
		}
		if errors.Is(err, errUnchanged) {
			unchanged, err = err, nil
		}
		if err != nil {
			return succeeded, err
		}
		succeeded++
	}
	return succeeded, unchanged
}

// withoutRow is the error of a statement that may have no row.
func withoutRow(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	return err
}
