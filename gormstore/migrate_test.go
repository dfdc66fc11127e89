package gormstore_test

import (
	"io/fs"
	"testing"
	"time"

	"github.com/libtnb/sqlite"
	"github.com/stretchr/testify/require"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/internal/pgtest"
)

// Instances that start at once take turns.
//
// CONTRACT F-2
func TestMigrateAtOnce(t *testing.T) {
	t.Parallel()
	address := sqliteAddress(t)
	for name, dialector := range map[string]gorm.Dialector{
		"postgres":              postgres.Open(pgtest.URL(t)),
		"postgres serializable": postgres.Open(pgtest.URL(t) + "&default_transaction_isolation=serializable"),
		"sqlite":                sqlite.Open(address),
	} {
		t.Run(name, func(t *testing.T) {
			instances := make([]*gorm.DB, 8)
			for i := range instances {
				instances[i] = openDB(t, dialector, 3)
			}
			for _, err := range atOnce(len(instances), func(i int) error {
				return gormstore.Migrate(t.Context(), instances[i])
			}) {
				require.NoError(t, err)
			}
			require.NoError(t, newStore(t, instances[0]).Validate(t.Context()))
		})
	}
}

// An instance that starts beside others must not stop them: no statement of an up-to-date Migrate waits for a running
// attempt, and so nothing waits for Migrate.
//
// CONTRACT F-2
func TestMigrateDoesNotWaitForAttempts(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	db := openPostgres(t, url, 8)
	require.NoError(t, gormstore.Migrate(t.Context(), db))
	st := newStore(t, db)
	begin(t, st, command(store.Rollback))
	require.NoError(t, gormstore.Migrate(within(t, 10*time.Second), openPostgres(t, url, 2)))
}

// A migration waits for a table that others use for a second, no longer: whoever comes behind it waits, too. It changes nothing
// then, says what is to be done, and commands go on. So do the files, with any tool.
//
// CONTRACT F-2
func TestMigrateGivesWay(t *testing.T) {
	t.Parallel()
	for name, held := range map[string]string{
		"long SELECT":     "SELECT count(*) FROM idempotency_operation",
		"running attempt": "UPDATE idempotency_record SET status = status",
	} {
		t.Run(name, func(t *testing.T) {
			url := migratedURL(t)
			db := openPostgres(t, url, 8)
			require.NoError(t, db.Exec("DELETE FROM idempotency_migration").Error) // as if there were a new file
			holder := opened(t, db)
			require.NoError(t, holder.Exec(held).Error)

			err := gormstore.Migrate(patient(t), db)
			require.ErrorContains(t, err, "changed nothing")
			require.ErrorContains(t, err, "call Migrate again")
			require.ErrorContains(t, err, "55P03")
			text := try(fs.ReadFile(gormstore.Migrations(), "postgres/0001_idempotency.up.sql")).ok(t)
			require.ErrorContains(t, db.WithContext(patient(t)).Exec(string(text)).Error, "55P03")
			require.Zero(t, query[int](t, db, "SELECT count(*) FROM idempotency_migration"))
			won(t, newStore(t, db), command(store.Park))

			require.NoError(t, holder.Rollback().Error)
			require.NoError(t, gormstore.Migrate(patient(t), db))
			require.Equal(t, "0", query[string](t, db, "SHOW lock_timeout"))
		})
	}
}

// The files are for other tools: they may run in any order of tools, and more than once.
func TestMigrationsAreFiles(t *testing.T) {
	onEvery(t, func(t *testing.T, _ database, db *gorm.DB) {
		files := try(fs.Glob(gormstore.Migrations(), db.Name()+"/*.sql")).ok(t)
		require.NotEmpty(t, files)
		for _, file := range files {
			text := try(fs.ReadFile(gormstore.Migrations(), file)).ok(t)
			require.NoError(t, db.Exec(string(text)).Error, "again: %s", file)
		}
		require.NoError(t, gormstore.Migrate(t.Context(), db), "and once more by ourselves")
	})
}

// What a sequence has given out does not reach a subscriber of logical replication, nor is it in every dump: nothing of
// the store's rests on one.
//
// CONTRACT
func TestSettlementsNeedNoSequence(t *testing.T) {
	db, st := parallelStore(t)
	for range 2 {
		c := command(store.Park)
		won(t, st, c)
		advance(t, db, time.Hour)
		require.NoError(t, err2(st.Settle(t.Context(), store.Settlement{ID: c.ID, Fence: 1, Who: "who", Why: "why"})))
		sequences := query[[]string](t, db, "SELECT sequencename FROM pg_sequences WHERE sequencename LIKE 'idempotency%'")
		for _, name := range sequences {
			execute(t, db, "ALTER SEQUENCE "+name+" RESTART")
		}
	}
}
