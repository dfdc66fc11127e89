package txn

import (
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
		if err == nil {
			err = Ask(ctx, own, only)
		}
		if by != nil { // before the connection has another user
			by.warned = d.Notices.Warned(by.PID)
		}
		return err
	})
}
