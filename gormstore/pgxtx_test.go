package gormstore_test

import (
	"context"
	"crypto/rand"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/internal/pgtest"
)

// pgxWays are the ways to have pgx below: through gorm.io/driver/postgres, and over a pgxpool of the app.
var pgxWays = append([]database{{name: "pgxpool", fresh: freshPool}}, databases[:3]...)

func freshPool(t *testing.T) func(t *testing.T) *gorm.DB {
	address := pgtest.URL(t)
	return func(t *testing.T) *gorm.DB {
		db := openPool(t, address, nil)
		migrate(t, db)
		return db
	}
}

// openPool opens a database over a pgxpool, as a pgx app does.
func openPool(t *testing.T, address string, tracer pgx.QueryTracer) *gorm.DB {
	t.Helper()
	return gormOver(t, newPool(t, address, tracer))
}

func newPool(
	t *testing.T, address string, tracer pgx.QueryTracer, connected ...func(context.Context, *pgx.Conn) error,
) *pgxpool.Pool {
	t.Helper()
	config := try(pgxpool.ParseConfig(address)).ok(t)
	config.MaxConns, config.ConnConfig.Tracer = 16, tracer
	if len(connected) > 0 {
		config.AfterConnect = connected[0]
	}
	below := try(pgxpool.NewWithConfig(t.Context(), config)).ok(t)
	t.Cleanup(below.Close)
	return below
}

func gormOver(t *testing.T, below *pgxpool.Pool) *gorm.DB {
	t.Helper()
	pool := stdlib.OpenDBFromPool(below)
	pool.SetMaxOpenConns(int(below.Config().MaxConns))
	db := try(gorm.Open(postgres.New(postgres.Config{Conn: pool}), &gorm.Config{Logger: logger.Discard})).ok(t)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	return db
}

const addRow = "INSERT INTO effects (name) VALUES ($1)"

// inBatch sends one statement as a batch.
func inBatch(ctx context.Context, tx interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}, text string, args ...any,
) error {
	var batch pgx.Batch
	batch.Queue(text, args...)
	return tx.SendBatch(ctx, &batch).Close()
}

