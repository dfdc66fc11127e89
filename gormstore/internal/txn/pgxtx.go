package txn

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"reflect"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/auth19/idem/gormstore/internal/sqltext"
)

// PgxDBTX is gormstore.PgxDBTX.
type PgxDBTX interface {
	Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, query string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, query string, args ...any) pgx.Row
	CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, rows pgx.CopyFromSource) (int64, error)
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// PgxFrom returns the transaction that ctx belongs to: see gormstore.PgxTx.
func PgxFrom(ctx context.Context) (PgxDBTX, bool) {
	if b := BindingFrom(ctx); b != nil {
		switch raw := b.Raw.(type) {
		case *Conn:
			return pgxTx{func(context.Context, ...string) (*Conn, error) { return raw, nil }}, true
		case *stepConn:
			return pgxTx{raw.pgx}, true
		}
		return nil, false // a unit test: WithTx
	}
	if r := ReaderFrom(ctx); r != nil {
		return pgxTx{r.conn}, true
	}
	return nil, false
}

// pgxTx sends a handler's statements over the pgx connection below the attempt's.
type pgxTx struct {
	// conn returns the attempt's connection, if the texts may be sent.
	conn func(ctx context.Context, texts ...string) (*Conn, error)
}

var (
	errNotPgx = errors.New("idem: gormstore: PgxTx: the store's database is not over pgx, or something is wrapped around its " +
		"connections; use SQLTx")
	errCopying = errors.New("idem: gormstore: a CopyFrom is being sent over the attempt's connection; its source must not " +
		"use the transaction")
)

// send runs fn with the pgx connection, as one statement of the handler. fn may return results that are still to be read.
func (p pgxTx) send(
	ctx context.Context, texts []string, turn *pgxTurn, fn func(ctx context.Context, below *pgx.Conn) (unread, error),
) error {
	c, err := p.conn(ctx, texts...)
	if err != nil {
		return err
	}
	inside, err := c.admit(ctx, texts...)
	if err != nil {
		return err
	}
	turn.conn = c
	ctx, turn.ends = c.within(ctx)
	var results unread
	err = errPanicked
	defer func() {
		if results == nil || err != nil {
			turn.ends()
		}
		c.done(inside, results, err)
	}()
	results, err = onPgx(c, func(below *pgx.Conn) (unread, error) {
		c.warnUnguarded(below)
		return fn(ctx, below)
	})
	return err
}

// onPgx runs fn with the pgx connection below. Nothing else uses the connection meanwhile, as with statements of
// database/sql.
func onPgx[T any](c *Conn, fn func(below *pgx.Conn) (T, error)) (result T, err error) {
	closed := c.SQL.Raw(func(connection any) error {
		std, ok := Pgx(connection)
		if !ok {
			err = errNotPgx
			return nil
		}
		result, err = fn(std.Conn())
		return nil
	})
	return result, cmp.Or(err, closed)
}

// Exec implements PgxDBTX.
func (p pgxTx) Exec(ctx context.Context, query string, args ...any) (tag pgconn.CommandTag, err error) {
	query, args, err = rewritten(ctx, query, args)
	if err != nil {
		return tag, err
	}
	err = p.send(ctx, []string{query}, &pgxTurn{}, func(ctx context.Context, below *pgx.Conn) (unread, error) {
		tag, err = below.Exec(ctx, query, args...)
		return nil, err
	})
	return tag, err
}

// Query implements PgxDBTX.
func (p pgxTx) Query(ctx context.Context, query string, args ...any) (pgx.Rows, error) {
	rows := &pgxRows{turn: &pgxTurn{}}
	query, args, err := rewritten(ctx, query, args)
	if err == nil {
		err = p.send(ctx, []string{query}, rows.turn, func(ctx context.Context, below *pgx.Conn) (unread, error) {
			rows.rows, err = below.Query(ctx, query, args...)
			return pgxUnread{rows}, err
		})
	}
	rows.err = err
	return rows, err
}

