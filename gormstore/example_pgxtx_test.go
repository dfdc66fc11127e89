package gormstore_test

import (
	"context"
	"net/http"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
)

// PgxQueries is what sqlc generates for pgx/v5; its DBTX has the methods of gormstore.PgxDBTX.
type PgxQueries struct{ db gormstore.PgxDBTX }

func (q *PgxQueries) CreateEntry(ctx context.Context, operation core.ID, amount string) error {
	_, err := q.db.Exec(ctx, "INSERT INTO entries (operation_id, amount) VALUES ($1, $2)", operation[:], amount)
	return err
}

// An app on pgxpool: the store shares the pool, and handlers write through the attempt's transaction with the queries that
// sqlc has generated for pgx/v5.
func ExamplePgxTx() {
	ctx := context.Background()
	config, err := pgxpool.ParseConfig("postgres://127.0.0.1:5432/shop")
	must(err)
	config.ConnConfig.Tracer = gormstore.PgxWriteGuard() // refuses a write past the attempt
	pool, err := pgxpool.NewWithConfig(ctx, config)
	must(err)
	must(gormstore.AuditPgx(pool)) // the guard is there, also below other tracers
	below := stdlib.OpenDBFromPool(pool)
	below.SetMaxOpenConns(int(config.MaxConns)) // the store divides them; New refuses a pool without a limit
	db, err := gorm.Open(postgres.New(postgres.Config{Conn: below}))
	must(err)
	store, err := gormstore.New(db)
	must(err)
	defer pool.Close()
	idem, err := core.New(core.Config{Store: store, Policy: core.Policy{Recovery: core.Rollback}})
	must(err)

	pay := func(w http.ResponseWriter, r *http.Request) {
		tx, ok := gormstore.PgxTx(r.Context())
		operation, _ := core.Operation(r.Context())
		if !ok || (&PgxQueries{tx}).CreateEntry(r.Context(), operation, "12.50") != nil {
			w.WriteHeader(http.StatusInternalServerError) // rolled back
			return
		}
		w.WriteHeader(http.StatusCreated)
	}
	_, _ = idem, pay
}

// Several statements in one round trip, and a copy: they commit with the answer, or not at all.
func ExamplePgxDBTX() {
	transfer := func(ctx context.Context, tx gormstore.PgxDBTX, entries [][]any) error {
		if _, err := tx.CopyFrom(ctx, pgx.Identifier{"entries"}, []string{"account", "amount"}, pgx.CopyFromRows(entries)); err != nil {
			return err
		}
		var batch pgx.Batch
		for _, entry := range entries {
			batch.Queue("UPDATE accounts SET balance = balance + $2 WHERE id = $1", entry...)
		}
		return tx.SendBatch(ctx, &batch).Close()
	}
	_ = transfer
}