// pgxWrites are the ways in which a handler may write through PgxTx: each adds two rows.
var pgxWrites = map[string]func(ctx context.Context, tx gormstore.PgxDBTX) error{
	"exec": func(ctx context.Context, tx gormstore.PgxDBTX) error {
		tag, err := tx.Exec(ctx, "INSERT INTO effects (name) VALUES ($1), ($2)", "a", "b")
		if err == nil && tag.RowsAffected() != 2 {
			err = fmt.Errorf("%d rows", tag.RowsAffected())
		}
		return err
	},
	"named arguments": func(ctx context.Context, tx gormstore.PgxDBTX) error {
		_, err := tx.Exec(ctx, "INSERT INTO effects (name) VALUES (@name), (@name)", pgx.NamedArgs{"name": "a"})
		return err
	},
	"query": func(ctx context.Context, tx gormstore.PgxDBTX) error {
		rows, _ := tx.Query(ctx, "INSERT INTO effects (name) VALUES ('a'), ('b') RETURNING name")
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err == nil && len(names) != 2 {
			err = fmt.Errorf("%v", names)
		}
		return err
	},
	"rows that nobody reads": func(ctx context.Context, tx gormstore.PgxDBTX) error {
		_, err := tx.Query(ctx, "INSERT INTO effects (name) VALUES ('a'), ('b') RETURNING name")
		return err
	},
	"query row": func(ctx context.Context, tx gormstore.PgxDBTX) error {
		for range 2 {
			var id int64
			if err := tx.QueryRow(ctx, addRow+" RETURNING id", "a").Scan(&id); err != nil || id == 0 {
				return fmt.Errorf("%d: %w", id, err)
			}
		}
		return nil
	},
	"copy": func(ctx context.Context, tx gormstore.PgxDBTX) error {
		n, err := tx.CopyFrom(ctx, pgx.Identifier{"effects"}, []string{"name"}, pgx.CopyFromRows([][]any{{"a"}, {"b"}}))
		if err == nil && n != 2 {
			err = fmt.Errorf("%d rows", n)
		}
		return err
	},
	"batch": func(ctx context.Context, tx gormstore.PgxDBTX) error {
		var batch pgx.Batch
		batch.Queue(addRow, "a")
		batch.Queue(addRow+" RETURNING name", "b")
		batch.Queue("SELECT count(*) FROM effects WHERE name IN ('a', 'b')")
		results := tx.SendBatch(ctx, &batch)
		var name string
		var n int
		_, first := results.Exec()
		second := results.QueryRow().Scan(&name)
		third := results.QueryRow().Scan(&n)
		_, none := results.Exec()
		if err := errors.Join(first, second, third, results.Close()); err != nil || name != "b" || n < 2 || none == nil {
			return fmt.Errorf("%q, %d: %w", name, n, errors.Join(err, none))
		}
		return nil
	},
	"batch with functions, as sqlc generates it": func(ctx context.Context, tx gormstore.PgxDBTX) error {
		var batch pgx.Batch
		var seen []string
		batch.Queue(addRow, "a").Exec(func(pgconn.CommandTag) error { seen = append(seen, "exec"); return nil })
		batch.Queue(addRow+" RETURNING name", "b").Query(func(rows pgx.Rows) error {
			for rows.Next() {
				seen = append(seen, "row")
			}
			if rows.Conn() != nil {
				return errors.New("the connection itself")
			}
			if rows.(interface{ TypeMap() *pgtype.Map }).TypeMap() == nil { // pgx has it since v5.11
				return errors.New("no types")
			}
			return rows.Err()
		})
		batch.Queue("SELECT 7").QueryRow(func(row pgx.Row) error { return row.Scan(new(int)) })
		err := tx.SendBatch(ctx, &batch).Close()
		if len(seen) != 2 {
			err = fmt.Errorf("%v: %w", seen, err)
		}
		return err
	},
	"batch that nobody reads": func(ctx context.Context, tx gormstore.PgxDBTX) error {
		var batch pgx.Batch
		batch.Queue(addRow, "a")
		batch.Queue(addRow, "b")
		tx.SendBatch(ctx, &batch)
		return nil
	},
}

// What is written through PgxTx commits with the answer, or is undone: with a 4xx, a 5xx, a panic. The doors are one
// transaction.
//
// CONTRACT X-0
func TestPgxTx(t *testing.T) {
	t.Parallel()
	for _, d := range pgxWays {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			db := d.fresh(t)(t)
			module := newModule(t, newStore(t, db), core.Policy{Recovery: core.Rollback})
			for name, write := range pgxWrites {
				t.Run(name, func(t *testing.T) {
					require.NoError(t, db.Exec("DELETE FROM effects").Error)
					for _, status := range []int{500, 402, panics, 201, 202} {
						key := rand.Text()
						for range 2 {
							require.Equal(t, status, book(t, module, key, status, func(ctx context.Context, tx gormstore.PgxDBTX) {
								require.NoError(t, write(ctx, tx))
							}))
							if status == 500 || status == panics {
								break // it would run again
							}
						}
					}
					require.Equal(t, 4, countEffects(t, db), "two successes with two rows each")
					requireIdle(t, db)
				})
			}
		})
	}
}

// panics is the status of a handler that panics.
const panics = 0

// book serves a command whose handler works through PgxTx and answers with a status.
func book(
	t *testing.T, module *core.Module, key string, status int, work func(ctx context.Context, tx gormstore.PgxDBTX),
) (answered int) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil {
			require.Equal(t, "after the rows", p)
		}
	}()
	return serve(t, module, key, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tx, ok := gormstore.PgxTx(r.Context())
		require.True(t, ok)
		work(r.Context(), tx)
		if status == panics {
			panic("after the rows")
		}
		w.WriteHeader(status)
	})).Code
}

