package gormstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"gorm.io/gorm"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/sqltext"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// Store keeps records in the database of a *gorm.DB. Any number of goroutines may use it. It can do everything
// that a store can do: it is a [store.Transactor], [store.Stepper], [store.Operations], [store.Settings] and
// [store.Sightings].
type Store struct {
	db         *gorm.DB // the app's; used only to make the sessions of attempts
	pool       *sql.DB  // the primary's pool, below GORM
	dialect    *dialect
	statements *statements

	slots *slots      // PostgreSQL with a limited pool only
	seen  seen        // PostgreSQL only
	file  *sqliteFile // SQLite only

	inspections sqltext.Cache // of handlers' statements
	harmless    []string      // of the app's functions: see HarmlessFunctions
	warnedOf    sync.Map      // what may be left on connections, and was logged

	handlers sync.Map // stream -> name of the handler that processes its messages

	notices   txn.Notices
	answers   txn.Repeated // those of Park and Resume
	stalls    *txn.Stalls  // PostgreSQL only
	confirmed confirmed
	validated validated

	// connectionCheck says whether the server has client_connection_check_interval. 0: not asked yet, 1: yes, 2: no.
	connectionCheck atomic.Int32
}

var (
	_ store.Transactor = (*Store)(nil)
	_ store.Stepper    = (*Store)(nil)
	_ store.Operations = (*Store)(nil)
	_ store.Settings   = (*Store)(nil)
	_ store.Sightings  = (*Store)(nil)
)

// New returns a store on db and installs the write guard there. It creates no tables ([Migrate] does) and starts no
// goroutines. On SQLite it locks the file for this process until Close.
//
// Set the limits of the connection pool before you call New. The pool needs at least two connections on PostgreSQL and
// three on SQLite, where one of them holds the lock on the file. On PostgreSQL a limited pool is divided: attempts'
// transactions use at most three connections of four. At least one stays free, so that a handler that uses a second
// connection does not wait for itself. So the limit must not be higher than what is below: a pgxpool (MaxConns), or
// PgBouncer (default_pool_size for all instances together), which New cannot see.
//
// Errors: db is neither PostgreSQL nor SQLite; the pool is too small; a pgxpool below it is smaller, or the pool has no
// limit and takes its connections from a pgxpool (F-7); an option is wrong; another process or store uses the SQLite
// file.
func New(db *gorm.DB, options ...Option) (*Store, error) {
	s, err := newStore(db, optionsOf(options))
	if err != nil {
		return nil, fmt.Errorf("idem: gormstore.New: %w", err)
	}
	if s.dialect == sqlite {
		if err := s.file.own(s.pool); err != nil {
			return nil, err
		}
	}
	return s, register(db, s)
}

// newStore returns a store that is not yet the only one on its file.
func newStore(db *gorm.DB, o options) (*Store, error) {
	d, err := dialectOf(db.Dialector.Name())
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
	if need := d.connections; limit > 0 && limit < need {
		return nil, fmt.Errorf("SetMaxOpenConns(%d) leaves no connection to answer a repeat while an attempt is running; "+
			"use at least %d", limit, need)
	}
	if err := knownLimit(pool, limit); err != nil {
		return nil, err
	}
	if err := db.Use(WriteGuard()); err != nil && !errors.Is(err, gorm.ErrRegistered) {
		return nil, fmt.Errorf("install the write guard: %w", err)
	}
	texts, err := newStatements(d, o.schema)
	if err != nil {
		return nil, err
	}
	s := &Store{db: db, pool: pool, dialect: d, statements: texts, harmless: o.harmless}
	switch {
	case d == sqlite:
		s.file = newSQLiteFile()
	case limit > 0:
		s.slots = newSlots(limit)
	}
	if d == postgres {
		s.stalls = txn.NewStalls(pool, o.stall)
	}
	return s, nil
}

