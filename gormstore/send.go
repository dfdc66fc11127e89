package gormstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// call is one statement of a message to PostgreSQL.
type call struct {
	text string
	args []any // $1, $2 and so on
	row  []any // pointers that take the columns of the statement's row, if it has one; nil: no row is read

	blind bool // it is only for a driver that does not show the transaction's status
}

const (
	commitCall   = "COMMIT"
	rollbackCall = "ROLLBACK"
)

// send sends calls over a connection, in this order. Over pgx, the driver of gorm.io/driver/postgres, they are one message
// and one round trip; over another driver, or a wrapped one, they go one after the other. No call is run behind one that
// has failed. send returns how many have succeeded, and the error of the next one.
//
// When ctx ends, pgx closes the connection and sends a cancel request. So a message with a COMMIT is sent with a context
// that never ends.
func (s *Store) send(ctx context.Context, own *sql.Conn, calls ...call) (succeeded int, err error) {
	return sendUntil(ctx, time.Time{}, own, calls)
}

// ask is send for calls that commit nothing. Over pgx the deadline of ctx is set on the connection itself, which is
// cheaper than a context that is watched. A connection that did not answer in time is closed, as with a context.
func (s *Store) ask(ctx context.Context, own *sql.Conn, calls ...call) error {
	end, _ := ctx.Deadline()
	_, err := sendUntil(ctx, end, own, calls)
	return err
}

// sendUntil is send, until end if the connection takes a deadline. A tunnel may refuse one: then ctx is watched.
func sendUntil(ctx context.Context, end time.Time, own *sql.Conn, calls []call) (succeeded int, err error) {
	known := false
	closed := own.Raw(func(connection any) error {
		std, ok := pgxStd(connection)
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
		calls = slices.DeleteFunc(calls, func(c call) bool { return c.blind })
		succeeded, err = sendBatch(ctx, std.Conn(), calls)
		return nil
	})
	if known || closed != nil {
		return succeeded, cmp.Or(closed, err)
	}
	for i, c := range calls {
		if c.row != nil {
			err = withoutRow(own.QueryRowContext(ctx, c.text, c.args...).Scan(c.row...))
		} else {
			_, err = own.ExecContext(ctx, c.text, c.args...)
		}
		if err != nil {
			return i, err
		}
	}
	return len(calls), nil
}

// askAlone is ask for one statement that only reads, over any connection of the pool. Where a connection turns out to be
// broken, it is sent again over another one.
func (s *Store) askAlone(ctx context.Context, name statement, row []any, args ...any) error {
	return overAnother(ctx, func() error {
		return retry(ctx, func() error { return s.askOn(ctx, s.pool, name, row, args...) })
	})
}

// askOn is ask for one statement on q. As database/sql does, it takes another connection of the pool where nothing was sent
// over the first.
func (s *Store) askOn(ctx context.Context, q querier, name statement, row []any, args ...any) error {
	if q != querier(s.pool) {
		return withoutRow(s.queryRow(ctx, q, name, args...).Scan(row...))
	}
	for again := true; ; again = false {
		own, err := s.pool.Conn(ctx)
		if err != nil {
			return err
		}
		only, err := s.call(ctx, own, name, row, args...)
		if err == nil {
			err = s.ask(ctx, own, only)
		}
		_ = own.Close()
		if !again || !pgconn.SafeToRetry(err) {
			return err
		}
	}
}

func sendBatch(ctx context.Context, conn *pgx.Conn, calls []call) (succeeded int, err error) {
	if only := calls[0]; len(calls) == 1 { // without a pipeline; and of a COMMIT alone, nothing is prepared
		if only.row != nil {
			err = withoutRow(conn.QueryRow(ctx, only.text, only.args...).Scan(only.row...))
		} else {
			_, err = conn.Exec(ctx, only.text, only.args...)
		}
		if err != nil {
			return 0, err
		}
		return 1, nil
	}
	var batch pgx.Batch
	for _, c := range calls {
		batch.Queue(c.text, c.args...)
	}
	results := conn.SendBatch(ctx, &batch)
	defer func() {
		if closed := results.Close(); err == nil {
			err = closed // the last call has been answered, but the answer is not whole
		}
	}()
	for _, c := range calls {
		if c.row != nil {
			err = withoutRow(results.QueryRow().Scan(c.row...))
		} else {
			_, err = results.Exec()
		}
		if err != nil {
			return succeeded, err
		}
		succeeded++
	}
	return succeeded, nil
}

// withoutRow is the error of a statement that may have no row.
func withoutRow(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	return err
}

// What the server says of a transaction at the end of each of its answers, as pgx keeps it.
const (
	idle    = 'I' // there is none
	failed  = 'E' // a statement in it has failed
	unknown = 0   // another driver, or a wrapped one, which does not show it
)

// status returns the server's word on the transaction of a connection.
func status(own *sql.Conn) (s byte) {
	_ = own.Raw(func(connection any) error {
		if std, ok := pgxStd(connection); ok {
			s = std.Conn().PgConn().TxStatus()
		}
		return nil
	})
	return s
}
