// Package sqlapp writes without GORM: database/sql, sqlx, pgx, and the code that sqlc generates for them.
package sqlapp

import (
	"context"
	"database/sql"
	"net/http"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jmoiron/sqlx"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/httpidem"
	"github.com/auth19/idem/gormstore"
)

type app struct {
	db   *sql.DB
	x    *sqlx.DB
	pool *pgxpool.Pool
	q    *Queries
	pgq  *PgQueries
	add  *sql.Stmt
}

func mount(mux *httpidem.Router, idem *core.Module, db *sql.DB, x *sqlx.DB, pool *pgxpool.Pool) {
	a := &app{db: db, x: x, pool: pool, q: New(db), pgq: NewPg(pool)}
	a.add, _ = db.Prepare(createPayment)
	g := mux.Group("", httpidem.Idempotent(idem))
	g.HandleFunc("POST /sql", a.sql)         // guarded POST /sql
	g.HandleFunc("POST /sqlx", a.sqlx)       // guarded POST /sqlx
	g.HandleFunc("POST /sqlc", a.sqlc)       // guarded POST /sqlc
	g.HandleFunc("POST /pgx", a.pgx)         // guarded POST /pgx
	g.HandleFunc("POST /pgsqlc", a.pgsqlc)   // guarded POST /pgsqlc
	g.HandleFunc("POST /attempt", a.attempt) // guarded POST /attempt
	g.HandleFunc("POST /wrapped", a.wrapped) // guarded POST /wrapped
	mux.HandleFunc("GET /total", a.total)
}

// conn is the helper of repositories: the attempt's transaction, or the pool where there is none.
func (a *app) conn(ctx context.Context) gormstore.DBTX {
	if tx, ok := gormstore.SQLTx(ctx); ok {
		return tx
	}
	return a.db
}

// Without a guard there need not be an attempt, neither for a read, nor for a job in the night.
func (a *app) total(_ http.ResponseWriter, _ *http.Request) {
	_, _ = a.conn(context.Background()).ExecContext(context.TODO(), "SELECT count(*) FROM payments")
}

func (a *app) nightly() {
	go func() { _, _ = a.conn(context.Background()).ExecContext(context.TODO(), update, 2) }()
}

const createPayment = `-- name: CreatePayment :one
INSERT INTO payments (id) VALUES ($1) RETURNING id`

var update = "UPDATE payments SET id = $1"

func (a *app) sql(_ http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	var id int
	_ = a.db.QueryRowContext(ctx, createPayment, 1).Scan(&id) // want `straywrite: QueryRowContext goes past the attempt`
	_ = a.db.QueryRow("SELECT id FROM payments").Scan(&id)
	_ = a.db.QueryRow("SELECT id FROM payments FOR UPDATE").Scan(&id) // want `straywrite: QueryRow goes past`
	_, _ = a.db.Exec(update, 1)                                       // want `straywrite: Exec goes past`
	_, _ = a.db.Exec("SELECT pg_advisory_lock(1)")
	_, _ = a.add.ExecContext(ctx, 1) // want `straywrite: ExecContext goes past`
	tx, _ := a.db.BeginTx(ctx, nil)
	defer func() { _ = tx.Rollback() }()
	a.both(tx, 1)
	stmt, _ := tx.Prepare(createPayment)
	_ = stmt.QueryRow(1).Scan(&id) // want `straywrite: QueryRow goes past`
	_ = tx.Commit()
}

// execer is an interface of the app's own.
type execer interface {
	Exec(query string, args ...any) (sql.Result, error)
	QueryRow(query string, args ...any) *sql.Row
}

func (a *app) both(e execer, id int) {
	_, _ = e.Exec("DELETE FROM payments WHERE id = $1", id) // want `straywrite: Exec goes past`
	_ = e.QueryRow("SELECT 1")
}

func (a *app) sqlx(_ http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	var id int
	_ = a.x.GetContext(ctx, &id, createPayment, 1) // want `straywrite: GetContext goes past`
	_ = a.x.Get(&id, "SELECT id FROM payments")
	_, _ = a.x.NamedExecContext(ctx, "UPDATE payments SET id = :id", map[string]any{"id": 1})  // want `straywrite: NamedExecContext goes past`
	_, _ = sqlx.NamedExec(a.x, "DELETE FROM payments WHERE id = :id", map[string]any{"id": 1}) // want `straywrite: NamedExec goes past`
	tx := a.x.MustBegin()
	tx.MustExec("DELETE FROM payments") // want `straywrite: MustExec goes past`
	log("insert into payments failed")
}

func log(string) {}