// Where one text of a batch is transaction control, nothing of the batch is sent. What pgx would send in place of the text
// is what is looked at.
//
// CONTRACT X-8
func TestPgxTxRefusesTransactionControl(t *testing.T) {
	t.Parallel()
	db := freshPool(t)(t)
	module := newModule(t, newStore(t, db), core.Policy{Recovery: core.Rollback})
	require.Equal(t, 201, book(t, module, "k", 201, func(ctx context.Context, tx gormstore.PgxDBTX) {
		for _, ending := range endings {
			var batch pgx.Batch
			batch.Queue(addRow, "in the batch")
			batch.Queue(ending)
			results := tx.SendBatch(ctx, &batch)
			require.ErrorContains(t, err2(results.Exec()), "a handler must not end", ending)
			require.ErrorContains(t, results.QueryRow().Scan(new(int)), "a handler must not end")
			require.ErrorContains(t, results.Close(), "a handler must not end")

			require.ErrorContains(t, err2(tx.Exec(ctx, ending)), "a handler must not end", ending)
			rows, err := tx.Query(ctx, ending)
			require.ErrorContains(t, err, "a handler must not end")
			require.ErrorIs(t, rows.Err(), err, "pgx.CollectRows looks there")
			rows.Close()
			require.ErrorContains(t, tx.QueryRow(ctx, "SELECT 1", hidden(ending)).Scan(new(int)), "a handler must not end")
			require.ErrorContains(t, inBatch(ctx, tx, "SELECT 1", hidden(ending)), "a handler must not end")
		}
		require.NoError(t, err2(tx.Exec(ctx, addRow, "a")))
	}))
	require.Equal(t, 1, countEffects(t, db))
}

// A statement that pgx knows by a name of its own ends the transaction, and the library does not see its text. The server's
// status shows it.
//
// CONTRACT X-8, M-4
func TestPgxTxNoticesTheEnd(t *testing.T) {
	t.Parallel()
	for _, ending := range []string{"COMMIT", "ROLLBACK"} {
		for way, send := range map[string]func(ctx context.Context, tx gormstore.PgxDBTX) error{
			"exec":  func(ctx context.Context, tx gormstore.PgxDBTX) error { return err2(tx.Exec(ctx, "innocent")) },
			"query": func(ctx context.Context, tx gormstore.PgxDBTX) error { return err2(tx.Query(ctx, "innocent")) },
			"batch": func(ctx context.Context, tx gormstore.PgxDBTX) error { return inBatch(ctx, tx, "innocent") },
		} {
			t.Run(ending+", "+way, func(t *testing.T) {
				t.Parallel()
				below := newPool(t, pgtest.URL(t), nil, func(ctx context.Context, c *pgx.Conn) error {
					return err2(c.Prepare(ctx, "innocent", ending))
				})
				db := gormOver(t, below)
				migrate(t, db)
				module := newModule(t, newStore(t, db), core.Policy{Recovery: core.Rollback})
				for range 2 {
					w := serve(t, module, "k", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
						tx, _ := gormstore.PgxTx(r.Context())
						require.NoError(t, send(r.Context(), tx))
					}))
					require.Contains(t, w.Body.String(), "outcome_unknown")
				}
			})
		}
	}
}

func err2[T any](_ T, err error) error { return err }

// Results that are read too late are not there, instead of being cut short; a statement that comes too late is refused; and a
// second one while rows are open is told so by pgx.
//
// CONTRACT
func TestPgxTxAfterTheEnd(t *testing.T) {
	t.Parallel()
	for _, d := range pgxWays {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			store := newStore(t, d.fresh(t)(t))
			tx, ctx := begin(t, store, command(core.Rollback))
			door, ok := gormstore.PgxTx(ctx)
			require.True(t, ok)
			rows := try(door.Query(ctx, "SELECT n FROM generate_series(1, 1000) n")).ok(t)
			require.True(t, rows.Next())
			require.ErrorContains(t, door.QueryRow(ctx, "SELECT 1").Scan(new(int)), "conn busy")
			rows.Close()
			rows = try(door.Query(ctx, "SELECT n FROM generate_series(1, 1000) n")).ok(t)
			require.True(t, rows.Next())
			var batch pgx.Batch
			batch.Queue("SELECT 1")
			require.NoError(t, seal(t.Context(), tx, paid(), false))

			require.False(t, rows.Next())
			require.ErrorContains(t, rows.Err(), "these results were closed")
			require.Error(t, rows.Scan(new(int)))
			rows.Close()
			require.ErrorContains(t, err2(door.Exec(ctx, "SELECT 1")), "the attempt is over")
			require.ErrorContains(t, door.SendBatch(ctx, &batch).Close(), "the attempt is over")
			_, err := door.CopyFrom(ctx, pgx.Identifier{"effects"}, []string{"name"}, pgx.CopyFromRows([][]any{{"late"}}))
			require.ErrorContains(t, err, "the attempt is over")
		})
	}
}

