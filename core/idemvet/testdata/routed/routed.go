// Package routed has a DBTX of its own, which sends each statement to the attempt, or to the pool where there is none.
package routed

import (
	"context"
	"database/sql"
	"net/http"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/httpidem"
	"github.com/auth19/idem/gormstore"
)

// router is the DBTX of the app's queries.
type router struct{ pool *pgxpool.Pool }

func (r router) conn(ctx context.Context) gormstore.PgxDBTX {
	if tx, ok := gormstore.PgxTx(ctx); ok {
		return tx
	}
	return r.pool
}

func (r router) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return r.conn(ctx).Exec(ctx, sql, args...)
}

func (r router) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return r.conn(ctx).Query(ctx, sql, args...)
}

// QueryRow says it in another way.
func (r router) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if tx, ok := gormstore.PgxTx(ctx); ok {
		return tx.QueryRow(ctx, sql, args...)
	}
	return r.pool.QueryRow(ctx, sql, args...)
}

// querier is what the app's services see.
type querier interface {
	AddLine(ctx context.Context, order int) error
	Lines(ctx context.Context, order int) (int, error)
}

type app struct {
	pool   *pgxpool.Pool
	q      *Queries
	db     *sql.DB
	sql    querier // over the attempt
	public querier // over the pool
}

func mount(mux *httpidem.Router, idem *core.Module, pool *pgxpool.Pool, db *sql.DB) {
	a := &app{pool: pool, q: New(router{pool}), db: db, sql: NewSQL(sqlRouter{db}), public: NewSQL(db)}
	g := mux.Group("", httpidem.Idempotent(idem))
	g.HandleFunc("POST /routed", a.routed)          // guarded POST /routed
	g.HandleFunc("POST /begun", a.begun)            // guarded POST /begun
	g.HandleFunc("POST /with-tx", a.withTx)         // guarded POST /with-tx
	g.HandleFunc("POST /begin-func", a.beginFunc)   // guarded POST /begin-func
	g.HandleFunc("POST /in-context", a.inContext)   // guarded POST /in-context
	g.HandleFunc("POST /managed", a.managed)        // guarded POST /managed
	g.HandleFunc("POST /shadow", a.shadow)          // guarded POST /shadow
	g.HandleFunc("POST /sql", a.overSQL)            // guarded POST /sql
	g.HandleFunc("POST /read-behind", a.readBehind) // guarded POST /read-behind
}

func (a *app) routed(_ http.ResponseWriter, r *http.Request) { _, _ = a.q.AddOrder(r.Context(), 1) }

// A finding in generated code stands where the app calls it.
func (a *app) begun(_ http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	tx, _ := a.pool.Begin(ctx)
	_, _ = New(tx).AddOrder(ctx, 1) // want `straywrite: QueryRow goes past the attempt.*generated code: .*queries.go:\d+.*POST /begun`
	_ = New(tx).AddLine(ctx, 1)     // want `straywrite: Exec goes past the attempt`
	_ = tx.Commit(ctx)
}

func (a *app) withTx(_ http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	tx, _ := a.pool.BeginTx(ctx, pgx.TxOptions{})
	q := a.q.WithTx(tx)
	_, _ = q.AddOrder(ctx, 1) // want `straywrite: QueryRow goes past.*POST /with-tx`
	_ = tx.Commit(ctx)
}

func (a *app) beginFunc(_ http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	_ = pgx.BeginFunc(ctx, a.pool, func(tx pgx.Tx) error {
		_, err := New(tx).AddOrder(ctx, 1) // want `straywrite: QueryRow goes past.*POST /begin-func`
		return err
	})
}

type txKey struct{}

func (a *app) inContext(_ http.ResponseWriter, r *http.Request) {
	tx, _ := a.pool.Begin(r.Context())
	a.kept(context.WithValue(r.Context(), txKey{}, tx))
}

func (a *app) kept(ctx context.Context) {
	if tx, ok := ctx.Value(txKey{}).(pgx.Tx); ok {
		_, _ = a.q.WithTx(tx).AddOrder(ctx, 1) // want `straywrite: QueryRow goes past.*POST /in-context`
	}
}

// inTx begins a transaction only where there is no attempt.
func (a *app) inTx(ctx context.Context, f func(*Queries) error) error {
	if tx, ok := gormstore.PgxTx(ctx); ok {
		return f(New(tx))
	}
	return pgx.BeginFunc(ctx, a.pool, func(tx pgx.Tx) error { return f(New(tx)) })
}

func (a *app) managed(_ http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	_ = a.inTx(ctx, func(q *Queries) error { return q.AddLine(ctx, 1) })
}

func (a *app) shadow(_ http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	if core.InShadow(ctx) {
		_, _ = a.pool.Exec(ctx, addLine, 1)
		return
	}
	_ = a.q.AddLine(ctx, 1)
}

func (a *app) readBehind(_ http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	_ = a.q.AddLine(ctx, 1)
	_, _ = a.q.LinesOf(ctx, 1)
	plain := New(a.pool)
	_, _ = plain.LinesOf(ctx, 1) // want `strayread: Query reads order_lines past the attempt.*POST /read-behind`
}

// sqlRouter is a router for database/sql.
type sqlRouter struct{ db *sql.DB }

func (r sqlRouter) conn(ctx context.Context) SQLDBTX {
	if tx, ok := gormstore.SQLTx(ctx); ok {
		return tx
	}
	return r.db
}

func (r sqlRouter) ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error) {
	return r.conn(ctx).ExecContext(ctx, text, args...)
}

func (r sqlRouter) QueryRowContext(ctx context.Context, text string, args ...any) *sql.Row {
	return r.conn(ctx).QueryRowContext(ctx, text, args...)
}

func (a *app) overSQL(_ http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	_ = a.sql.AddLine(ctx, 1)
	_, _ = a.sql.Lines(ctx, 1)
	_, _ = a.public.Lines(ctx, 1) // want `strayread: QueryRowContext reads order_lines.*POST /sql`
	tx, _ := a.db.BeginTx(ctx, nil)
	_ = NewSQL(tx).AddLine(ctx, 1)                 // want `straywrite: ExecContext goes past.*POST /sql`
	_ = new(SQLQueries).WithTx(tx).AddLine(ctx, 1) // want `straywrite: ExecContext goes past.*POST /sql`
}
