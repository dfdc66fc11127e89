package gormstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
)

// Pipeline sends several statements to PostgreSQL in one round trip. database/sql cannot do that, and each driver has its
// own way. Package gormstore/pgxpipe has the Pipeline of pgx, the driver of gorm.io/driver/postgres.
type Pipeline interface {
	// Send sends statements over a driver's connection, as [sql.Conn.Raw] gives it, in one message and in this order. The
	// server must run no statement behind one that has failed. Send reads all answers, so the connection is free when it
	// returns. When ctx ends, Send closes the connection and returns.
	//
	// It returns how many of the statements have succeeded, and the error of the next one. Errors of the server have the
	// method SQLState() string. If Send does not know the connection (another driver, or a wrapper around its own), it sends
	// nothing, and the error is ErrNotPipelined.
	Send(ctx context.Context, connection any, statements []PipelineStatement) (succeeded int, err error)
}

// PipelineStatement is one statement of a [Pipeline].
type PipelineStatement struct {
	Text string
	Args []any // $1, $2 and so on
	Row  []any // pointers that take the columns of the statement's one row, as [sql.Row.Scan] does; nil: no row is read
}

// ErrNotPipelined is the error of a [Pipeline] that does not know a connection.
var ErrNotPipelined = errors.New("idem: gormstore: this connection cannot send several statements in one round trip")

// send sends statements in one round trip, and returns how many have succeeded. If the store has no pipeline, or the
// pipeline does not know the connection, it sends nothing, and the error is ErrNotPipelined.
func (s *Store) send(ctx context.Context, own *sql.Conn, statements []PipelineStatement) (succeeded int, err error) {
	if s.pipeline == nil {
		return 0, ErrNotPipelined
	}
	closed := own.Raw(func(connection any) error {
		succeeded, err = s.pipeline.Send(ctx, connection, statements)
		return nil
	})
	return succeeded, cmp.Or(closed, err)
}
