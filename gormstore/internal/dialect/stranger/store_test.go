package stranger

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/core/storetest"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/gormstore/internal/txn"
	"github.com/auth19/idem/internal/generator"
	"github.com/auth19/idem/internal/pgtest"
)

func init() { txn.Dialects = append(txn.Dialects, newDialect()) }

// A database that the engine does not know passes the suite of stores.
//
// CONTRACT M-1, M-3, M-6, X-0, X-2, X-4, X-14, X-15
func TestStore(t *testing.T) {
	url := pgtest.URL(t)
	db, twin := open(t, url), open(t, url)
	require.NoError(t, gormstore.Migrate(t.Context(), db))
	require.NoError(t, db.Exec("CREATE TABLE effects (name text NOT NULL)").Error)
	newSubject := func(t *testing.T) storetest.Subject { return subject(t, db, twin) }
	features := storetest.Features{Attempts: true, Rows: true, Shared: true, Watch: true, Settings: true, Proposed: true, Unlocked: true}
	storetest.Run(t, newSubject, features)
	t.Run("stress", func(t *testing.T) { storetest.Stress(t, newSubject, features) })
}

var forFlag = flag.Duration("for", 0, "how long the generator goes on; 0: for 20 runs")

// It passes the generator.
//
// CONTRACT M-1, M-6, X-0, X-4, X-14, X-15
func TestGenerator(t *testing.T) {
	generator.Generate(t, generator.Options{
		Seed: rand.Uint64N(1 << 32), Runs: 20, For: *forFlag, Database: openURL, Unlocked: true,
	})
}

func open(t *testing.T, url string) *gorm.DB {
	t.Helper()
	db, err := gorm.Open(openURL(url), &gorm.Config{Logger: logger.Discard})
	require.NoError(t, err)
	pool, err := db.DB()
	require.NoError(t, err)
	pool.SetMaxOpenConns(16)
	pool.SetMaxIdleConns(16)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	return db
}

// subject is a store whose tables are empty.
func subject(t *testing.T, db, twin *gorm.DB) storetest.Subject {
	t.Helper()
	var tables []string
	require.NoError(t, db.Raw(`SELECT table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE' AND (table_name
		LIKE 'idempotency%' AND table_name <> 'idempotency_migration' OR table_name = 'effects')`).Scan(&tables).Error)
	require.NoError(t, db.Transaction(func(tx *gorm.DB) error {
		err := errors.Join(tx.Exec("SET LOCAL lock_timeout = '10s'").Error, tx.Exec("LOCK TABLE "+strings.Join(tables, ", ")).Error)
		for _, table := range tables {
			err = errors.Join(err, tx.Exec("DELETE FROM "+table).Error)
		}
		return err
	}))
	return storetest.Subject{
		Store: newStore(t, db),
		Twin:  func(t *testing.T) store.Operations { return newStore(t, twin) },
		Advance: func(t *testing.T, d time.Duration) {
			t.Helper()
			var statements []string
			require.NoError(t, db.Raw(`SELECT 'UPDATE ' || table_name || ' SET ' ||
				string_agg(column_name || ' = ' || column_name || ' - ' || ?::bigint, ', ') FROM information_schema.columns
				WHERE table_name IN ? AND column_name ~ '_(at|until)$' GROUP BY table_name`, d.Microseconds(), tables).
				Scan(&statements).Error)
			for _, statement := range statements {
				require.NoError(t, db.Exec(statement).Error)
			}
		},
		Effect: func(ctx context.Context) error {
			return gormstore.Tx(ctx).Exec("INSERT INTO effects (name) VALUES ('row')").Error
		},
		Effects: func(t *testing.T) int {
			t.Helper()
			var n int64
			require.NoError(t, db.Table("effects").Count(&n).Error)
			return int(n)
		},
	}
}

func newStore(t *testing.T, db *gorm.DB) *gormstore.Store {
	t.Helper()
	st, err := gormstore.New(db)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	require.NoError(t, st.Validate(t.Context()))
	return st
}