// storePlugin is the GORM plugin that connects a db with its store, so that an inbox and a journal on the same db share
// SQLite's one writer and the pool's slots with the store.
type storePlugin struct{ store atomic.Pointer[Store] }

const storePluginName = "idem:store"

// Name implements [gorm.Plugin].
func (*storePlugin) Name() string { return storePluginName }

// Initialize implements [gorm.Plugin].
func (*storePlugin) Initialize(*gorm.DB) error { return nil }

// register makes s the store of db, in place of an earlier one.
func register(db *gorm.DB, s *Store) error {
	plugin := &storePlugin{}
	plugin.store.Store(s)
	err := db.Use(plugin)
	if errors.Is(err, gorm.ErrRegistered) {
		db.Plugins[storePluginName].(*storePlugin).store.Store(s)
		return nil
	}
	return err
}

// registered returns the store of db, nil where it has none.
func registered(db *gorm.DB) *Store {
	if plugin, ok := db.Plugins[storePluginName].(*storePlugin); ok {
		return plugin.store.Load()
	}
	return nil
}

// storeOf returns the store of db. Where db has none, it registers a new one, which does not claim the SQLite file.
func storeOf(db *gorm.DB) (*Store, error) {
	if s := registered(db); s != nil {
		return s, nil
	}
	s, err := newStore(db, options{})
	if err != nil {
		return nil, err
	}
	return s, register(db, s)
}

// statementsOf are those of db's store, whose schema may have been given.
func statementsOf(db *gorm.DB, d *dialect) (*statements, error) {
	if s := registered(db); s != nil {
		return s.statements, nil
	}
	return newStatements(d, "")
}

// Close releases the SQLite file for another process. The database itself stays open: it is the app's. On
// PostgreSQL there is nothing to close.
func (s *Store) Close() error {
	if s.file == nil {
		return nil
	}
	return s.file.close()
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
func (s *Store) write(ctx context.Context, fn func(q querier) error) error {
	return s.writing(ctx, func() error { return s.onPool(ctx, fn) })
}

// onPool runs fn on the pool. After a conflict it runs fn again at read committed. Each of the store's statements is
// correct at read committed. At a stricter level, which may be the app's default, concurrent statements make each other
// fail.
func (s *Store) onPool(ctx context.Context, fn func(q querier) error) error {
	conflict := false
	return txn.Retry(ctx, func() error {
		if conflict && s.dialect == postgres {
			return s.transact(ctx, fn)
		}
		err := fn(s.pool)
		conflict = txn.IsConflict(err)
		return err
	})
}

// writing runs fn when SQLite's one writer is free.
func (s *Store) writing(ctx context.Context, fn func() error) error {
	if s.file != nil {
		if err := s.ownsWriter(ctx); err != nil {
			return err
		}
		if err := s.file.lockWriter(ctx); err != nil {
			return err
		}
		defer s.file.unlockWriter()
	}
	return fn()
}

// ownsWriter returns errOwnWriter if ctx belongs to a transaction, or to a Resume attempt with an open segment, that has
// SQLite's one writer.
func (s *Store) ownsWriter(ctx context.Context) error {
	if t := txFrom(ctx); t != nil && t.store == s && t.holdsWriter() {
		return errOwnWriter
	}
	if r := readerFrom(ctx); r != nil && r.store == s && s.file != nil && r.hasOpen() {
		return errOwnWriter
	}
	return nil
}

// inTx runs fn in a transaction of the store's own. On PostgreSQL that is at read committed: what fn reads after it has got
// a lock must be as new as the lock.
func (s *Store) inTx(ctx context.Context, fn func(q querier) error) error {
	return s.writing(ctx, func() error {
		return txn.Retry(ctx, func() error { return s.transact(ctx, fn) })
	})
}

// transact is inTx without a retry, for a caller that has SQLite's writer already.
func (s *Store) transact(ctx context.Context, fn func(q querier) error) error {
	tx, err := s.pool.BeginTx(ctx, s.dialect.txOptions())
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after a commit
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit()
}
