package main

import (
	"context"
	"database/sql"
	"net/url"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	pgdriver "gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/gormstore"
)

// database is a database with the store's tables.
type database struct {
	name    string
	records int64 // that were generated
	pool    *sql.DB
	store   *gormstore.Store
}

// connections is the size of a pool.
const connections = 32

func (g *growth) open(name string) (*database, error) {
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
	d := &database{name: name, pool: stdlib.OpenDB(*config)}
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
	d.store, err = gormstore.New(db)
	return d, err
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

// settle writes down what has been changed so far, so that every turn begins with the same work behind it.
func (d *database) settle(ctx context.Context) error { return d.exec(ctx, "CHECKPOINT") }

// written is how much WAL the whole server has written so far, in bytes.
func (d *database) written(ctx context.Context) (n int64, err error) {
	err = d.ask(ctx, "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint", &n)
	return n, err
}
