// Package subject makes stores on MariaDB for the suites.
package subject

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/core/storetest"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/internal/mariatest"
)

// Open opens a database.
func Open(t *testing.T, address string) *gorm.DB {
	t.Helper()
	db, err := gorm.Open(mysql.Open(address), &gorm.Config{Logger: logger.Discard})
	require.NoError(t, err)
	pool, err := db.DB()
	require.NoError(t, err)
	pool.SetMaxOpenConns(16)
	pool.SetMaxIdleConns(16)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	return db
}

// New is a store whose tables are empty.
func New(t *testing.T, db, twin *gorm.DB, options ...gormstore.Option) storetest.Subject {
	t.Helper()
	var tables []string
	require.NoError(t, db.Raw(`SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()
		AND table_type = 'BASE TABLE' AND table_name NOT IN ('idempotency_migration', 'idempotency_lock', 'idempotency_never')`).
		Scan(&tables).Error)
	for _, table := range tables {
		require.NoError(t, db.Exec("DELETE FROM "+table).Error)
	}
	times := timesOf(t, db)
	return storetest.Subject{
		Store: Store(t, db, options...),
		Twin:  func(t *testing.T) store.Operations { return Store(t, twin, options...) },
		Advance: func(t *testing.T, d time.Duration) {
			t.Helper()
			for table, columns := range times {
				var moves []string
				for _, column := range columns {
					moves = append(moves, fmt.Sprintf("%s = %[1]s - %d", column, d.Microseconds()))
				}
				require.NoError(t, db.Exec("UPDATE "+table+" SET "+strings.Join(moves, ", ")).Error)
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

// timesOf are the columns with times, by their tables.
func timesOf(t *testing.T, db *gorm.DB) map[string][]string {
	t.Helper()
	var found []struct{ TableName, ColumnName string }
	require.NoError(t, db.Raw(`SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = DATABASE()
		AND (column_name LIKE '%\_at' OR column_name LIKE '%\_until') AND table_name NOT LIKE 'idempotency\_migration'`).
		Scan(&found).Error)
	times := map[string][]string{}
	for _, one := range found {
		times[one.TableName] = append(times[one.TableName], one.ColumnName)
	}
	return times
}

// Store is a store on a database that was migrated.
func Store(t *testing.T, db *gorm.DB, options ...gormstore.Option) *gormstore.Store {
	t.Helper()
	if mariatest.Given() {
		options = append(options, gormstore.Untried())
	}
	st, err := gormstore.New(db, options...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	require.NoError(t, st.Validate(t.Context()))
	return st
}
