package gormstore_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/intents"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/internal/pgtest"
)

// pastSQL are the ways in which a handler may write past its attempt, over a *sql.DB of the app's own.
var pastSQL = map[string]func(ctx context.Context, pool *sql.DB) error{
	"exec": func(ctx context.Context, pool *sql.DB) error { return err2(pool.ExecContext(ctx, addRow, "outside")) },
	"query": func(ctx context.Context, pool *sql.DB) error {
		return closed(pool.QueryContext(ctx, addRow+" RETURNING id", "outside"))
	},
	"query row": func(ctx context.Context, pool *sql.DB) error {
		return pool.QueryRowContext(ctx, addRow+" RETURNING id", "outside").Scan(new(int64))
	},
	"a function": func(ctx context.Context, pool *sql.DB) error {
		return pool.QueryRowContext(ctx, "SELECT nextval('effects_id_seq')").Scan(new(int64))
	},
	"script": func(ctx context.Context, pool *sql.DB) error {
		return err2(pool.ExecContext(ctx, "COMMIT; INSERT INTO effects (name) VALUES ('outside')"))
	},
	"prepare": func(ctx context.Context, pool *sql.DB) error {
		stmt, err := pool.PrepareContext(ctx, addRow)
		if err == nil {
			_ = stmt.Close()
		}
		return err
	},
	"prepared before": func(ctx context.Context, pool *sql.DB) error {
		stmt, err := pool.PrepareContext(context.Background(), addRow)
		if err != nil {
			return err
		}
		defer func() { _ = stmt.Close() }()
		return err2(stmt.ExecContext(ctx, "outside"))
	},
	"transaction": func(ctx context.Context, pool *sql.DB) error {
		return inOwnTx(ctx, pool, func(tx *sql.Tx) error { return err2(tx.ExecContext(ctx, addRow, "outside")) })
	},
	"transaction, statement without context": func(ctx context.Context, pool *sql.DB) error {
		return inOwnTx(ctx, pool, func(tx *sql.Tx) error {
			return err2(tx.ExecContext(context.Background(), addRow, "outside"))
		})
	},
}

func inOwnTx(ctx context.Context, pool *sql.DB, write func(tx *sql.Tx) error) error {
	tx, err := pool.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := write(tx); err != nil {
		_ = tx.Rollback()
		return err
	}
	return tx.Commit()
}

// plainConnector gives connections that have only what a driver of before Go 1.8 has.
type plainConnector struct{ driver.Connector }

func (c plainConnector) Connect(ctx context.Context) (driver.Conn, error) {
	below, err := c.Connector.Connect(ctx)
	return plainConn{below}, err
}

type plainConn struct{ driver.Conn }

func (c plainConn) Prepare(query string) (driver.Stmt, error) {
	stmt, err := c.Conn.Prepare(query)
	return plainStmt{stmt}, err
}

type plainStmt struct{ driver.Stmt }

func (s plainStmt) Exec(values []driver.Value) (driver.Result, error) {
	return s.Stmt.(driver.StmtExecContext).ExecContext(context.Background(), numbered(values))
}

func (s plainStmt) Query(values []driver.Value) (driver.Rows, error) {
	return s.Stmt.(driver.StmtQueryContext).QueryContext(context.Background(), numbered(values))
}

func numbered(values []driver.Value) []driver.NamedValue {
	args := make([]driver.NamedValue, len(values))
	for i, v := range values {
		args[i] = driver.NamedValue{Ordinal: i + 1, Value: v}
	}
	return args
}

func guardedSQL(t *testing.T, address string, wrap func(driver.Connector) driver.Connector) *sql.DB {
	t.Helper()
	config := try(pgx.ParseConfig(address)).ok(t)
	connector := stdlib.GetConnector(*config)
	if wrap != nil {
		connector = wrap(connector)
	}
	pool := sql.OpenDB(gormstore.SQLWriteGuard(connector))
	pool.SetMaxOpenConns(16)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	return pool
}

// A write past the attempt over a *sql.DB is refused before it is sent; reads pass, and so does what is marked, and every
// write when there is no attempt. The same with a driver that has nothing but what it must have.
//
// CONTRACT X-6
func TestSQLWriteGuard(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(driver.Connector) driver.Connector{
		"pgx": nil, "plain driver": func(c driver.Connector) driver.Connector { return plainConnector{c} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := migratedURL(t)
			db := openPostgres(t, address, 16)
			onPool := newStore(t, db)
			pool := guardedSQL(t, address, wrap)
			_, rollback := begin(t, onPool, command(core.Rollback))
			var inStep context.Context
			segments, _ := resume(t, onPool, command(core.Resume))
			require.NoError(t, segments.Step(segments.Bind(t.Context(), nil), func(ctx context.Context) error { inStep = ctx; return nil }))
			for attempt, ctx := range map[string]context.Context{"Rollback": rollback, "step of Resume": inStep} {
				for way, write := range pastSQL {
					t.Run(attempt+", "+way, func(t *testing.T) {
						require.NoError(t, pool.QueryRowContext(ctx, "SELECT count(*) FROM effects").Scan(new(int)), "reads are welcome")
						require.NoError(t, inOwnTx(ctx, pool, func(tx *sql.Tx) error { return tx.QueryRow("SELECT 1").Scan(new(int)) }))
						err := write(ctx, pool)
						require.ErrorIs(t, err, gormstore.ErrOutsideTransaction)
						require.ErrorContains(t, err, "This may write")
						require.Zero(t, countEffects(t, db))
						require.Zero(t, pool.Stats().InUse, "the refused statement's connection is given back")
					})
				}
			}
			want := 0
			for _, ctx := range []context.Context{gormstore.Outside(rollback), t.Context()} {
				for _, way := range []string{"exec", "query row", "prepared before", "transaction", "transaction, statement without context"} {
					if want++; way == "transaction, statement without context" {
						ctx = t.Context() // the transaction is not marked
					}
					require.NoError(t, pastSQL[way](ctx, pool), way)
					require.Equal(t, want, countEffects(t, db), way)
				}
			}
		})
	}
}