// A source that uses the transaction gets an error, instead of waiting for the copy that waits for it; its panic is the
// handler's; and a copy ends with the attempt.
//
// CONTRACT
func TestPgxTxCopySource(t *testing.T) {
	t.Parallel()
	db := freshPool(t)(t)
	st := newStore(t, db)
	copies := func(ctx context.Context, tx gormstore.PgxDBTX, next func() ([]any, error)) error {
		_, err := tx.CopyFrom(ctx, pgx.Identifier{"effects"}, []string{"name"}, pgx.CopyFromFunc(next))
		return err
	}
	for name, c := range map[string]struct {
		want int
		next func(ctx context.Context, tx gormstore.PgxDBTX) ([]any, error)
	}{
		"uses the transaction": {500, func(ctx context.Context, tx gormstore.PgxDBTX) ([]any, error) {
			err := err2(tx.Exec(ctx, "SELECT 1"))
			require.ErrorContains(t, err, "a CopyFrom is being sent")
			require.ErrorContains(t, gormstore.Tx(ctx).Exec("SELECT 1").Error, "a CopyFrom is being sent")
			return nil, err
		}},
		"refuses":    {422, func(context.Context, gormstore.PgxDBTX) ([]any, error) { return nil, errors.New("a bad line") }},
		"panics":     {panics, func(context.Context, gormstore.PgxDBTX) ([]any, error) { panic("after the rows") }},
		"never ends": {503, func(context.Context, gormstore.PgxDBTX) ([]any, error) { return []any{"again"}, nil }},
	} {
		t.Run(name, func(t *testing.T) {
			status, deadline := 201, time.Minute
			switch name {
			case "refuses": // its refusal is recorded
				status = 422
			case "never ends":
				deadline = time.Second
			}
			module := newModule(t, st, core.Policy{Recovery: core.Rollback, Deadline: deadline})
			require.Equal(t, c.want, book(t, module, rand.Text(), status, func(ctx context.Context, tx gormstore.PgxDBTX) {
				require.Error(t, copies(ctx, tx, func() ([]any, error) { return c.next(ctx, tx) }))
			}))
			requireIdle(t, db)
			require.Zero(t, countEffects(t, db))
		})
	}
}

// A handler of Resume writes through PgxTx in its steps, and reads beside them.
//
// CONTRACT
func TestPgxTxInSteps(t *testing.T) {
	t.Parallel()
	db := freshPool(t)(t)
	segments, _ := resume(t, newStore(t, db), command(core.Resume))
	ctx := segments.Bind(t.Context(), nil)
	var kept gormstore.PgxDBTX
	require.NoError(t, segments.Step(ctx, func(ctx context.Context) error {
		kept, _ = gormstore.PgxTx(ctx)
		return err2(kept.Exec(ctx, addRow, "a"))
	}))
	require.Error(t, err2(kept.Exec(ctx, addRow, "late")))
	beside, ok := gormstore.PgxTx(ctx)
	require.True(t, ok)
	var n int
	require.NoError(t, beside.QueryRow(ctx, "SELECT count(*) FROM effects").Scan(&n))
	require.Equal(t, 1, n, "it sees what the step has written")
	var batch pgx.Batch
	batch.Queue("SELECT 1")
	batch.Queue(addRow, "beside")
	for _, err := range []error{
		err2(beside.Exec(ctx, addRow, "beside")), beside.SendBatch(ctx, &batch).Close(),
		err2(beside.CopyFrom(ctx, pgx.Identifier{"effects"}, []string{"name"}, pgx.CopyFromRows([][]any{{"beside"}}))),
	} {
		require.ErrorIs(t, err, gormstore.ErrOutsideTransaction)
	}
	require.NoError(t, err2(segments.Seal(ctx, store.Seal{Steps: []store.StepRecord{{Name: "work", Kind: store.DatabaseStep}}})))
	require.Equal(t, 1, countEffects(t, db))
}

