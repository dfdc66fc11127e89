package main

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	pgdriver "gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
)

// database is a database with the store's tables.
type database struct {
	contents // what was generated
	filled   time.Time
	name     string
	keys     keys
	pool     *sql.DB
	db       *gorm.DB
	store    *gormstore.Store
	apart    []*gormstore.Store // as those of other processes
	inspects bool               // the server can tell what its WAL consists of
}

// connections is the size of a pool.
const connections = 32

func (g *growth) open(name string, keys keys) (*database, error) {
	g.cluster.Exec("CREATE DATABASE " + pgx.Identifier{name}.Sanitize())
	u, err := url.Parse(g.cluster.URL())
	if err != nil {
		return nil, err
	}
	u.Path = "/" + name
	config, err := pgx.ParseConfig(u.String())
	if err != nil {
		return nil, err
	}
	d := &database{name: name, keys: keys, pool: stdlib.OpenDB(*config)}
	g.t.Cleanup(func() { _ = d.pool.Close() })
	d.pool.SetMaxOpenConns(connections)
	d.pool.SetMaxIdleConns(connections)
	db, err := gorm.Open(pgdriver.New(pgdriver.Config{Conn: d.pool}), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		return nil, err
	}
	if err := gormstore.Migrate(context.Background(), db); err != nil {
		return nil, err
	}
	// Part of PostgreSQL from version 15 on, but some packages leave it out.
	d.inspects = d.exec(context.Background(), "CREATE EXTENSION pg_walinspect") == nil
	d.db = db
	d.store, err = gormstore.New(db)
	return d, err
}

// startProcesses makes the stores of n new processes: they have seen no key but one, the newest.
func (d *database) startProcesses(ctx context.Context, n int) error {
	stores := make([]*gormstore.Store, n)
	for i := range stores {
		var err error
		if stores[i], err = gormstore.New(d.db); err != nil {
			return err
		}
		// A store reads the text of a statement when it needs it for the first time.
		if _, err := stores[i].Claim(ctx, claimOf(d.idOf(d.records-1), store.Park)); err != nil {
			return err
		}
	}
	d.apart = stores
	return nil
}

// anyStore is the store of one of the processes.
func (d *database) anyStore() *gormstore.Store {
	if len(d.apart) == 0 {
		return d.store
	}
	return d.apart[rand.IntN(len(d.apart))]
}

// drop frees the disk and the memory for the next databases.
func (g *growth) drop(tables []*database) {
	for _, d := range tables {
		_ = d.pool.Close()
		g.cluster.Exec("DROP DATABASE " + pgx.Identifier{d.name}.Sanitize() + " WITH (FORCE)")
	}
}

// exec runs statements one by one, each in a transaction of its own.
func (d *database) exec(ctx context.Context, statements ...string) error {
	for _, statement := range statements {
		if _, err := d.pool.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// ask reads one row.
func (d *database) ask(ctx context.Context, query string, targets ...any) error {
	return d.pool.QueryRowContext(ctx, query).Scan(targets...)
}

// settle makes a checkpoint, so that every turn begins in the same state.
func (d *database) settle(ctx context.Context) error { return d.exec(ctx, "CHECKPOINT") }

// position is how much WAL the whole server has written so far.
func (d *database) position(ctx context.Context) (lsn string, err error) {
	err = d.ask(ctx, "SELECT pg_current_wal_flush_lsn()::text", &lsn)
	return lsn, err
}

// written is how much WAL the whole server has written since a position, in bytes, and how much of it is full pages.
func (d *database) written(ctx context.Context, since string) (all, pages int64, err error) {
	now, err := d.position(ctx)
	if err != nil {
		return 0, 0, err
	}
	if err := d.ask(ctx, "SELECT pg_wal_lsn_diff('"+now+"', '"+since+"')::bigint", &all); err != nil || !d.inspects {
		return all, 0, err
	}
	err = d.ask(ctx, "SELECT coalesce(sum(fpi_size), 0)::bigint FROM pg_get_wal_stats('"+since+"', '"+now+"')", &pages)
	return all, pages, err
}
