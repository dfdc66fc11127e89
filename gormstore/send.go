package gormstore

import (
	"context"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/auth19/idem/gormstore/internal/txn"
)

// askAlone is ask for one statement that only reads, over any connection of the pool. Where a connection turns out to be
// broken, it is sent again over another one.
func (d *database) askAlone(ctx context.Context, name statement, row []any, args ...any) error {
	return txn.OverAnother(ctx, func() error {
		return txn.Retry(ctx, func() error { return d.askOn(ctx, d.pool, name, nil, row, args...) })
	})
}

// askOn is ask for one statement on q. As database/sql does, it takes another connection of the pool where nothing was sent
// over the first. by is among what a statement returns that writes; nil for others.
func (d *database) askOn(ctx context.Context, q querier, name statement, by *server, row []any, args ...any) error {
	if q != querier(d.pool) {
		return txn.WithoutRow(d.queryRow(ctx, q, name, args...).Scan(row...))
	}
	for again := true; ; again = false {
		own, err := d.pool.Conn(ctx)
		if err != nil {
			return err
		}
		only, err := d.call(ctx, own, name, row, args...)
		if err == nil {
			err = txn.Ask(ctx, own, only)
		}
		if by != nil { // before the connection has another user
			by.warned = d.notices.Warned(by.pid)
		}
		_ = own.Close()
		if !again || !pgconn.SafeToRetry(err) {
			return err
		}
	}
}