func (a *app) sqlc(_ http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	_, _ = a.q.GetPayment(ctx, 1)
	_, _ = a.q.CreatePayment(ctx, 1)
	_ = a.inTx(ctx, func(q *Queries) error { return q.DeletePayment(ctx, 1) })
	if db, ok := gormstore.SQLTx(ctx); ok {
		q := New(db)
		_, _ = q.CreatePayment(ctx, 1)
		_ = q.KeepPayment(ctx, 1)
	}
}

func (a *app) inTx(ctx context.Context, f func(*Queries) error) error {
	tx, err := a.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := f(New(tx)); err != nil {
		return err
	}
	return tx.Commit()
}

// DBTX and Queries are as sqlc generates them.
type DBTX interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
	QueryRowContext(context.Context, string, ...any) *sql.Row
}

func New(db DBTX) *Queries { return &Queries{db: db} }

type Queries struct{ db DBTX }

func (q *Queries) CreatePayment(ctx context.Context, id int) (int, error) {
	row := q.db.QueryRowContext(ctx, createPayment, id) // want `straywrite: QueryRowContext goes past.*POST /sqlc: sqlc > CreatePayment`
	var made int
	err := row.Scan(&made)
	return made, err
}

func (q *Queries) GetPayment(ctx context.Context, id int) (int, error) {
	row := q.db.QueryRowContext(ctx, "-- name: GetPayment :one\nSELECT id FROM payments WHERE id = $1", id)
	var found int
	err := row.Scan(&found)
	return found, err
}

func (q *Queries) DeletePayment(ctx context.Context, id int) error {
	_, err := q.db.ExecContext(ctx, "DELETE FROM payments WHERE id = $1", id) // want `straywrite: ExecContext goes past`
	return err
}

// KeepPayment is called with the attempt's transaction only.
func (q *Queries) KeepPayment(ctx context.Context, id int) error {
	_, err := q.db.ExecContext(ctx, update, id)
	return err
}

func (a *app) pgx(_ http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	var id int
	_, _ = a.pool.Exec(ctx, update, 1)                   // want `straywrite: Exec goes past`
	_ = a.pool.QueryRow(ctx, createPayment, 1).Scan(&id) // want `straywrite: QueryRow goes past`
	_ = a.pool.QueryRow(ctx, "SELECT 1").Scan(&id)
	_, _ = a.pool.CopyFrom(ctx, pgx.Identifier{"payments"}, []string{"id"}, nil) // want `straywrite: CopyFrom goes past`
	batch := &pgx.Batch{}
	batch.Queue(createPayment, 1)
	_ = a.pool.SendBatch(ctx, batch).Close() // want `straywrite: SendBatch goes past`
	_ = pgx.BeginFunc(ctx, a.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, update, 2) // want `straywrite: Exec goes past`
		return err
	})
}

// PgDBTX and PgQueries are as sqlc generates them for pgx.
type PgDBTX interface {
	Exec(context.Context, string, ...any) (pgconn.CommandTag, error)
	QueryRow(context.Context, string, ...any) pgx.Row
}

func NewPg(db PgDBTX) *PgQueries { return &PgQueries{db: db} }

type PgQueries struct{ db PgDBTX }

func (q *PgQueries) WithTx(tx pgx.Tx) *PgQueries { return &PgQueries{db: tx} }

func (q *PgQueries) CreatePayment(ctx context.Context, id int) error {
	return q.db.QueryRow(ctx, createPayment, id).Scan(&id) // want `straywrite: QueryRow goes past`
}

func (a *app) pgsqlc(_ http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	_ = a.pgq.CreatePayment(ctx, 1)
	tx, _ := a.pool.Begin(ctx)
	_ = a.pgq.WithTx(tx).CreatePayment(ctx, 1)
}

// attempt writes with the attempt's transaction.
func (a *app) attempt(_ http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	db, ok := gormstore.SQLTx(ctx)
	if !ok {
		return
	}
	_, _ = db.ExecContext(ctx, update, 1)
	_ = db.QueryRowContext(ctx, createPayment, 1).Scan(new(int))
	stmt, _ := db.PrepareContext(ctx, createPayment)
	_, _ = stmt.Exec(1)
	a.once(ctx, db)
}

func (a *app) once(ctx context.Context, db gormstore.DBTX) { _, _ = db.ExecContext(ctx, update, 1) }

// inAttempt has the methods that both knows.
type inAttempt struct {
	ctx context.Context
	db  gormstore.DBTX
}

func (a inAttempt) Exec(query string, args ...any) (sql.Result, error) {
	return a.db.ExecContext(a.ctx, query, args...)
}

func (a inAttempt) QueryRow(query string, args ...any) *sql.Row {
	return a.db.QueryRowContext(a.ctx, query, args...)
}

// wrapped calls both with another type than sql does.
func (a *app) wrapped(_ http.ResponseWriter, r *http.Request) {
	if db, ok := gormstore.SQLTx(r.Context()); ok {
		a.both(inAttempt{r.Context(), db}, 1)
	}
}
