package gormstore_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	_ "github.com/ncruces/go-sqlite3/driver"
	"github.com/ncruces/go-sqlite3/gormlite"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/internal/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// effect is a business row.
type effect struct {
	ID   uint
	Name string
}

// database is one way to run the store.
type database struct {
	name   string
	shared bool                                                  // several processes may use it
	fresh  func(t *testing.T) (open func(t *testing.T) *gorm.DB) // an empty, migrated database
}

// databases are all the ways the store is promised to work in.
var databases = []database{
	{name: "postgres", shared: true, fresh: freshPostgres("", false)},
	{name: "postgres simple protocol", shared: true, fresh: freshPostgres("", true)},
	{name: "postgres serializable", shared: true, fresh: freshPostgres("&default_transaction_isolation=serializable", false)},
	{name: "sqlite", fresh: freshSQLite},
}

func freshPostgres(parameters string, simple bool) func(t *testing.T) func(t *testing.T) *gorm.DB {
	return func(t *testing.T) func(t *testing.T) *gorm.DB {
		url := pgtest.URL(t) + parameters
		open := func(t *testing.T) *gorm.DB {
			return openDB(t, postgres.New(postgres.Config{DSN: url, PreferSimpleProtocol: simple}), 16)
		}
		migrate(t, open(t))
		return open
	}
}

func freshSQLite(t *testing.T) func(t *testing.T) *gorm.DB {
	file := filepath.Join(t.TempDir(), "test.db")
	open := func(t *testing.T) *gorm.DB {
		return openDB(t, gormlite.Open("file:"+file+
			"?_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=busy_timeout(5000)"), 16)
	}
	migrate(t, open(t))
	return open
}

// openDB opens a database as an app might, with everything that GORM does by default.
func openDB(t *testing.T, dialector gorm.Dialector, connections int) *gorm.DB {
	t.Helper()
	db, err := gorm.Open(dialector, &gorm.Config{Logger: logger.Discard})
	require.NoError(t, err)
	pool, err := db.DB()
	require.NoError(t, err)
	pool.SetMaxOpenConns(connections)
	pool.SetMaxIdleConns(connections)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	return db
}

func migrate(t *testing.T, db *gorm.DB) {
	t.Helper()
	require.NoError(t, gormstore.Migrate(t.Context(), db))
	require.NoError(t, db.AutoMigrate(&effect{}))
}

func newStore(t *testing.T, db *gorm.DB) *gormstore.Store {
	t.Helper()
	store, err := gormstore.New(db)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return store
}

// advance moves all timestamps of all records d into the past.
func advance(t *testing.T, db *gorm.DB, d time.Duration) {
	t.Helper()
	by := "? * interval '1 microsecond'"
	if db.Name() == "sqlite" {
		by = "?"
	}
	set := ""
	args := make([]any, 0, 5)
	for _, column := range []string{"created_at", "lease_until", "deadline_at", "expires_at", "purge_at"} {
		if set != "" {
			set += ", "
		}
		set += column + " = " + column + " - " + by
		args = append(args, d.Microseconds())
	}
	require.NoError(t, db.Exec("UPDATE idempotency_record SET "+set, args...).Error)
}

func countEffects(t *testing.T, db *gorm.DB) int {
	t.Helper()
	var n int64
	require.NoError(t, db.Model(&effect{}).Count(&n).Error)
	return int(n)
}

func addEffect(ctx context.Context) error {
	return gormstore.Tx(ctx).Create(&effect{Name: "row"}).Error
}
