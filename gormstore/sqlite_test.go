package gormstore_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libtnb/sqlite"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
)

// endless inserts rows until it is interrupted, which its first row asks for: see interruptible.
const endless = "INSERT INTO effects (name) WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT cut() FROM c"

// interruptible is a database of SQLite where statements can call cut(). That ends the context that within gave last:
// a statement which runs in it is interrupted while it runs, however fast the machine is.
func interruptible(t *testing.T) (db *gorm.DB, within func(context.Context) context.Context) {
	t.Helper()
	var cut atomic.Pointer[context.CancelFunc]
	db = sqliteWith(t, "cut", func(driver.ExecerContext, []driver.Value) (driver.Value, error) {
		(*cut.Load())()
		return "x", nil
	})
	return db, func(ctx context.Context) context.Context {
		ctx, cancel := context.WithCancel(ctx)
		cut.Store(&cancel)
		return ctx
	}
}

// SQLite ends the whole transaction where a write is interrupted. Without a look at that, what the handler writes next
// would be committed at once and on its own.
//
// CONTRACT X-0
func TestSQLiteEndsTransactions(t *testing.T) {
	db, within := interruptible(t)
	st := newStore(t, db)

	interrupted := map[string]func(ctx context.Context) error{
		"by Exec": func(ctx context.Context) error { return gormstore.Tx(ctx).Exec(endless).Error },
		"by Scan": func(ctx context.Context) error {
			var ids []int
			return gormstore.Tx(ctx).Raw(endless + " RETURNING id").Scan(&ids).Error
		},
		"by Query": func(ctx context.Context) error {
			handle, _ := gormstore.SQLTx(ctx)
			rows, err := handle.QueryContext(ctx, endless+" RETURNING id")
			if err != nil {
				return err
			}
			defer func() { _ = rows.Close() }()
			rows.Next()
			return rows.Err()
		},
		"by QueryRow": func(ctx context.Context) error {
			handle, _ := gormstore.SQLTx(ctx)
			var id int
			return handle.QueryRowContext(ctx, endless+" RETURNING id").Scan(&id)
		},
	}
	for name, write := range interrupted {
		for _, goesOn := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				c := command(store.Rollback)
				tx, ctx := beginRow(t, st, c)
				require.ErrorIs(t, write(within(ctx)), context.Canceled)
				if goesOn {
					require.ErrorContains(t, addEffect(ctx), "an earlier statement has ended the transaction")
					var row effect
					require.Error(t, gormstore.Tx(ctx).First(&row).Error)
				}
				require.Zero(t, countEffects(t, db))
				require.ErrorIs(t, seal(t.Context(), tx, refused(), goesOn), store.ErrAborted)
				requireNothing(t, st, c)
				requireFree(t, st, c)
				require.Zero(t, countEffects(t, db))
			})
		}
	}

	t.Run("a query that is interrupted does no harm", func(t *testing.T) {
		c := command(store.Rollback)
		tx, ctx := begin(t, st, c)
		const read = "WITH RECURSIVE c(n) AS (SELECT cut() UNION ALL SELECT n FROM c) SELECT count(*) FROM c"
		require.ErrorIs(t, gormstore.Tx(within(ctx)).Exec(read).Error, context.Canceled)
		require.NoError(t, addEffect(ctx))
		require.NoError(t, seal(t.Context(), tx, paid(), false))
		requireCompleted(t, st, c, paid())
		require.Equal(t, 1, countEffects(t, db))
	})
}

// A transaction may hold the one writer for longer than the end of another attempt can wait. That attempt's answer stays
// in the line, and is recorded next.
//
// CONTRACT
func TestAnswerWaitsForTheWriter(t *testing.T) {
	st := newStore(t, freshSQLite(t)(t))
	finished := command(store.Park)
	ticket := won(t, st, finished)
	long, _ := beginRow(t, st, command(store.Rollback))

	for waited := 0; waited < 3; { // as core does, until it gives up
		impatient, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		err := st.End(impatient, ticket, store.Ending{State: store.Completed, Answer: paid()})
		cancel()
		if errors.Is(err, store.ErrUnconfirmed) {
			waited++
			continue
		}
		require.ErrorIs(t, err, context.DeadlineExceeded) // on a busy machine the millisecond is over before the write begins
	}
	require.NoError(t, seal(t.Context(), long, paid(), false))
	eventually(t, "the answer is recorded", func() bool {
		rec := try(st.Find(t.Context(), finished.ID, store.Viewer{All: true})).ok(t)
		return rec.State() == store.Completed
	})
	requireCompleted(t, st, finished, paid())
}

// SQLite also ends the whole transaction where a conflict is resolved with ROLLBACK, and where the disk is full. A handler
// that swallows the error and goes on writes nothing that would commit on its own.
//
// CONTRACT
func TestSQLiteRollsBackByItself(t *testing.T) {
	t.Parallel()
	address := sqliteAddress(t)
	roomy := openDB(t, sqlite.Open(address), 4)
	migrate(t, roomy)
	execute(t, roomy, "CREATE TRIGGER refused BEFORE INSERT ON effects WHEN NEW.name = 'refused' BEGIN SELECT RAISE(ROLLBACK, 'no'); END",
		"INSERT INTO effects (id, name) VALUES (1, 'before')", "CREATE TABLE large (name text)")
	limit := "&_pragma=max_page_count(" + strconv.Itoa(query[int](t, roomy, "PRAGMA page_count")+20) + ")"
	require.NoError(t, try(roomy.DB()).ok(t).Close())

	for end, statement := range map[string]string{
		"OR ROLLBACK":     "INSERT OR ROLLBACK INTO effects (id, name) VALUES (1, 'again')",
		"RAISE(ROLLBACK)": "INSERT INTO effects (name) VALUES ('refused')",
		"full disk":       "INSERT INTO large (name) VALUES (hex(zeroblob(200000)))",
		"in a row":        "INSERT OR ROLLBACK INTO effects (id, name) VALUES (1, 'again') RETURNING id",
	} {
		for name, run := range attempts {
			t.Run(end+", "+name, func(t *testing.T) {
				db := openDB(t, sqlite.Open(address+limit), 4)
				err := run(t, db, func(tx *gorm.DB) error {
					require.NoError(t, stock(tx))
					if end == "in a row" {
						require.Error(t, tx.Raw(statement).Scan(&[]int{}).Error)
					} else {
						require.Error(t, tx.Exec(statement).Error)
					}
					require.ErrorContains(t, stock(tx), "an earlier statement has ended the transaction")
					require.ErrorContains(t, tx.Exec("SELECT 1").Error, "an earlier statement has ended the transaction")
					return nil
				})
				require.Error(t, err)
				require.NotErrorIs(t, err, store.ErrEnded, "nothing of it was committed")
				require.Equal(t, 1, countEffects(t, db))
				requireIdle(t, db)
			})
		}
	}
}
