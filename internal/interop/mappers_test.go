package interop_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
	"entgo.io/ent/dialect/sql/sqlgraph"
	"entgo.io/ent/schema/field"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/httpidem"
	"github.com/auth19/idem/core/wire"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/internal/pgtest"
)

// The code of docs/databases-and-mappers.md.

var errNoAttempt = errors.New("there is no attempt around this context")

// entry is a row of the app.
type entry struct {
	bun.BaseModel `bun:"table:entries" db:"-"`
	ID            int64  `bun:",pk,autoincrement" db:"id"`
	Operation     string `bun:"operation_id" db:"operation_id"`
	Amount        string `bun:"amount" db:"amount"`
}

// mappers are the ways in which a handler writes a row and reads it again, in its attempt.
var mappers = map[string]func(ctx context.Context, operation, amount string) (entry, error){
	"database/sql":          withDatabaseSQL,
	"sqlc for database/sql": withSQLC,
	"sqlc for pgx/v5":       withPgxSQLC,
	"sqlx":                  withSQLX,
	"ent":                   withEnt,
	"bun":                   withBun,
}

// anywhere are those that write outside of attempts, too.
var anywhere = map[string]func(ctx context.Context, operation, amount string) (entry, error){
	"sqlc over a helper":    withPgxConn,
	"sqlc in a transaction": withPgxTx,
}

func withDatabaseSQL(ctx context.Context, operation, amount string) (e entry, err error) {
	tx, ok := gormstore.SQLTx(ctx)
	if !ok {
		return e, errNoAttempt
	}
	err = tx.QueryRowContext(ctx, "INSERT INTO entries (operation_id, amount) VALUES ($1, $2) RETURNING id, operation_id, amount",
		operation, amount).Scan(&e.ID, &e.Operation, &e.Amount)
	return e, err
}

// DBTX is what sqlc generates.
type DBTX interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
	PrepareContext(context.Context, string) (*sql.Stmt, error)
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
	QueryRowContext(context.Context, string, ...any) *sql.Row
}

// New is what sqlc generates.
func New(db DBTX) *Queries { return &Queries{db: db} }

// Queries is what sqlc generates.
type Queries struct{ db DBTX }

const createEntry = `-- name: CreateEntry :one
INSERT INTO entries (operation_id, amount) VALUES ($1, $2) RETURNING id, operation_id, amount
`

// CreateEntry is what sqlc generates.
func (q *Queries) CreateEntry(ctx context.Context, operationID, amount string) (entry, error) {
	row := q.db.QueryRowContext(ctx, createEntry, operationID, amount)
	var i entry
	err := row.Scan(&i.ID, &i.Operation, &i.Amount)
	return i, err
}

func withSQLC(ctx context.Context, operation, amount string) (entry, error) {
	tx, ok := gormstore.SQLTx(ctx)
	if !ok {
		return entry{}, errNoAttempt
	}
	return New(tx).CreateEntry(ctx, operation, amount)
}

// PgxDBTX is what sqlc generates for pgx/v5, as DBTX.
type PgxDBTX interface {
	Exec(context.Context, string, ...any) (pgconn.CommandTag, error)
	Query(context.Context, string, ...any) (pgx.Rows, error)
	QueryRow(context.Context, string, ...any) pgx.Row
}

// NewPgx is what sqlc generates for pgx/v5, as New.
func NewPgx(db PgxDBTX) *PgxQueries { return &PgxQueries{db: db} }

// PgxQueries is what sqlc generates for pgx/v5, as Queries.
type PgxQueries struct{ db PgxDBTX }

// CreateEntry is what sqlc generates for pgx/v5.
func (q *PgxQueries) CreateEntry(ctx context.Context, operationID, amount string) (entry, error) {
	row := q.db.QueryRow(ctx, createEntry, operationID, amount)
	var i entry
	err := row.Scan(&i.ID, &i.Operation, &i.Amount)
	return i, err
}

func withPgxSQLC(ctx context.Context, operation, amount string) (entry, error) {
	tx, ok := gormstore.PgxTx(ctx)
	if !ok {
		return entry{}, errNoAttempt
	}
	return NewPgx(tx).CreateEntry(ctx, operation, amount)
}

func withSQLX(ctx context.Context, operation, amount string) (entry, error) {
	tx, ok := gormstore.SQLTx(ctx)
	if !ok {
		return entry{}, errNoAttempt
	}
	query, args, err := sqlx.Named("INSERT INTO entries (operation_id, amount) VALUES (:operation_id, :amount) RETURNING *",
		entry{Operation: operation, Amount: amount})
	if err != nil {
		return entry{}, err
	}
	rows, err := tx.QueryContext(ctx, sqlx.Rebind(sqlx.DOLLAR, query), args...)
	if err != nil {
		return entry{}, err
	}
	defer func() { _ = rows.Close() }()
	var created []entry
	if err := sqlx.StructScan(rows, &created); err != nil {
		return entry{}, err
	}
	return created[0], rows.Err()
}

