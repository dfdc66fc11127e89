package gormstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
)

// slow is a statement that takes longer than any test.
func slow(db *gorm.DB) string {
	if db.Name() == "sqlite" {
		return "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 300000000) SELECT count(*) FROM c"
	}
	return "SELECT pg_sleep(30)"
}

// The deadline ends a statement whatever context the handler gave it, and rolls back.
//
// CONTRACT X-1
func TestDeadlineEndsStatements(t *testing.T) {
	onStores(t, transactionKinds, func(t *testing.T, db *gorm.DB, store *gormstore.Store) {
		own := func(ctx context.Context) context.Context {
			ctx, cancel := context.WithTimeout(ctx, time.Hour)
			t.Cleanup(cancel)
			return ctx
		}
		for name, derive := range map[string]func(context.Context) context.Context{
			"the attempt's context":           func(ctx context.Context) context.Context { return ctx },
			"one derived from it":             own,
			"one without its cancellation":    context.WithoutCancel,
			"context.Background()":            func(context.Context) context.Context { return context.Background() },
			"one with a timeout of its own":   func(context.Context) context.Context { return own(context.Background()) },
			"the attempt's, in a transaction": nil,
		} {
			t.Run(name, func(t *testing.T) {
				c := command(core.Rollback)
				tx, _ := begin(t, store, c)
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				context.AfterFunc(ctx, func() { ended <- tx.Rollback() }) // as core does at the deadline
				ctx = tx.Bind(ctx, nil)
				require.NoError(t, addEffect(ctx))

				time.AfterFunc(50*time.Millisecond, cancel)
				begun := time.Now()
				var err error
				if derive == nil {
					err = gormstore.Tx(ctx).Transaction(func(inner *gorm.DB) error { return inner.Exec(slow(db)).Error })
				} else {
					err = gormstore.Tx(ctx).WithContext(derive(ctx)).Exec(slow(db)).Error
				}
				require.Error(t, err)
				<-ended
				require.Less(t, time.Since(begun), 10*time.Second)
				require.ErrorContains(t, seal(t.Context(), tx, paid(), false), "the attempt is over")
				requireFree(t, store, c)
				require.Zero(t, countEffects(t, db))
			})
		}

		t.Run("a shorter timeout of the handler's holds", func(t *testing.T) {
			_, ctx := begin(t, store, command(core.Rollback))
			short, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			defer cancel()
			begun := time.Now()
			require.Error(t, gormstore.Tx(ctx).WithContext(short).Exec(slow(db)).Error)
			require.Less(t, time.Since(begun), deadline/2)
		})
	})
}

// A process that is frozen in the middle of a handler can roll nothing back.
//
// CONTRACT
func TestServerEndsFrozenAttempts(t *testing.T) {
	bothWays(t, func(t *testing.T, way way) {
		db := way.fresh("", false)(t)(t)
		store := newStore(t, db)
		c := command(core.Rollback)
		c.Deadline = 2 * time.Second
		tx, _ := beginRow(t, store, c)
		requireFree(t, store, c)

		err := seal(t.Context(), tx, paid(), false) // it wakes
		require.Error(t, err)
		require.NotErrorIs(t, err, core.ErrUnconfirmed)
		require.Zero(t, countEffects(t, db))
	})
}

// The server looks after the client of a statement that is running: without that, the key would be taken until the
// statement ends.
//
// CONTRACT X-0
func TestServerEndsAttemptsOfKilledClients(t *testing.T) {
	bothWays(t, func(t *testing.T, way way) {
		url := migratedURL(t)
		db := openPostgres(t, url, 4)
		p := newProxy(t, url)
		p.set(dropCancels)
		victim := newStore(t, way.of(t, openPostgres(t, p.url, 4)))
		c := command(core.Rollback)
		tx, ctx := beginRow(t, victim, c)
		ended := later(func() error { return gormstore.Tx(ctx).Exec(slow(db)).Error })
		sessions(t, db, 1, "wait_event = 'PgSleep'")

		p.cut()
		require.Error(t, <-ended)
		requireFree(t, newStore(t, db), c)
		require.ErrorIs(t, seal(t.Context(), tx, paid(), false), core.ErrRetryable)
		require.Zero(t, countEffects(t, db))
	})
}
