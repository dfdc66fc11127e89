package gormstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gorm.io/gorm"

	"github.com/auth19/idem/core"
)

// Store keeps records in the database of a *gorm.DB. It is a [core.Transactor], [core.Stepper] and [core.Validator], and
// is safe for use by any number of goroutines.
type Store struct {
	db      *gorm.DB // the app's, only for handing out attempts' transactions
	pool    *sql.DB  // the primary's pool, below GORM
	dialect *dialect
	names   *names

	places   *places   // PostgreSQL with a limited pool only
	embedded *embedded // SQLite only

	handlers sync.Map // stream -> name of the handler that processes its messages

	notices   notices
	uncut     uncut
	stalls    *stalls // PostgreSQL only
	confirmed confirmed

	// connectionCheck says whether the server has client_connection_check_interval: 0 not asked yet, 1 yes, 2 no.
	connectionCheck atomic.Int32
}

var (
	_ core.Transactor = (*Store)(nil)
	_ core.Validator  = (*Store)(nil)
)

// New returns a store on db and installs the write guard there. It creates no table and starts nothing: see
// [Migrate]. On SQLite it makes this process the only one on the file, until Close.
//
// Set the limits of the connection pool before. The pool needs at least two connections on PostgreSQL and three on
// SQLite, where one proves that the file is this process's. Of a limited pool on PostgreSQL, one connection in four (at
// least one) is kept free of attempts' transactions, so that a handler that goes over another connection waits for that
// one and not for itself.
//
// Errors: db is neither PostgreSQL nor SQLite; the pool is too small; another process uses the SQLite file.
func New(db *gorm.DB, options ...Option) (*Store, error) {
	s, err := newStore(db, optionsOf(options))
	if err != nil {
		return nil, fmt.Errorf("idem: gormstore.New: %w", err)
	}
	if s.dialect == sqlite {
		if err := s.embedded.own(s.pool); err != nil {
			return nil, err
		}
	}
	db.Plugins[storeName] = registered{s}
	return s, nil
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
	if err := db.Use(WriteGuard()); err != nil && !errors.Is(err, gorm.ErrRegistered) {
		return nil, fmt.Errorf("install the write guard: %w", err)
	}
	s := &Store{db: db, pool: pool, dialect: d, names: newNames(d, o.schema)}
	switch {
	case d == sqlite:
		s.embedded = newEmbedded()
	case limit > 0:
		s.places = placesIn(limit)
	}
	if d == postgres {
		s.stalls = newStalls(pool, o.stall)
	}
	return s, nil
}

// registered is how a db knows its store: an inbox on the same db waits in the same line for SQLite's one writer, and for
// the pool's places.
type registered struct{ *Store }

const storeName = "idem:store"

// Name implements [gorm.Plugin].
func (registered) Name() string { return storeName }

// Initialize implements [gorm.Plugin].
func (registered) Initialize(*gorm.DB) error { return nil }

// storeOf returns the store of db. Where there is none yet, it is one that has no file of its own.
func storeOf(db *gorm.DB) (*Store, error) {
	if r, ok := db.Plugins[storeName].(registered); ok {
		return r.Store, nil
	}
	s, err := newStore(db, options{})
	if err == nil {
		db.Plugins[storeName] = registered{s}
	}
	return s, err
}

// namesOf are those of db's store, whose schema may have been given.
func namesOf(db *gorm.DB, d *dialect) *names {
	if r, ok := db.Plugins[storeName].(registered); ok {
		return r.names
	}
	return newNames(d, "")
}

// Close gives the SQLite file free for another process. The database itself stays open: it is the app's. On
// PostgreSQL there is nothing to close.
func (s *Store) Close() error {
	if s.embedded == nil {
		return nil
	}
	return s.embedded.close()
}

// querier is what statements run on: the pool, or the connection of a transaction.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// errOwnWriter: waiting for the writer would be waiting for oneself.
var errOwnWriter = errors.New("idem: gormstore: SQLite has one writer, and the transaction that this context belongs to " +
	"has it; write through that transaction (Tx, the tx of a Step or an inbox), or do this before or after it")

// write runs fn where writing is allowed: on PostgreSQL at once, on SQLite when this process's one writer is free.
// fn runs again after a serialization failure or deadlock, which left nothing behind.
func (s *Store) write(ctx context.Context, fn func(q querier) error) error {
	return s.writing(ctx, func() error { return s.onPool(ctx, fn) })
}

// onPool runs fn on the pool. After a conflict it runs again at read committed: where the app's default is stricter,
// statements of a crowd fail each other for as long as they come together, though each is right at read committed.
func (s *Store) onPool(ctx context.Context, fn func(q querier) error) error {
	conflict := false
	return retry(ctx, func() error {
		if conflict && s.dialect == postgres {
			return s.transact(ctx, fn)
		}
		err := fn(s.pool)
		conflict = isConflict(err)
		return err
	})
}

// writing runs fn when SQLite's one writer is free.
func (s *Store) writing(ctx context.Context, fn func() error) error {
	if s.embedded != nil {
		if t := txFrom(ctx); t != nil && t.store == s && t.holdsWriter() {
			return errOwnWriter
		}
		if err := s.embedded.lockWriter(ctx); err != nil {
			return err
		}
		defer s.embedded.unlockWriter()
	}
	return fn()
}

// inTx runs fn in a transaction of the store's own, at read committed on PostgreSQL: what fn reads after it has a
// lock must be as new as the lock.
func (s *Store) inTx(ctx context.Context, fn func(q querier) error) error {
	return s.writing(ctx, func() error {
		return retry(ctx, func() error { return s.transact(ctx, fn) })
	})
}

// transact is inTx for who has SQLite's writer already, once.
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

// maxTries bounds how often the store runs a statement of its own again: a lost snapshot race, a serialization
// failure, a deadlock.
const maxTries = 16

// retry runs fn again after a serialization failure or a deadlock. The pauses keep those who fail together from
// failing together again.
func retry(ctx context.Context, fn func() error) error {
	for try := range maxTries {
		err := fn()
		if err == nil || try == maxTries-1 || !isConflict(err) {
			return err
		}
		timer := time.NewTimer(rand.N(min(time.Millisecond<<try, 50*time.Millisecond)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
	return nil // not reached: maxTries is above 0
}

// sqlState returns the SQLSTATE of an error from PostgreSQL, "" for any other error.
func sqlState(err error) string {
	if e, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok {
		return e.SQLState()
	}
	return ""
}

// isConflict reports a failure that another try of the same transaction may not have: serialization, deadlock.
func isConflict(err error) bool { return strings.HasPrefix(sqlState(err), "40") }

// isRetryable reports the failures after which the whole command may be repeated as it was: class 40, lock not
// available, operator intervention.
func isRetryable(err error) bool {
	state := sqlState(err)
	return strings.HasPrefix(state, "40") || state == "55P03" || strings.HasPrefix(state, "57")
}