// What a handler has left on its connection reaches nobody, also not the users of the pgxpool below.
//
// CONTRACT X-9
func TestResidueOverAPool(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	below := newPool(t, address, nil)
	db := gormOver(t, below)
	migrate(t, db)
	require.NoError(t, db.Exec("CREATE FUNCTION freeze() RETURNS text LANGUAGE sql AS $$ "+
		"SELECT set_config('default_transaction_read_only', 'on', false) $$").Error)
	module := newModule(t, newStore(t, db), core.Policy{Recovery: core.Rollback})
	for _, status := range []int{201, 402, 500} {
		var pid, found int
		require.Equal(t, status, book(t, module, rand.Text(), status, func(ctx context.Context, tx gormstore.PgxDBTX) {
			require.NoError(t, tx.QueryRow(ctx, "SELECT pg_backend_pid() FROM (SELECT freeze()) f").Scan(&pid))
		}))
		requireIdle(t, db)
		for _, c := range below.AcquireAllIdle(t.Context()) {
			require.NoError(t, c.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&found))
			require.NotEqual(t, pid, found, "it is closed")
			c.Release()
		}
	}
}

// panicking is a value that cannot be made one of the database's.
type panicking struct{}

func (panicking) Value() (driver.Value, error) { panic("after the rows") }

// panickingPointer is one whose nil pointer is asked as well.
type panickingPointer struct{}

func (*panickingPointer) Value() (driver.Value, error) { panic("after the rows") }

// A panic while a statement's arguments are made ends the attempt as any other does, through every door.
//
// CONTRACT
func TestPanicInAnArgument(t *testing.T) {
	t.Parallel()
	const add = "INSERT INTO effects (name) VALUES ($1) RETURNING id"
	for name, write := range map[string]func(ctx context.Context, tx gormstore.PgxDBTX, value any) error{
		"GORM": func(ctx context.Context, _ gormstore.PgxDBTX, value any) error {
			return gormstore.Tx(ctx).Exec("INSERT INTO effects (name) VALUES (?)", value).Error
		},
		"SQLTx": func(ctx context.Context, _ gormstore.PgxDBTX, value any) error {
			tx, _ := gormstore.SQLTx(ctx)
			return tx.QueryRowContext(ctx, add, value).Scan(new(int64))
		},
		"PgxTx": func(ctx context.Context, tx gormstore.PgxDBTX, value any) error {
			return err2(tx.Exec(ctx, add, value))
		},
		"PgxTx row": func(ctx context.Context, tx gormstore.PgxDBTX, value any) error {
			return tx.QueryRow(ctx, add, value).Scan(new(int64))
		},
		"PgxTx batch": func(ctx context.Context, tx gormstore.PgxDBTX, value any) error { return inBatch(ctx, tx, add, value) },
		"PgxTx copy": func(ctx context.Context, tx gormstore.PgxDBTX, value any) error {
			return err2(tx.CopyFrom(ctx, pgx.Identifier{"effects"}, []string{"name"}, pgx.CopyFromRows([][]any{{nil}, {value}})))
		},
		"PgxTx copy of a nil pointer": func(ctx context.Context, tx gormstore.PgxDBTX, _ any) error {
			rows := pgx.CopyFromRows([][]any{{(*panicking)(nil)}, {(*panickingPointer)(nil)}}) // the first is NULL
			return err2(tx.CopyFrom(ctx, pgx.Identifier{"effects"}, []string{"name"}, rows))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := freshPostgres("", false)(t)(t)
			module := newModule(t, newStore(t, db), core.Policy{Recovery: core.Rollback})
			key := rand.Text()
			require.Equal(t, panics, book(t, module, key, 201, func(ctx context.Context, tx gormstore.PgxDBTX) {
				require.NoError(t, err2(tx.Exec(ctx, add, "before")))
				require.Error(t, write(ctx, tx, panicking{}))
			}))
			require.Eventually(t, func() bool { // the server may not have noticed yet that the connection is closed
				return book(t, module, key, 201, func(context.Context, gormstore.PgxDBTX) {}) == 201
			}, time.Minute, 10*time.Millisecond, "the key is free")
			require.Zero(t, countEffects(t, db))
			requireIdle(t, db)
		})
	}
}

