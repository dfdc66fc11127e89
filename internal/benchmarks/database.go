package main

import (
	"bytes"
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/libtnb/sqlite"
	pgdriver "gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/gormstore"
)

// opened is a pool, with a store on it that has no option set.
type opened struct {
	db     *gorm.DB
	pool   *sql.DB
	store  *gormstore.Store
	sealed *gormstore.Store // one that seals, on PostgreSQL
}

// connections is the size of the pools.
const connections = 32

// openPool opens a database of PostgreSQL.
func openPool(t testing.TB, url string) (opened, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return opened{}, err
	}
	return openConfig(t, config, connections)
}

// openConfig opens a database of PostgreSQL with a pool of that size.
func openConfig(t testing.TB, config *pgx.ConnConfig, size int) (opened, error) {
	pool := stdlib.OpenDB(*config)
	on, err := newOpened(t, pool, pgdriver.New(pgdriver.Config{Conn: pool}), size)
	if err != nil {
		return opened{}, err
	}
	if on.sealed, err = sealedStore(t, pool); err != nil {
		return opened{}, err
	}
	_, err = pool.ExecContext(context.Background(), byHandTable)
	return on, err
}

// sealedStore is a second store on a pool, whose answers are sealed.
func sealedStore(t testing.TB, pool *sql.DB) (*gormstore.Store, error) {
	db, err := gorm.Open(pgdriver.New(pgdriver.Config{Conn: pool}), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		return nil, err
	}
	aead, err := gormstore.AESGCM(gormstore.SealingKey{Name: "benchmark", Key: bytes.Repeat([]byte("key "), 8)})
	if err != nil {
		return nil, err
	}
	store, err := gormstore.New(db, gormstore.Seal(aead))
	if err == nil {
		t.Cleanup(func() { _ = store.Close() })
	}
	return store, err
}

// openSQLite makes a file.
func openSQLite(t testing.TB) (opened, error) {
	pool, err := sql.Open(sqlite.DriverName, "file:"+filepath.ToSlash(filepath.Join(t.TempDir(), "benchmark.db"))+
		"?_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)&_pragma=synchronous(full)")
	if err != nil {
		return opened{}, err
	}
	on, err := newOpened(t, pool, sqlite.New(sqlite.Config{Conn: pool}), connections)
	if err != nil {
		return opened{}, err
	}
	_, err = pool.ExecContext(context.Background(), strings.Replace(byHandTable, "bytea", "blob", 1))
	return on, err
}

func newOpened(t testing.TB, pool *sql.DB, dialector gorm.Dialector, size int) (opened, error) {
	t.Cleanup(func() { _ = pool.Close() })
	pool.SetMaxOpenConns(size)
	pool.SetMaxIdleConns(size)
	db, err := gorm.Open(dialector, &gorm.Config{Logger: logger.Discard})
	if err != nil {
		return opened{}, err
	}
	if err := gormstore.Migrate(context.Background(), db); err != nil {
		return opened{}, err
	}
	if err := db.AutoMigrate(&entry{}); err != nil {
		return opened{}, err
	}
	store, err := gormstore.New(db)
	if err != nil {
		return opened{}, err
	}
	t.Cleanup(func() { _ = store.Close() })
	return opened{db, pool, store, nil}, nil
}
