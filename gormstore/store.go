package gormstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"gorm.io/gorm"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/dialect"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// Store keeps records in the database of a *gorm.DB. Any number of goroutines may use it. It can do everything
// that a store can do: it is a [store.Attempts], [store.Operations], [store.Settings] and [store.CommandLog].
type Store struct {
	db     *txn.Database
	sealer *sealer

	running   running
	recent    recentKeys   // PostgreSQL only
	answers   txn.Repeated // those of Park and Resume
	validated txn.Validated

	due, oldCommands, oldMessages txn.SweepCursor // of Sweep
}

var (
	_ store.Attempts   = (*Store)(nil)
	_ store.Proposals  = (*Store)(nil)
	_ store.Settings   = (*Store)(nil)
	_ store.CommandLog = (*Store)(nil)
)

// New returns a store on db and installs the write guard there. It creates no tables ([Migrate] does) and starts no
// goroutines. On SQLite it locks the file for this process until Close.
//
// Set the limits of the connection pool before you call New. The pool needs at least two connections on PostgreSQL
// and MariaDB, and three on SQLite, where one of them holds the lock on the file. On servers a limited pool is divided:
// attempts' transactions use at most three connections of four. At least one stays free, so that a handler that uses a
// second connection does not wait for itself. So the limit must not be higher than what is below: a pgxpool (MaxConns), or
// PgBouncer (default_pool_size for all instances together), which New cannot see.
//
// Errors: db is neither PostgreSQL, MariaDB nor SQLite; the pool is too small; a pgxpool below it is smaller, or the pool
// has no limit and takes its connections from a pgxpool (F-7); an option is wrong; another process or store uses the SQLite
// file.
func New(db *gorm.DB, options ...Option) (*Store, error) {
	given := optionsOf(options)
	sealer, err := newSealer(given)
	if err != nil {
		return nil, fmt.Errorf("idem: gormstore.New: %w", err)
	}
	d, err := txn.Open(db, WriteGuard(), given.Options)
	if err != nil {
		return nil, fmt.Errorf("idem: gormstore.New: %w", err)
	}
	if err := d.Process.Own(d.Pool); err != nil {
		return nil, err
	}
	s := &Store{db: d, sealer: sealer}
	d.SelfTest = func(ctx context.Context) error { return s.validated.Test(ctx, d, s.selfTest) }
	if err := d.Register(); err != nil {
		return nil, errors.Join(fmt.Errorf("idem: gormstore.New: %w", err), d.Process.Close())
	}
	return s, nil
}

// Rows implements [store.Attempts].
func (s *Store) Rows() bool { return true }

// Close releases the SQLite file for another process, and on PostgreSQL the connection that renews leases. The database
// itself stays open: it is the app's.
func (s *Store) Close() error {
	s.db.CloseKeeper()
	return s.db.Process.Close()
}

// storeRights are those of an app with guarded routes. Its sweep deletes markers, whoever has written them.
var storeRights = txn.Rights{
	"idempotency_record":      "SELECT, INSERT, UPDATE, DELETE",
	"idempotency_step":        "SELECT, INSERT, UPDATE, DELETE",
	"idempotency_reference":   "SELECT, INSERT, DELETE",
	"idempotency_note":        "SELECT, INSERT, UPDATE",
	"idempotency_sighting":    "SELECT, INSERT, UPDATE, DELETE",
	"idempotency_settlement":  "INSERT",
	"idempotency_setting":     "SELECT, INSERT, UPDATE",
	"processed_message":       "SELECT, UPDATE, DELETE",
	"processed_message_floor": "SELECT, INSERT, UPDATE",
	"idempotency_intent":      "",
}

// Validate checks: the tables exist; they and the server keep what was confirmed, steps, markers and
// intents included (F-2, F-5); the role has the rights that a store needs; on PostgreSQL the pool has the limit that it had
// in New. One error names everything that is wrong. Where nothing is, Validate runs the self-test: it sends the statements
// of attempts in a transaction that is rolled back, and reads back what they have written (F-8). An app calls it, or
// [Audit], when it starts. In an app that does not, the first claim does: it is store.ErrUnfit as long as something is
// wrong. After an error of a statement the next claims are refused for a minute.
func (s *Store) Validate(ctx context.Context) error {
	err := s.validated.Validate(ctx, s.db, storeRights, s.selfTest)
	if changed := s.db.Stalls.SameLimit(); changed != nil {
		err = errors.Join(err, fmt.Errorf("idem: gormstore: %w", changed))
	}
	return err
}

// ready asks for nothing that is there: that is answered where the server takes writes.
const ready = "ready"

// Ready implements [store.Operations]. On PostgreSQL with a limited pool the question goes over the connection that renews
// leases, and otherwise over one of the pool's: no attempt's line is in front of it.
func (s *Store) Ready(ctx context.Context) error {
	err := s.check(ctx)
	if err == nil {
		var asked bool
		if _, asked, err = s.db.Renew(ctx, store.Ticket{Fence: -1}, setting, ready); !asked {
			var value string
			err = s.db.QueryRow(ctx, s.db.Pool, setting, ready).Scan(&value)
		}
	}
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case txn.SQLState(err) == dialect.ReadOnly:
		return fmt.Errorf("%w: %w", store.ErrNoWrites, err)
	case errors.Is(err, store.ErrUnfit) && ctx.Err() == nil && txn.IsAway(err):
		return fmt.Errorf("idem: gormstore: %v", err) //nolint:errorlint // it is not known whether it is unfit
	}
	return err
}

// check runs Validate before the first claim, until it has passed once: an app may ignore what Validate says, and a record
// that the server loses frees its key (F-2, F-8).
func (s *Store) check(ctx context.Context) error {
	return s.validated.Once(ctx, s.db, storeRights, s.selfTest)
}
