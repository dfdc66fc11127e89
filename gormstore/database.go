package gormstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"gorm.io/gorm"

	"github.com/auth19/idem/gormstore/internal/sqltext"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// database is the app's database as the library uses it. A store, an inbox and a journal on the same *gorm.DB share one: its
// statements, SQLite's one writer, and the places in the pool.
type database struct {
	gorm       *gorm.DB // the app's; used only to make the sessions of attempts
	pool       *sql.DB  // the primary's pool, below GORM
	dialect    *dialect
	statements *statements

	slots *slots      // PostgreSQL with a limited pool only
	file  *sqliteFile // SQLite only

	inspections sqltext.Cache // of handlers' statements
	harmless    []string      // of the app's functions, which leave nothing on a connection
	warnedOf    sync.Map      // what may be left on connections, and was logged

	notices   txn.Notices
	stalls    *txn.Stalls // PostgreSQL only
	confirmed confirmed

	// connectionCheck says whether the server has client_connection_check_interval. 0: not asked yet, 1: yes, 2: no.
	connectionCheck atomic.Int32

	handlers sync.Map // of messages: their stream -> its name
}

// options of a database: see gormstore.Option.
type options struct {
	schema   string
	stall    time.Duration
	harmless []string
}

// newDatabase returns the database of db, and installs the write guard there, gormstore.WriteGuard. It starts nothing, and does not claim the file
// of SQLite for this process.
func newDatabase(db *gorm.DB, guard gorm.Plugin, o options) (*database, error) {
	of, err := dialectOf(db.Dialector.Name())
	if err != nil {
		return nil, err
	}
	if o.stall < 0 {
		return nil, fmt.Errorf("StallAfter(%s): use a positive time", o.stall)
	}
	pool, err := db.DB()
	if err != nil {
		return nil, fmt.Errorf("the database has no *sql.DB below it: %w", err)
	}
	limit := pool.Stats().MaxOpenConnections
	if need := of.connections; limit > 0 && limit < need {
		return nil, fmt.Errorf("SetMaxOpenConns(%d) leaves no connection to answer a repeat while an attempt is running; "+
			"use at least %d", limit, need)
	}
	if err := knownLimit(pool, limit); err != nil {
		return nil, err
	}
	if err := db.Use(guard); err != nil && !errors.Is(err, gorm.ErrRegistered) {
		return nil, fmt.Errorf("install the write guard: %w", err)
	}
	texts, err := newStatements(of, o.schema)
	if err != nil {
		return nil, err
	}
	d := &database{gorm: db, pool: pool, dialect: of, statements: texts, harmless: o.harmless}
	switch {
	case of == sqlite:
		d.file = newSQLiteFile()
	case limit > 0:
		d.slots = newSlots(limit)
	}
	if of == postgres {
		d.stalls = txn.NewStalls(pool, o.stall)
	}
	return d, nil
}

// plugin is the GORM plugin by which a *gorm.DB knows its database.
type plugin struct{ current atomic.Pointer[database] }

const pluginName = "idem:store"

// Name implements [gorm.Plugin].
func (*plugin) Name() string { return pluginName }

// Initialize implements [gorm.Plugin].
func (*plugin) Initialize(*gorm.DB) error { return nil }

// register makes d the database of its *gorm.DB, in place of an earlier one.
func (d *database) register() error {
	p := &plugin{}
	p.current.Store(d)
	err := d.gorm.Use(p)
	if errors.Is(err, gorm.ErrRegistered) {
		d.gorm.Plugins[pluginName].(*plugin).current.Store(d)
		return nil
	}
	return err
}

// registered returns the database of db; nil where it has none.
func registered(db *gorm.DB) *database {
	if p, ok := db.Plugins[pluginName].(*plugin); ok {
		return p.current.Load()
	}
	return nil
}

// databaseOf returns the database of db. Where db has none, it registers a new one.
func databaseOf(db *gorm.DB, guard gorm.Plugin) (*database, error) {
	if d := registered(db); d != nil {
		return d, nil
	}
	d, err := newDatabase(db, guard, options{})
	if err != nil {
		return nil, err
	}
	return d, d.register()
}

// statementsOf are those of db's database, whose schema may have been given.
func statementsOf(db *gorm.DB, of *dialect) (*statements, error) {
	if d := registered(db); d != nil {
		return d.statements, nil
	}
	return newStatements(of, "")
}

// querier is what statements run on: the pool, or the connection of a transaction.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// errOwnWriter: the caller would wait for SQLite's writer, which it holds itself.
var errOwnWriter = errors.New("idem: gormstore: SQLite has one writer, and the transaction that this context belongs to " +
	"has it; write through that transaction (Tx, the tx of a Step or an inbox), or do this before or after it")

// write runs fn on the pool: on PostgreSQL at once, on SQLite when this process's one writer is free. fn runs again after a
// serialization failure or a deadlock, which leaves nothing behind.
func (d *database) write(ctx context.Context, fn func(q querier) error) error {
	return d.writing(ctx, func() error { return d.onPool(ctx, fn) })
}

// onPool runs fn on the pool. After a conflict it runs fn again at read committed. Each of the store's statements is
// correct at read committed. At a stricter level, which may be the app's default, concurrent statements make each other
// fail.
func (d *database) onPool(ctx context.Context, fn func(q querier) error) error {
	conflict := false
	return txn.Retry(ctx, func() error {
		if conflict && d.dialect == postgres {
			return d.transact(ctx, fn)
		}
		err := fn(d.pool)
		conflict = txn.IsConflict(err)
		return err
	})
}

// writing runs fn when SQLite's one writer is free.
func (d *database) writing(ctx context.Context, fn func() error) error {
	if d.file != nil {
		if err := d.ownsWriter(ctx); err != nil {
			return err
		}
		if err := d.file.lockWriter(ctx); err != nil {
			return err
		}
		defer d.file.unlockWriter()
	}
	return fn()
}

// ownsWriter returns errOwnWriter if ctx belongs to a transaction, or to a Resume attempt with an open segment, that has
// SQLite's one writer.
func (d *database) ownsWriter(ctx context.Context) error {
	if t := txFrom(ctx); t != nil && t.db == d && t.holdsWriter() {
		return errOwnWriter
	}
	if r := readerFrom(ctx); r != nil && r.db == d && d.file != nil && r.of.hasOpen() {
		return errOwnWriter
	}
	return nil
}

// inTx runs fn in a transaction of the store's own. On PostgreSQL that is at read committed: what fn reads after it has got
// a lock must be as new as the lock.
func (d *database) inTx(ctx context.Context, fn func(q querier) error) error {
	return d.writing(ctx, func() error {
		return txn.Retry(ctx, func() error { return d.transact(ctx, fn) })
	})
}

// transact is inTx without a retry, for a caller that has SQLite's writer already.
func (d *database) transact(ctx context.Context, fn func(q querier) error) error {
	tx, err := d.pool.BeginTx(ctx, d.dialect.txOptions())
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after a commit
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit()
}
