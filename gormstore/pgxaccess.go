package gormstore

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/auth19/idem/gormstore/internal/txn"
)

// PgxDBTX runs a handler's statements over pgx itself. It has the methods of the DBTX interface that sqlc generates for
// pgx/v5, with those for :copyfrom and for batches.
type PgxDBTX interface {
	Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, query string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, query string, args ...any) pgx.Row
	CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, rows pgx.CopyFromSource) (int64, error)
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// PgxTx is SQLTx for users of pgx, on PostgreSQL: the same transaction, with the same rules. Transaction control is refused
// before anything is sent, also in a batch; outside the steps of a Resume handler it only reads, so that CopyFrom is
// refused there. The connection has one result at a time: close rows and the results of a batch before the next statement.
//
// Rows.Conn is nil. A [pgx.QueryRewriter] gets no connection either; [pgx.NamedArgs] needs none. If the store's database is
// not over pgx, all methods fail: gorm.io/driver/postgres is, and stdlib.OpenDBFromPool over a pgxpool.
func PgxTx(ctx context.Context) (PgxDBTX, bool) { return txn.PgxFrom(ctx) }
