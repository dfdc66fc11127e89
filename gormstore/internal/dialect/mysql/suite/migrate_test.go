package suite

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/internal/mariatest"
)

// A tool that runs the migration again, beside attempts, waits for none of them, and makes the slots that are missing.
func TestMigrationRunsAgainBesideAttempts(t *testing.T) {
	db, address := migrated(t)
	st := newStore(t, db)
	for _, isolation := range []string{"READ-COMMITTED", "REPEATABLE-READ"} {
		a, _ := begin(t, st, command(core.Rollback))
		require.NoError(t, db.Exec("DELETE FROM idempotency_migration").Error)
		again := open(t, address+"?innodb_lock_wait_timeout=1&tx_isolation=%27"+isolation+"%27")
		require.NoError(t, gormstore.Migrate(t.Context(), again), isolation)
		require.NoError(t, a.Rollback())
	}
	require.NoError(t, db.Exec("DELETE FROM idempotency_migration").Error)
	require.NoError(t, db.Exec("DELETE FROM idempotency_lock WHERE slot > 7").Error)
	require.Error(t, st.Validate(t.Context()))
	require.NoError(t, gormstore.Migrate(t.Context(), db))
	require.NoError(t, st.Validate(t.Context()))
}

// Instances that start at once migrate at once, and none keeps a lock on a connection of its pool.
func TestMigrateAtOnce(t *testing.T) {
	address := mariatest.Address(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var instances errgroup.Group
	for range 4 {
		db := open(t, address)
		instances.Go(func() error { return gormstore.Migrate(ctx, db) })
	}
	require.NoError(t, instances.Wait())
	db := open(t, address)
	require.NoError(t, gormstore.Migrate(ctx, db), "again")
	require.NoError(t, newStore(t, db).Validate(ctx))
}
