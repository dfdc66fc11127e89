package txn

import (
	"cmp"
	"context"
	"database/sql"
)

// AskAlone is Ask for one statement that only reads, over any connection of the pool. Where a connection turns out to be
// broken, it is sent again over another one.
func (d *Database) AskAlone(ctx context.Context, name Statement, row []any, args ...any) error {
	return OverAnother(ctx, func() error {
		return Retry(ctx, func() error { return d.AskOn(ctx, d.Pool, name, nil, row, args...) })
	})
}

// AskOn is Ask for one statement on q. by is among what a statement returns that writes; nil for others.
func (d *Database) AskOn(ctx context.Context, q Querier, name Statement, by *Server, row []any, args ...any) error {
	if q != Querier(d.Pool) {
		return withoutRow(d.QueryRow(ctx, q, name, args...).Scan(row...))
	}
	return d.onConn(ctx, name, func(own *sql.Conn) error {
		only, err := d.CallOf(ctx, own, name, row, args...)
		if err != nil {
			return err
		}
		return d.askOn(ctx, own, by, only)
	})
}

func (d *Database) askOn(ctx context.Context, own *sql.Conn, by *Server, calls ...Call) error {
	err := Ask(ctx, own, calls...)
	if by != nil { // before the connection has another user
		by.warned = d.Notices.Warned(by.PID)
	}
	return err
}

// AskLocked is AskOn for a statement that writes only with a lock, which is tried in front of it. Over pgx the two are one
// message, and one transaction.
func (d *Database) AskLocked(
	ctx context.Context, q Querier, lock int64, name Statement, by *Server, row []any, args ...any,
) error {
	if q != Querier(d.Pool) {
		if err := d.QueryRow(ctx, q, lockClaim, lock).Scan(new(string)); err != nil {
			return err
		}
		return d.AskOn(ctx, q, name, by, row, args...)
	}
	return d.onConn(ctx, name, func(own *sql.Conn) error {
		if Status(own) == Unknown { // it sends them one by one
			if err := d.ProbeGuards(ctx, own); err != nil {
				return err
			}
			guarded := append(d.Guards(TimeLeft(ctx)), lock)
			unconfirmed, err := d.transactOn(ctx, own, func(q Querier) error {
				if err := d.QueryRow(ctx, q, lockGuarded, guarded...).Scan(new(string), new(string)); err != nil {
					return err
				}
				return d.AskOn(ctx, q, name, by, row, args...)
			})
			return cmp.Or(err, unconfirmed)
		}
		try, err := d.CallOf(ctx, own, lockClaim, []any{new(string)}, lock)
		if err != nil {
			return err
		}
		only, err := d.CallOf(ctx, own, name, row, args...)
		if err != nil {
			return err
		}
		return d.askOn(ctx, own, by, try, only)
	})
}
