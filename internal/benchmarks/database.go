package main

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/ncruces/go-sqlite3/gormlite"
	pgdriver "gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	sqlitedriver "github.com/ncruces/go-sqlite3/driver"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/internal/pgtest"
)

// database is a fresh database with a store on it.
type database struct {
	name string
	url  string // of PostgreSQL
	opened
}

// opened is a pool, with the database and the store on it.
type opened struct {
	db    *gorm.DB
	pool  *sql.DB
	store *gormstore.Store
}

// connections is the size of the pools.
const connections = 32

// openPostgres makes a database on the server that the tests use as well.
func openPostgres(t testing.TB) (*database, error) {
	url := pgtest.URL(t)
	on, err := openPool(t, url)
	return &database{"PostgreSQL", url, on}, err
}

// openPool opens a database of PostgreSQL that is there already.
func openPool(t testing.TB, url string) (opened, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return opened{}, err
	}
	pool := stdlib.OpenDB(*config)
	return newOpened(t, pool, pgdriver.New(pgdriver.Config{Conn: pool}))
}

// openSQLite makes a file.
func openSQLite(t testing.TB) (*database, error) {
	pool, err := sqlitedriver.Open("file:" + filepath.ToSlash(filepath.Join(t.TempDir(), "benchmark.db")) +
		"?_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)&_pragma=synchronous(full)")
	if err != nil {
		return nil, err
	}
	on, err := newOpened(t, pool, gormlite.OpenDB(pool))
	return &database{name: "SQLite", opened: on}, err
}

func newOpened(t testing.TB, pool *sql.DB, dialector gorm.Dialector) (opened, error) {
	t.Cleanup(func() { _ = pool.Close() })
	pool.SetMaxOpenConns(connections)
	pool.SetMaxIdleConns(connections)
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
	return opened{db, pool, store}, nil
}

// cell is a job of the matrix on a database.
type cell struct {
	recovery core.Recovery
	kind     kind
	work     func(opened) work // nil: nothing
}

func (c cell) app(on opened) (*app, error) {
	s := service{framework: "Gin", store: on.store, recovery: c.recovery, body: jsonBody(smallBody)}
	if c.work != nil {
		s.work = c.work(on)
	}
	return s.open()
}

// side sends requests of the cell.
func (c cell) side(name string, on opened, spread int) (side, error) {
	a, err := c.app(on)
	if err != nil {
		return side{}, err
	}
	next, want, err := c.kind.prepare(a, spread)
	if err != nil {
		return side{}, err
	}
	return always(name, func() error { return a.send(guarded, next(), want) }), nil
}

// smallBody is the size of a command where nothing else is said, in bytes.
const smallBody = 100