// database/sql does not give back the connection of a query whose argument panics. No place of the pool is lost by it, nor
// SQLite's writer, and the key is free.
//
// CONTRACT, F-3
func TestQueryThatPanics(t *testing.T) {
	onStores(t, transactionKinds, func(t *testing.T, db *gorm.DB, store *gormstore.Store) {
		module := newModule(t, store, core.Policy{Recovery: core.Rollback})
		key := rand.Text()
		query := func(ctx context.Context) {
			tx, _ := gormstore.SQLTx(ctx)
			_ = tx.QueryRowContext(ctx, "SELECT $1", panicking{}).Scan(new(string))
		}
		pay := func(work func(ctx context.Context)) int {
			return serve(t, module, key, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				require.NoError(t, addEffect(r.Context()))
				work(r.Context())
				w.WriteHeader(http.StatusCreated)
			})).Code
		}
		for range try(db.DB()).ok(t).Stats().MaxOpenConnections + 1 {
			require.Panics(t, func() { pay(query) })
		}
		requireIdle(t, db)
		require.Zero(t, countEffects(t, db))
		for range 2 { // it has swallowed one, and it is replayed
			require.Equal(t, http.StatusCreated, pay(func(ctx context.Context) {
				defer func() { _ = recover() }()
				query(ctx)
			}))
		}
		requireIdle(t, db)
		require.Equal(t, 1, countEffects(t, db))
	})
}

// The end of the attempt closes results that the handler is at. (The race detector sees what this test is for.)
//
// CONTRACT X-9
func TestResultsAreAskedWhileTheAttemptEnds(t *testing.T) {
	t.Parallel()
	tx, ctx := begin(t, newStore(t, freshPool(t)(t)), command(core.Rollback))
	door, _ := gormstore.PgxTx(ctx)
	rows, err := door.Query(ctx, "SELECT generate_series(1, 100)")
	require.NoError(t, err)
	require.True(t, rows.Next())
	ended := make(chan error)
	go func() { ended <- tx.Rollback() }()
	for n, over := 1, false; !over; n++ {
		_, _ = rows.CommandTag(), rows.Err()
		if n < 99 { // they are not read to their end
			rows.Next()
		}
		select {
		case err := <-ended:
			require.NoError(t, err)
			over = true
		default:
		}
	}
	require.False(t, rows.Next())
	require.ErrorContains(t, rows.Err(), "these results were closed")
}

// Over another driver there is no pgx.
func TestPgxTxWithoutPgx(t *testing.T) {
	onStores(t, []string{"sqlite", "postgres wrapped"}, func(t *testing.T, _ *gorm.DB, store *gormstore.Store) {
		_, ok := gormstore.PgxTx(t.Context())
		require.False(t, ok, "no attempt")
		tx, ctx := begin(t, store, command(core.Rollback))
		door, ok := gormstore.PgxTx(ctx)
		require.True(t, ok)
		require.ErrorContains(t, err2(door.Exec(ctx, "SELECT 1")), "is not over pgx")
		require.ErrorContains(t, err2(door.Query(ctx, "SELECT 1")), "is not over pgx")
		require.NoError(t, gormstore.Tx(ctx).Exec("SELECT 1").Error)
		require.NoError(t, tx.Rollback())
	})
}