// entDriver is the attempt's transaction as a driver of ent. The attempt ends it, so a transaction of ent within it commits
// nothing by itself, and cannot be rolled back by itself.
type entDriver struct{ entsql.Conn }

func (entDriver) Dialect() string                          { return dialect.Postgres }
func (d entDriver) Tx(context.Context) (dialect.Tx, error) { return d, nil }
func (entDriver) Commit() error                            { return nil }
func (entDriver) Rollback() error                          { return errors.New("return the error: the attempt rolls back") }
func (entDriver) Close() error                             { return nil }

func withEnt(ctx context.Context, operation, amount string) (entry, error) {
	tx, ok := gormstore.SQLTx(ctx)
	if !ok {
		return entry{}, errNoAttempt
	}
	driver := entDriver{entsql.Conn{ExecQuerier: tx}}
	return newEntClient(driver).create(ctx, operation, amount)
}

// entClient does what the client that ent generates does for client.Entry.Create().
type entClient struct{ driver dialect.Driver }

func newEntClient(driver dialect.Driver) entClient { return entClient{driver} }

func (c entClient) create(ctx context.Context, operation, amount string) (entry, error) {
	spec := sqlgraph.NewCreateSpec("entries", sqlgraph.NewFieldSpec("id", field.TypeInt64))
	spec.SetField("operation_id", field.TypeString, operation)
	spec.SetField("amount", field.TypeString, amount)
	if err := sqlgraph.CreateNode(ctx, c.driver, spec); err != nil {
		return entry{}, err
	}
	id, _ := spec.ID.Value.(int64)
	return entry{ID: id, Operation: operation, Amount: amount}, nil
}

// bunDB is the app's bun.DB: it writes the statements. The attempt's transaction sends them.
var bunDB *bun.DB

func withBun(ctx context.Context, operation, amount string) (entry, error) {
	tx, ok := gormstore.SQLTx(ctx)
	if !ok {
		return entry{}, errNoAttempt
	}
	created := entry{Operation: operation, Amount: amount}
	_, err := bunDB.NewInsert().Model(&created).Returning("*").Conn(tx).Exec(ctx)
	return created, err
}

// appPool is the app's own pool.
var appPool *pgxpool.Pool

// pgxConn is the attempt's transaction, or the pool where there is no attempt: New(pgxConn(ctx, pool)).
func pgxConn(ctx context.Context, pool *pgxpool.Pool) gormstore.PgxDBTX {
	if tx, ok := gormstore.PgxTx(ctx); ok { // first
		return tx
	}
	return pool
}

// inPgxTx takes the place of pool.Begin: in an attempt it begins nothing, the attempt commits with the answer.
func inPgxTx(ctx context.Context, pool *pgxpool.Pool, fn func(gormstore.PgxDBTX) error) error {
	if tx, ok := gormstore.PgxTx(ctx); ok {
		return fn(tx)
	}
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return fn(tx) })
}

func withPgxConn(ctx context.Context, operation, amount string) (entry, error) {
	return NewPgx(pgxConn(ctx, appPool)).CreateEntry(ctx, operation, amount)
}

func withPgxTx(ctx context.Context, operation, amount string) (created entry, err error) {
	err = inPgxTx(ctx, appPool, func(tx gormstore.PgxDBTX) error {
		created, err = NewPgx(tx).CreateEntry(ctx, operation, amount)
		return err
	})
	return created, err
}

// openPool opens the store over a pgxpool that the app's handlers use, too.
func openPool(t *testing.T) (*pgxpool.Pool, *gorm.DB) {
	t.Helper()
	config, err := pgxpool.ParseConfig(pgtest.URL(t))
	require.NoError(t, err)
	config.MaxConns = 8
	config.ConnConfig.Tracer = gormstore.PgxWriteGuard() // pgx, pgxpool
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	require.NoError(t, gormstore.AuditPgx(pool))
	t.Cleanup(pool.Close)

	below := stdlib.OpenDBFromPool(pool)
	below.SetMaxOpenConns(int(config.MaxConns)) // the store divides them; New refuses a pool without a limit
	t.Cleanup(func() { require.NoError(t, below.Close()) })
	db, err := gorm.Open(postgres.New(postgres.Config{Conn: below}), &gorm.Config{Logger: logger.Discard})
	require.NoError(t, err)
	require.NoError(t, gormstore.Migrate(t.Context(), db))
	return pool, db
}

