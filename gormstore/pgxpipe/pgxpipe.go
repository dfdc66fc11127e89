// Package pgxpipe lets gormstore send several statements in one round trip over pgx, the driver of gorm.io/driver/postgres.
//
//	store, err := gormstore.New(db, gormstore.WithPipeline(pgxpipe.New()))
//
// It works with every QueryExecMode of pgx, and behind PgBouncer. If a package wraps the driver (to trace or count
// statements), the store does not see pgx's connections and sends its statements one by one. Tracers of pgx itself get these
// statements where they implement [pgx.BatchTracer].
package pgxpipe

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/auth19/idem/gormstore"
)

// New returns the pipeline of pgx. Any number of stores and goroutines may use it.
func New() gormstore.Pipeline { return pipeline{} }

type pipeline struct{}

// Send implements [gormstore.Pipeline].
func (pipeline) Send(ctx context.Context, connection any, statements []gormstore.PipelineStatement) (int, error) {
	std, ok := connection.(*stdlib.Conn)
	if !ok {
		return 0, gormstore.ErrNotPipelined
	}
	conn := std.Conn()
	if len(statements) < 2 || !isBack(statements[0]) {
		return send(ctx, conn, statements)
	}
	// Before it sends a batch, pgx prepares what is new to it. The server refuses that in a transaction that has failed, and
	// under a role that the handler has taken, until the first statement has gone back to a savepoint.
	if conn.PgConn().TxStatus() != failed {
		succeeded, err := send(ctx, conn, statements)
		if err == nil || succeeded > 0 || conn.PgConn().TxStatus() != failed {
			return succeeded, err
		}
	}
	// Without arguments, Exec prepares nothing.
	if _, err := conn.Exec(ctx, statements[0].Text); err != nil {
		return 0, err
	}
	succeeded, err := send(ctx, conn, statements[1:])
	return 1 + succeeded, err
}

// isBack reports whether a statement goes back to a savepoint: it can be sent twice.
func isBack(s gormstore.PipelineStatement) bool {
	return strings.HasPrefix(s.Text, "ROLLBACK TO ") && len(s.Args) == 0
}

// failed is the server's status of a transaction in which a statement has failed.
const failed = 'E'

func send(ctx context.Context, conn *pgx.Conn, statements []gormstore.PipelineStatement) (succeeded int, err error) {
	var batch pgx.Batch
	for _, s := range statements {
		batch.Queue(s.Text, s.Args...)
	}
	results := conn.SendBatch(ctx, &batch)
	defer func() {
		if closed := results.Close(); err == nil {
			err = closed // COMMIT has been answered, but the answer is not whole
		}
	}()
	for _, s := range statements {
		if s.Row != nil {
			err = results.QueryRow().Scan(s.Row...)
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
