package txn

import (
	"context"
	"database/sql"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore/internal/sqltext"
)

// PgxGuard is the guard as a tracer: see gormstore.PgxWriteGuard.
func PgxGuard() pgx.QueryTracer {
	guarding.Store(true)
	return pgxGuard{}
}

type pgxGuard struct{}

var (
	_ pgx.BatchTracer    = pgxGuard{}
	_ pgx.CopyFromTracer = pgxGuard{}
)

// TraceQueryStart implements [pgx.QueryTracer].
func (pgxGuard) TraceQueryStart(ctx context.Context, c *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	return guarded(ctx, c, data.SQL)
}

// TraceQueryEnd implements [pgx.QueryTracer].
func (pgxGuard) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart implements [pgx.BatchTracer].
func (pgxGuard) TraceBatchStart(ctx context.Context, c *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	for _, queued := range data.Batch.QueuedQueries {
		if refused := guarded(ctx, c, queued.SQL); refused != ctx {
			return refused
		}
	}
	return ctx
}

// TraceBatchQuery implements [pgx.BatchTracer].
func (pgxGuard) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd implements [pgx.BatchTracer].
func (pgxGuard) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// TraceCopyFromStart implements [pgx.CopyFromTracer].
func (pgxGuard) TraceCopyFromStart(ctx context.Context, c *pgx.Conn, _ pgx.TraceCopyFromStartData) context.Context {
	return guarded(ctx, c, "COPY")
}

// TraceCopyFromEnd implements [pgx.CopyFromTracer].
func (pgxGuard) TraceCopyFromEnd(context.Context, *pgx.Conn, pgx.TraceCopyFromEndData) {}

// guarded returns ctx, or a context with which pgx sends nothing: a tracer cannot return an error.
func guarded(ctx context.Context, c *pgx.Conn, text string) context.Context {
	refusal := outsideOf(ctx)
	if refusal == nil {
		return ctx
	}
	if _, attempts := attemptConns.Load(c); attempts || sqltext.IsControl(sqltext.Unknown, text) || isOwn(ctx, text) {
		return ctx
	}
	if err := pastAttempt(ctx, refusal, sqltext.Unknown, text); err != nil {
		return refusedContext{ctx, err}
	}
	return ctx
}

// outsideOf returns the error of a write that carries ctx and goes over a connection that is not the attempt's; nil where
// it may write.
func outsideOf(ctx context.Context) error {
	if IsOutside(ctx) {
		return nil
	}
	if b := BindingFrom(ctx); b != nil {
		if b.Tx != nil {
			return ErrOutsideTransaction
		}
		return nil // a unit test: WithTx
	}
	if recovery, ok := core.RecoveryOf(ctx); ok && recovery == core.Resume {
		return outsideStep{}
	}
	return nil
}

// refusedContext has ended, with an error of the library.
type refusedContext struct {
	context.Context
	err error
}

// Done implements [context.Context].
func (refusedContext) Done() <-chan struct{} { return ended }

// Err implements [context.Context].
func (c refusedContext) Err() error { return c.err }

var ended = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// These belong to the process. A guard is a tracer or a connector: it is made before the pool, and so before a store, and
// knows neither. A connection may be that of an attempt of any store over the pool. Without attemptConns, a guard would
// refuse the attempt's own writes; without ownTexts, those of the library beside an attempt. Not enough instead: a mark
// in the context, which a handler's other connections carry as well.
var (
	guarding     atomic.Bool // there is a gormstore.PgxWriteGuard
	attemptConns sync.Map    // *pgx.Conn and *sqlGuardConn -> true: the connections of attempts, steps and messages
	// ownTexts are the library's statements, which may be sent over any connection.
	ownTexts texts
)

// texts is a set of statements.
type texts struct{ known sync.Map }

func (t *texts) add(text string) { t.known.Store(text, true) }

func (t *texts) has(text string) bool {
	_, ok := t.known.Load(text)
	return ok
}

// isOwn reports that a text is a statement of the library's.
func isOwn(ctx context.Context, text string) bool {
	return ownTexts.has(text) || ctx.Value(ownText{}) != nil
}

// ownText marks the context with which a statement is sent whose parameters are in its text.
type ownText struct{}

// asOwn is ctx for such a statement.
func (d *Database) asOwn(ctx context.Context) context.Context {
	if d.Dialect.Bind == nil {
		return ctx
	}
	return context.WithValue(ctx, ownText{}, true)
}

// guardedConns are the connection of an attempt as the guards see it, by which they know it until the attempt ends.
func guardedConns(own *sql.Conn) (seen []any) {
	_ = own.Raw(func(connection any) error {
		if c, ok := connection.(*sqlGuardConn); ok {
			seen = append(seen, c)
		}
		if std, ok := Pgx(connection); ok && guarding.Load() {
			seen = append(seen, std.Conn())
		}
		return nil
	})
	for _, c := range seen {
		attemptConns.Store(c, true)
	}
	return seen
}