// With every mapper the row commits with the answer: a repeat adds none, and a handler that fails leaves none.
//
// CONTRACT X-6
func TestMappers(t *testing.T) {
	pool, db := openPool(t)
	_, err := pool.Exec(t.Context(), "CREATE TABLE entries (id bigserial PRIMARY KEY, operation_id text NOT NULL UNIQUE, amount text NOT NULL)")
	require.NoError(t, err)
	below, err := db.DB()
	require.NoError(t, err)
	bunDB, appPool = bun.NewDB(below, pgdialect.New()), pool
	store, err := gormstore.New(db)
	require.NoError(t, err)
	idem, err := core.New(core.Config{Store: store, Policy: core.Policy{Recovery: core.Rollback}})
	require.NoError(t, err)

	all := maps.Clone(mappers)
	maps.Copy(all, anywhere)
	for name, write := range all {
		t.Run(name, func(t *testing.T) {
			var failing atomic.Bool
			caller := httpidem.Bridge(func(*http.Request) (authctx.Principal, error) { return authctx.User(shop, 17) })
			app := httpidem.NewRouter()
			money := app.Group("", caller, httpidem.Idempotent(idem))
			money.HandleFunc("POST /payments", func(w http.ResponseWriter, r *http.Request) {
				operation, _ := core.Operation(r.Context())
				created, err := write(r.Context(), operation.String(), "12.50")
				if err != nil || failing.Load() {
					http.Error(w, fmt.Sprint(err), http.StatusInternalServerError)
					return
				}
				require.Equal(t, entry{ID: created.ID, Operation: operation.String(), Amount: "12.50"}, created)
				w.WriteHeader(http.StatusCreated)
			})
			require.NoError(t, httpidem.Audit(app, idem))
			send := func(key string) *httptest.ResponseRecorder {
				r := httptest.NewRequest(http.MethodPost, "/payments", strings.NewReader(`{"amount":"12.50"}`))
				r.Header.Set("Idempotency-Key", strings.ReplaceAll(name, " ", "-")+key)
				w := httptest.NewRecorder()
				app.ServeHTTP(w, r)
				return w
			}
			rows := func() (n int) {
				require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM entries").Scan(&n))
				return n
			}
			before := rows()
			first := send("a")
			require.Equal(t, http.StatusCreated, first.Code, first.Body)
			require.Equal(t, wire.ResultReused, send("a").Header().Get(wire.HeaderResult))
			require.Equal(t, before+1, rows())
			failing.Store(true)
			require.Equal(t, http.StatusInternalServerError, send("b").Code)
			require.Equal(t, before+1, rows())
			failing.Store(false)
			require.Equal(t, http.StatusCreated, send("b").Code)
			require.Equal(t, before+2, rows())

			_, err := write(t.Context(), "outside "+name, "12.50")
			if anywhere[name] != nil {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, errNoAttempt)
		})
	}
}

// A write of a mapper past the attempt is refused, over a *sql.DB with the guard.
//
// CONTRACT X-6
func TestOwnDatabaseSQL(t *testing.T) {
	_, db := openPool(t)
	config, err := pgx.ParseConfig(pgtest.URL(t))
	require.NoError(t, err)
	own := sql.OpenDB(gormstore.SQLWriteGuard(stdlib.GetConnector(*config))) // database/sql, any driver for PostgreSQL
	t.Cleanup(func() { require.NoError(t, own.Close()) })
	_, err = own.Exec("CREATE TABLE entries (id bigserial PRIMARY KEY, operation_id text NOT NULL UNIQUE, amount text NOT NULL)")
	require.NoError(t, err)
	store, err := gormstore.New(db)
	require.NoError(t, err)
	idem, err := core.New(core.Config{Store: store, Policy: core.Policy{Recovery: core.Rollback}})
	require.NoError(t, err)
	ofBun, ofSQLX := bun.NewDB(own, pgdialect.New()), sqlx.NewDb(own, "pgx")
	ofEnt := newEntClient(entsql.OpenDB(dialect.Postgres, own))
	app := httpidem.NewRouter()
	app.Use(httpidem.Bridge(func(*http.Request) (authctx.Principal, error) { return authctx.User(shop, 17) }), httpidem.Idempotent(idem))
	app.HandleFunc("POST /payments", func(w http.ResponseWriter, r *http.Request) {
		past := entry{Operation: "past", Amount: "12.50"}
		_, err := ofBun.NewInsert().Model(&past).Exec(r.Context())
		require.ErrorIs(t, err, gormstore.ErrOutsideTransaction)
		_, err = ofSQLX.NamedExecContext(r.Context(), "INSERT INTO entries (operation_id, amount) VALUES (:operation_id, :amount)", past)
		require.ErrorIs(t, err, gormstore.ErrOutsideTransaction)
		_, err = ofEnt.create(r.Context(), "past", "12.50")
		require.ErrorIs(t, err, gormstore.ErrOutsideTransaction)
		w.WriteHeader(http.StatusCreated)
	})
	r := httptest.NewRequest(http.MethodPost, "/payments", strings.NewReader(`{"amount":"12.50"}`))
	r.Header.Set("Idempotency-Key", "key-1")
	w := httptest.NewRecorder()
	app.ServeHTTP(w, r)
	require.Equal(t, http.StatusCreated, w.Code, w.Body)
	var rows int
	require.NoError(t, own.QueryRow("SELECT count(*) FROM entries").Scan(&rows))
	require.Zero(t, rows)
}