// QueryRow implements PgxDBTX.
func (p pgxTx) QueryRow(ctx context.Context, query string, args ...any) pgx.Row {
	rows, _ := p.Query(ctx, query, args...) // it has the error
	return pgxRow{rows}
}

// CopyFrom implements PgxDBTX.
func (p pgxTx) CopyFrom(
	ctx context.Context, table pgx.Identifier, columns []string, rows pgx.CopyFromSource,
) (n int64, err error) {
	c, err := p.conn(ctx, "COPY")
	if err != nil {
		return 0, err
	}
	if err = c.open(); err != nil { // the text is pgx's, and leaves nothing on the connection
		return 0, err
	}
	c.wrote.Store(true)
	c.copying.Store(true)
	ctx, over := c.within(ctx)
	defer over()
	source := &copySource{from: rows, ctx: ctx}
	n, err = onPgx(c, func(below *pgx.Conn) (int64, error) {
		c.warnUnguarded(below)
		return below.CopyFrom(source.ctx, table, columns, source)
	})
	c.copying.Store(false)
	if err != nil && source.failed != nil { // the server calls it canceled (57014), but it is the handler's own error
		err = fmt.Errorf("idem: gormstore: the source of CopyFrom: %w", source.failed)
	}
	c.done(sqltext.Findings{}, nil, err)
	if source.panicked != nil {
		panic(source.panicked)
	}
	return n, err
}

// copySource is a handler's source. pgx reads it in a goroutine, and waits for that: so it ends with its context, and its
// panic, or that of a driver.Valuer, becomes that of the handler instead of the process's. What else pgx calls to encode a
// value, such as MarshalJSON, is not tried before.
type copySource struct {
	from     pgx.CopyFromSource
	ctx      context.Context // of one call
	failed   error           // its own error
	panicked any
}

func (s *copySource) keepPanic(err *error) {
	if p := recover(); p != nil {
		s.panicked, *err = p, errPanicked
	}
}

// Next implements [pgx.CopyFromSource].
func (s *copySource) Next() (more bool) {
	defer s.keepPanic(new(error)) // Err tells it
	return s.ctx.Err() == nil && s.from.Next()
}

// Values implements [pgx.CopyFromSource].
func (s *copySource) Values() (values []any, err error) {
	defer s.keepPanic(&err)
	values, err = s.from.Values()
	s.failed = cmp.Or(s.failed, err)
	for _, value := range values { // pgx calls Value again, where a panic would end the process
		if valuer, ok := value.(driver.Valuer); ok && !isNull(value) {
			_, _ = valuer.Value()
		}
	}
	return values, err
}

// isNull reports that a value is NULL for pgx, which then does not call its Value: a nil pointer, unless Value is a method
// of the pointer.
func isNull(value any) bool {
	v := reflect.ValueOf(value)
	return v.Kind() == reflect.Pointer && v.IsNil() && v.Type().Elem().Implements(reflect.TypeFor[driver.Valuer]())
}

// Err implements [pgx.CopyFromSource].
func (s *copySource) Err() (err error) {
	if s.panicked != nil {
		return errPanicked
	}
	defer s.keepPanic(&err)
	err = s.from.Err()
	s.failed = cmp.Or(s.failed, err)
	return cmp.Or(err, context.Cause(s.ctx))
}

// rewritten applies the rewriter among the options of pgx, which stand before the arguments: what is sent must be what was
// inspected.
func rewritten(ctx context.Context, query string, args []any) (string, []any, error) {
	var options []any
	var rewriter pgx.QueryRewriter
	rest := args
options:
	for len(rest) > 0 {
		switch option := rest[0].(type) {
		case pgx.QueryResultFormats, pgx.QueryResultFormatsByOID, pgx.QueryExecMode:
			options = append(options, option)
		case pgx.QueryRewriter:
			rewriter = option
		default:
			break options
		}
		rest = rest[1:]
	}
	if rewriter == nil {
		return query, args, nil
	}
	query, rest, err := rewriter.RewriteQuery(ctx, nil, query, rest)
	if err != nil {
		return "", nil, fmt.Errorf("idem: gormstore: PgxTx: %w", err)
	}
	return query, append(options, rest...), nil
}