// requireLibraryPasses checks that the library's own statements pass the guard of a database, and the handler's in the
// attempt: of attempts to their end, of the journal. The handler adds three rows.
func requireLibraryPasses(t *testing.T, db *gorm.DB, work func(ctx context.Context, tx gormstore.PgxDBTX)) {
	t.Helper()
	st, j := newStore(t, db), newJournal(t, db)
	module := newModule(t, st, core.Policy{Recovery: core.Rollback})
	before := countEffects(t, db)
	require.Equal(t, 201, book(t, module, rand.Text(), 201, func(ctx context.Context, tx gormstore.PgxDBTX) {
		work(ctx, tx)
		require.NoError(t, gormstore.Tx(ctx).Create(&effect{Name: "by GORM"}).Error)
		require.NoError(t, err2(j.Begin(ctx, intents.Entry{Intent: t.Name()})))
		require.NoError(t, j.End(ctx, t.Name()))
	}))
	require.Equal(t, before+3, countEffects(t, db))
	segments, _ := resume(t, st, command(core.Resume))
	ctx := segments.Bind(t.Context(), nil)
	for range 2 { // the second one opens a segment of its own
		require.NoError(t, segments.Step(ctx, func(inside context.Context) error {
			tx, _ := gormstore.SQLTx(inside)
			return err2(tx.ExecContext(ctx, addRow, "with the attempt's own context"))
		}))
		require.NoError(t, err2(segments.Seal(ctx, store.Seal{Start: &store.StepRecord{Name: "charge", Kind: store.ProviderStep}})))
	}
	require.NoError(t, segments.Rollback())
}

// The store may be opened over the same *sql.DB.
//
// CONTRACT X-6
func TestSQLWriteGuardBelowTheStore(t *testing.T) {
	t.Parallel()
	pool := guardedSQL(t, pgtest.URL(t), nil)
	db := try(gorm.Open(postgres.New(postgres.Config{Conn: pool}), &gorm.Config{Logger: logger.Discard})).ok(t)
	migrate(t, db)
	requireLibraryPasses(t, db, func(ctx context.Context, tx gormstore.PgxDBTX) {
		require.NoError(t, err2(tx.Exec(ctx, addRow, "by pgx")))
		sqlTx, _ := gormstore.SQLTx(ctx)
		require.NoError(t, err2(sqlTx.ExecContext(ctx, addRow, "by database/sql")))
		require.ErrorIs(t, err2(pool.ExecContext(ctx, addRow, "outside")), gormstore.ErrOutsideTransaction)
	})
	require.NoError(t, err2(pool.ExecContext(t.Context(), addRow, "after the attempts")))
}

// Without the guards: the write waits for a row that the attempt has locked, until the deadline. Then the attempt is rolled
// back, and the write commits. With them, the handler is told at once, and can answer.
//
// CONTRACT X-6
func TestWritesPastTheAttemptDoNotWait(t *testing.T) {
	t.Parallel()
	address := migratedURL(t)
	db := openPostgres(t, address, 16)
	pool, below := guardedSQL(t, address, nil), newPool(t, address, gormstore.PgxWriteGuard())
	require.NoError(t, db.Create(&effect{ID: 7, Name: "balance"}).Error)
	policy := core.Policy{Recovery: core.Rollback, Deadline: time.Minute}
	module := try(core.New(core.Config{Store: newStore(t, db), Policy: policy})).ok(t)
	const past = "UPDATE effects SET name = 'past' WHERE id = 7"
	for guard, write := range map[string]func(ctx context.Context) error{
		"SQLWriteGuard": func(ctx context.Context) error { return err2(pool.ExecContext(ctx, past)) },
		"PgxWriteGuard": func(ctx context.Context) error { return err2(below.Exec(ctx, past)) },
	} {
		require.Equal(t, 500, book(t, module, guard, 500, func(ctx context.Context, tx gormstore.PgxDBTX) {
			require.NoError(t, err2(tx.Exec(ctx, "UPDATE effects SET name = 'less' WHERE id = 7")))
			require.ErrorIs(t, write(ctx), gormstore.ErrOutsideTransaction)
		}))
		require.Equal(t, "balance", query[string](t, db, "SELECT name FROM effects WHERE id = 7"))
	}
}
