package gormstore_test

import (
	"context"
	"database/sql"
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

// A store is ready when its tables have what this release needs, its self-test has passed, and its server takes writes. More
// in the tables is no fault: the older release goes on behind the newer one's migration.
//
// CONTRACT F-8
func TestReady(t *testing.T) {
	t.Parallel()
	for name, dialector := range map[string]func(t *testing.T) gorm.Dialector{
		"postgres": func(t *testing.T) gorm.Dialector { return postgres.Open(pgtest.URL(t)) },
		"sqlite":   func(t *testing.T) gorm.Dialector { return sqlite.Open(sqliteAddress(t)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := openDB(t, dialector(t), 8)
			st := unasked(t, db)
			require.ErrorIs(t, st.Ready(within(t, 10*time.Second)), store.ErrSchema)
			migrate(t, db)
			require.NoError(t, st.Ready(within(t, 10*time.Second)), "it is asked again")
			require.NoError(t, st.Close())

			execute(t, db, "ALTER TABLE idempotency_record ADD COLUMN newer integer NOT NULL DEFAULT 7",
				"CREATE TABLE idempotency_newer (id integer NOT NULL PRIMARY KEY)",
				"INSERT INTO idempotency_migration (name) VALUES ('0002_newer.up.sql')")
			st = unasked(t, db)
			require.NoError(t, st.Ready(within(t, 10*time.Second)))
			require.NoError(t, gormstore.Migrate(t.Context(), db))

			tx, claimed, err := st.Begin(t.Context(), command(store.Rollback))
			require.NoError(t, err)
			require.True(t, claimed.Won)
			require.NoError(t, st.Ready(within(t, 5*time.Second)), "it waits for no attempt")
			require.NoError(t, tx.Rollback())
			require.NoError(t, st.Close())

			execute(t, db, "ALTER TABLE idempotency_record DROP COLUMN traceparent")
			st = unasked(t, db)
			require.ErrorIs(t, st.Ready(within(t, 10*time.Second)), store.ErrSchema)
		})
	}
}

// A server that takes no writes is told apart from one that does not answer, at the start and later.
//
// CONTRACT F-8
func TestNotReadyWhereNothingCanBeWritten(t *testing.T) {
	t.Parallel()
	server := pgtest.Own(t)
	db := openPostgres(t, server.URL(), 8)
	migrate(t, db)
	st := unasked(t, db)
	require.NoError(t, st.Ready(within(t, 10*time.Second)))
	standby := server.Standby()
	eventually(t, "the standby has the tables", func() bool {
		return query[bool](t, openPostgres(t, standby.URL(), 1), "SELECT to_regclass('idempotency_record') IS NOT NULL")
	})
	require.ErrorIs(t, unasked(t, openPostgres(t, standby.URL(), 8)).Ready(within(t, 10*time.Second)), store.ErrNoWrites)
	require.ErrorIs(t, unasked(t, openPostgres(t, server.URL()+"&default_transaction_read_only=on", 8)).
		Ready(within(t, 10*time.Second)), store.ErrNoWrites)

	server.Exec("ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()")
	eventually(t, "it is read-only", func() bool {
		return query[string](t, db, "SHOW default_transaction_read_only") == "on"
	})
	require.ErrorIs(t, st.Ready(within(t, 10*time.Second)), store.ErrNoWrites)
	server.Exec("SET default_transaction_read_only = off", "ALTER SYSTEM RESET default_transaction_read_only")
	server.Exec("SELECT pg_reload_conf()")
	eventually(t, "it is ready again", func() bool { return st.Ready(within(t, 10*time.Second)) == nil })

	other := unasked(t, openPostgres(t, server.URL(), 8)) // has not been asked yet
	server.Stop(pgtest.Immediate)
	for _, one := range []*gormstore.Store{st, other} {
		err := one.Ready(within(t, time.Second))
		require.Error(t, err)
		require.NotErrorIs(t, err, store.ErrUnfit)
		require.NotErrorIs(t, err, store.ErrNoWrites)
	}
	server.Start()
	eventually(t, "it is ready again", func() bool { return st.Ready(within(t, 10*time.Second)) == nil })
}

// The question waits for no place of the app's pool: an instance with much to do is ready.
//
// CONTRACT F-8
func TestReadyBesideAFullPool(t *testing.T) {
	t.Parallel()
	db := openPostgres(t, migratedURL(t), 8)
	st := unasked(t, db)
	require.NoError(t, st.Ready(within(t, 10*time.Second)))
	pool := try(db.DB()).ok(t)
	var taken []*sql.Conn
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		one, err := pool.Conn(ctx)
		cancel()
		if err != nil {
			break
		}
		taken = append(taken, one)
	}
	require.NotEmpty(t, taken)
	for range 3 {
		require.NoError(t, st.Ready(within(t, time.Second)))
	}
	for _, one := range taken {
		require.NoError(t, one.Close())
	}
}
