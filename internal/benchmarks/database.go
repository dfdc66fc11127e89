package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

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

// database is a fresh database with a store on it, and a twin of the two whose statements are recorded.
type database struct {
	name string
	url  string // of PostgreSQL
	opened
	writer sync.Mutex // of SQLite, for the floor
	spread int        // how many keys replays are spread over

	twin     opened
	recorder *recorder
}

// opened is a pool, with the database and the store on it.
type opened struct {
	db    *gorm.DB
	pool  *sql.DB
	store *gormstore.Store
}

// toTheEnd runs fn, and waits for statements that are sent after the answer: the ROLLBACK of a replay.
func (o opened) toTheEnd(fn func() error) error {
	before := o.pool.Stats().InUse
	if err := fn(); err != nil {
		return err
	}
	for end := time.Now().Add(patience); o.pool.Stats().InUse > before; time.Sleep(100 * time.Microsecond) {
		if time.Now().After(end) {
			return errors.New("a connection is not given back")
		}
	}
	return nil
}

// connections is the size of the pools.
const connections = 32

// openPostgres makes a database on the server that the tests use as well.
func openPostgres(t testing.TB, spread int) (*database, error) {
	d := &database{name: "PostgreSQL", url: pgtest.URL(t), spread: spread}
	main, err := connectorTo(d.url)
	if err != nil {
		return nil, err
	}
	twin, err := connectorTo(pgtest.URL(t))
	if err != nil {
		return nil, err
	}
	return d, d.open(func(c driver.Connector) (opened, error) { return newOpened(t, onPostgres, c) }, main, twin)
}

func onPostgres(pool *sql.DB) gorm.Dialector { return pgdriver.New(pgdriver.Config{Conn: pool}) }

func connectorTo(url string) (driver.Connector, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	return stdlib.GetConnector(*config), nil
}

// openPool opens a database of PostgreSQL that is there already.
func openPool(t testing.TB, url string) (opened, error) {
	c, err := connectorTo(url)
	if err != nil {
		return opened{}, err
	}
	return newOpened(t, onPostgres, c)
}

// openSQLite makes two files.
func openSQLite(t testing.TB, spread int) (*database, error) {
	d := &database{name: "SQLite", spread: spread}
	directory := t.TempDir()
	connector := func(name string) (driver.Connector, error) {
		return (&sqlitedriver.SQLite{}).OpenConnector("file:" + filepath.ToSlash(filepath.Join(directory, name)) +
			"?_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)&_pragma=synchronous(full)")
	}
	main, err := connector("benchmark.db")
	if err != nil {
		return nil, err
	}
	twin, err := connector("twin.db")
	if err != nil {
		return nil, err
	}
	return d, d.open(func(c driver.Connector) (opened, error) {
		return newOpened(t, func(pool *sql.DB) gorm.Dialector { return gormlite.OpenDB(pool) }, c)
	}, main, twin)
}

func (d *database) open(open func(driver.Connector) (opened, error), main, twin driver.Connector) (err error) {
	if d.opened, err = open(main); err != nil {
		return err
	}
	d.recorder = &recorder{Connector: twin}
	d.twin, err = open(d.recorder)
	return err
}

func newOpened(t testing.TB, dialector func(*sql.DB) gorm.Dialector, connector driver.Connector) (opened, error) {
	pool := sql.OpenDB(connector)
	t.Cleanup(func() { _ = pool.Close() })
	pool.SetMaxOpenConns(connections)
	pool.SetMaxIdleConns(connections)
	db, err := gorm.Open(dialector(pool), &gorm.Config{Logger: logger.Discard})
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
	size     int               // of request and answer, in bytes; 0: 100
}

func (c cell) app(on opened) (*app, error) {
	s := service{framework: "Gin", store: on.store, recovery: c.recovery, body: jsonBody(max(c.size, smallBody))}
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
	next, want, _, err := c.kind.prepare(a, spread)
	if err != nil {
		return side{}, err
	}
	return always(name, func() error { return a.send(guarded, next(), want) }), nil
}

// smallBody is the size of a command where nothing else is said, in bytes.
const smallBody = 100

// recorded returns the statements of a cell, and the key that they were sent for.
func (d *database) recorded(c cell) (statements []statement, key string, err error) {
	a, err := c.app(d.twin)
	if err != nil {
		return nil, "", err
	}
	if err := a.send(guarded, newKey(), created); err != nil { // what a store or GORM asks the server only once
		return nil, "", err
	}
	next, want, stop, err := c.kind.prepare(a, d.spread)
	if err != nil {
		return nil, "", err
	}
	key = next()
	statements, err = d.recorder.listen(func() error {
		return d.twin.toTheEnd(func() error { return a.send(guarded, key, want) })
	})
	if stop != nil {
		if stopped := stop(); err == nil {
			err = stopped
		}
	}
	if err != nil {
		return nil, "", fmt.Errorf("record the statements: %w", err)
	}
	return statements, key, nil
}

// extras says with what else, beside its floor, a cell is compared.
type extras struct {
	handler bool     // a handler behind JWT and roles guard that sends the statements
	pgbench *pgbench // nil: none
}

// compared has the results of a cell and of the other sides. A side that was not measured is nil: the floor, for
// instance, if the library sends no statement.
type compared struct {
	idem, floor, handler, pgbench *measured
}

// compare lets the library, its floor and the extras take turns.
func (d *database) compare(m meter, clients int, c cell, with extras) (result compared, err error) {
	m.progress("  %s, %s, %s, %d clients, %d bytes\n", d.name, c.recovery, c.kind, clients, max(c.size, smallBody))
	statements, key, err := d.recorded(c)
	if err != nil {
		return compared{}, err
	}
	a, err := c.app(d.opened)
	if err != nil {
		return compared{}, err
	}
	next, want, stop, err := c.kind.prepare(a, d.spread)
	if err != nil {
		return compared{}, err
	}
	if stop != nil {
		defer func() {
			if stopped := stop(); err == nil {
				err = stopped
			}
		}()
	}
	sides := []side{always("this library", func() error { return a.send(guarded, next(), want) })}
	targets := []**measured{&result.idem}
	add := func(target **measured, s side) { sides, targets = append(sides, s), append(targets, target) }
	if len(statements) > 0 {
		f := newFloor(d, statements, key)
		add(&result.floor, always("the statements alone", func() error { return f.send(next()) }))
		if with.handler {
			c.work = func(opened) work { return func(_ context.Context, key string) error { return f.send(key) } }
			byHand, err := c.app(d.opened)
			if err != nil {
				return compared{}, err
			}
			add(&result.handler, always("a handler that sends them", func() error { return byHand.send(bare, next(), plain) }))
		}
		if with.pgbench != nil {
			s, err := with.pgbench.side(d, f, c.kind, next)
			if err != nil {
				return compared{}, err
			}
			add(&result.pgbench, s)
		}
	}
	all, err := m.compare(clients, sides...)
	for i := range all {
		*targets[i] = &all[i]
	}
	return result, err
}

// of returns the library's throughput divided by that of another side.
func (c compared) of(other *measured) string {
	switch {
	case c.floor == nil:
		return "no statement"
	case other == nil:
		return ""
	}
	return ratioOf(*c.idem, *other).String()
}
