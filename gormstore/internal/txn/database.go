package txn

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"gorm.io/gorm"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/dialect"
	"github.com/auth19/idem/gormstore/internal/sqltext"
)

// Database is the app's database as the library uses it. A store, an inbox and a journal on the same *gorm.DB share one: its
// statements, SQLite's one writer, and the places in the pool.
type Database struct {
	Gorm       *gorm.DB // the app's; used only to make the sessions of attempts
	Pool       *sql.DB  // the primary's pool, below GORM
	Dialect    *Dialect
	Statements *Statements

	slots      *slots      // PostgreSQL with a limited pool only
	keeper     *keeper     // nil: the pool has none. All stores of a pool share one
	closed     atomic.Bool // CloseKeeper was called
	lateClaims lateClaims
	Process    dialect.Process

	handouts    handouts      // rows for handlers
	inspections sqltext.Cache // of handlers' statements
	bound       *together     // nil: parameters go beside the text
	harmless    []string      // of the app's functions, which leave nothing on a connection
	warnedOf    sync.Map      // what may be left on connections, and was logged
	usesPgx     atomic.Bool   // a handler uses pgx: see warnUnguarded

	Notices   Notices
	Stalls    *Stalls // PostgreSQL only
	Confirmed Confirmed

	RoleGuards atomic.Pointer[RoleGuards] // PostgreSQL only; nil: not asked yet

	// SelfTest runs the self-test of the store on this database, for gormstore.Audit; nil: there is no store.
	SelfTest func(ctx context.Context) error

	Handlers sync.Map // of an inbox: group and source -> the name of the handler
}

// Options of a database: see gormstore.Option.
type Options struct {
	Schema   string
	Stall    time.Duration
	Harmless []string
	Untried  bool // gormstore.Untried
}

// Open returns the database of db, and installs the write guard there, gormstore.WriteGuard. It starts nothing, and does
// not claim the file of SQLite for this process.
func Open(db *gorm.DB, guard gorm.Plugin, o Options) (*Database, error) {
	of, err := DialectOf(db.Dialector.Name())
	if err != nil {
		return nil, err
	}
	if o.Stall < 0 {
		return nil, fmt.Errorf("StallAfter(%s): use a positive time", o.Stall)
	}
	pool, err := db.DB()
	if err != nil {
		return nil, fmt.Errorf("the database has no *sql.DB below it: %w", err)
	}
	limit := pool.Stats().MaxOpenConnections
	if need := of.Connections; limit > 0 && limit < need {
		return nil, fmt.Errorf("SetMaxOpenConns(%d) leaves no connection to answer a repeat while an attempt is running; "+
			"use at least %d", limit, need)
	}
	if err := knownLimit(pool, limit); err != nil {
		return nil, err
	}
	if err := db.Use(guard); err != nil && !errors.Is(err, gorm.ErrRegistered) {
		return nil, fmt.Errorf("install the write guard: %w", err)
	}
	texts, err := newStatements(of, o.Schema)
	if err != nil {
		return nil, err
	}
	texts.untried = o.Untried
	d := &Database{Gorm: db, Pool: pool, Dialect: of, Statements: texts, harmless: o.Harmless}
	if of.Bind != nil {
		d.bound = new(together)
	}
	d.Process = of.NewProcess()
	if of.OneWriter {
		return d, nil
	}
	d.Stalls = newStalls(pool, o.Stall)
	if limit > 0 {
		d.slots = newSlots(limit)
		d.keeper = keeperOf(d, registered(db))
	}
	return d, nil
}

// plugin is the GORM plugin by which a *gorm.DB knows its database.
type plugin struct{ current atomic.Pointer[Database] }

const pluginName = "idem:store"

// Name implements [gorm.Plugin].
func (*plugin) Name() string { return pluginName }

// Initialize implements [gorm.Plugin].
func (*plugin) Initialize(*gorm.DB) error { return nil }

// Register makes d the database of its *gorm.DB, in place of an earlier one.
func (d *Database) Register() error {
	p := &plugin{}
	p.current.Store(d)
	err := d.Gorm.Use(p)
	if errors.Is(err, gorm.ErrRegistered) {
		d.Gorm.Plugins[pluginName].(*plugin).current.Store(d)
		return nil
	}
	return err
}

// registered returns the database of db; nil where it has none.
func registered(db *gorm.DB) *Database {
	if p, ok := db.Plugins[pluginName].(*plugin); ok {
		return p.current.Load()
	}
	return nil
}

// Of returns the database of db. Where db has none, it registers a new one.
func Of(db *gorm.DB, guard gorm.Plugin) (*Database, error) {
	if d := registered(db); d != nil {
		return d, nil
	}
	d, err := Open(db, guard, Options{})
	if err != nil {
		return nil, err
	}
	return d, d.Register()
}

// SelfTestOf is the self-test of db's store; nil where db has none.
func SelfTestOf(db *gorm.DB) func(ctx context.Context) error {
	if d := registered(db); d != nil {
		return d.SelfTest
	}
	return nil
}

// StatementsOf are those of db's database, whose schema may have been given.
func StatementsOf(db *gorm.DB, of *Dialect) (*Statements, error) {
	if d := registered(db); d != nil {
		return d.Statements, nil
	}
	return newStatements(of, "")
}

// Querier is what statements run on: the pool, or the connection of a transaction.
type Querier = dialect.Querier

// errOwnWriter: the caller would wait for SQLite's writer, which it holds itself.
var errOwnWriter = errors.New("idem: gormstore: SQLite has one writer, and the transaction that this context belongs to " +
	"has it; write through that transaction (Tx, the tx of a Step or an inbox), or do this before or after it")

// Write runs fn on the pool: on PostgreSQL at once, on SQLite when this process's one writer is free. fn runs again after a
// serialization failure or a deadlock, which leaves nothing behind.
func (d *Database) Write(ctx context.Context, fn func(q Querier) error) error {
	if d.Dialect.WriteIn != nil {
		return d.InTx(ctx, fn)
	}
	return d.writing(ctx, func() error { return d.OnPool(ctx, fn) })
}

// OnPool runs fn on the pool. After a conflict it runs fn again at read committed, and where its COMMIT would not have
// waited for the disk, in a transaction whose COMMIT does. Each of the library's statements is correct at read committed. At
// a stricter level, which may be the app's default, concurrent statements make each other fail.
func (d *Database) OnPool(ctx context.Context, fn func(q Querier) error) error {
	inTx := false
	return Retry(ctx, func() error {
		if !inTx {
			err := fn(d.Pool)
			weak := d.isWeak(err)
			if inTx = weak || IsConflict(err); !weak {
				return err
			}
		}
		return d.transactDurably(ctx, fn)
	})
}

// transactDurably is transact with a COMMIT that waits for the disk.
func (d *Database) transactDurably(ctx context.Context, fn func(q Querier) error) error {
	return d.transact(ctx, func(q Querier) error {
		if err := d.Durably(ctx, q); err != nil {
			return err
		}
		return fn(q)
	})
}

// Durably makes what the transaction of q writes durable, whatever was left on its connection.
func (d *Database) Durably(ctx context.Context, q Querier) error {
	return d.QueryRow(ctx, q, durably).Scan(new(bool))
}

// writing runs fn when SQLite's one writer is free.
func (d *Database) writing(ctx context.Context, fn func() error) error {
	if err := d.ownsWriter(ctx); err != nil {
		return err
	}
	if err := d.Process.LockWriter(ctx); err != nil {
		return err
	}
	defer d.Process.UnlockWriter()
	return fn()
}

// ownsWriter returns errOwnWriter if ctx belongs to a transaction, or to a Resume attempt with an open segment, that has
// SQLite's one writer.
func (d *Database) ownsWriter(ctx context.Context) error {
	if !d.Dialect.OneWriter {
		return nil
	}
	if t := TxFrom(ctx); t != nil && t.DB == d && t.isOpen() {
		return errOwnWriter
	}
	if r := ReaderFrom(ctx); r != nil && r.DB == d && r.Segments.HasOpen() {
		return errOwnWriter
	}
	return nil
}

// InTx runs fn in a transaction of the library's own. On PostgreSQL that is at read committed: what fn reads after it has
// got a lock must be as new as the lock.
func (d *Database) InTx(ctx context.Context, fn func(q Querier) error) error {
	return d.writing(ctx, func() error {
		return Retry(ctx, func() error { return d.transact(ctx, fn) })
	})
}

// transact is InTx without a retry, for a caller that has SQLite's writer already.
func (d *Database) transact(ctx context.Context, fn func(q Querier) error) (err error) {
	var unconfirmed error
	err = d.onConn(ctx, "", func(own *sql.Conn) (err error) {
		unconfirmed, err = d.transactOn(ctx, own, fn)
		return err
	})
	return cmp.Or(err, unconfirmed)
}

// transactOn is transact over a connection. unconfirmed: it has committed, and it is not known whether the standby has it.
func (d *Database) transactOn(ctx context.Context, own *sql.Conn, fn func(q Querier) error) (unconfirmed, err error) {
	q, commit, undo, err := d.beginOwn(ctx, own, d.Dialect.TxOptions())
	if err != nil {
		return nil, err
	}
	defer undo()
	if err := fn(q); err != nil {
		return nil, err
	}
	warned := d.Notices.Expect(backend(own))
	if err := commit(); err != nil || !warned() {
		return nil, err
	}
	return d.confirmOn(ctx, own, 0), nil // an operator has cancelled the wait for the standby
}

// Reading runs fn in a transaction that is rolled back.
func (d *Database) Reading(ctx context.Context, fn func(q Querier) error) error {
	return Retry(ctx, func() error {
		return d.onConn(ctx, "", func(own *sql.Conn) error {
			q, _, undo, err := d.beginOwn(ctx, own, d.Dialect.Reading)
			if err != nil {
				return err
			}
			defer undo()
			return fn(q)
		})
	})
}

// beginOwn begins a transaction on a connection. undo does nothing behind a commit that has succeeded.
func (d *Database) beginOwn(ctx context.Context, own *sql.Conn, options *sql.TxOptions) (
	q Querier, commit func() error, undo func(), err error,
) {
	if d.Dialect.BeginOwn == nil {
		tx, err := own.BeginTx(ctx, options)
		return tx, func() error { return tx.Commit() }, func() { _ = tx.Rollback() }, err
	}
	ctx, open := d.asOwn(ctx), true
	for _, text := range d.Dialect.BeginOwn {
		if _, err := own.ExecContext(ctx, text); err != nil {
			return nil, nil, nil, err
		}
	}
	commit = func() error {
		_, err := own.ExecContext(ctx, "COMMIT")
		open = err != nil
		return err
	}
	undo = func() {
		if open {
			Rollback(own)
		}
	}
	return own, commit, undo, nil
}

// over runs fn, which sends the statement name, on q, or on one connection of the pool: see onConn.
func (d *Database) over(
	ctx context.Context, q Querier, name Statement, args []any,
	fn func(ctx context.Context, q Querier, text string, args []any) error,
) error {
	ctx = d.asOwn(ctx)
	send := func(q Querier) error {
		text, args, err := d.Statements.text(ctx, q, name, args)
		if err != nil || text == "" {
			return err
		}
		before, last := parts(text)
		if d.bound != nil && d.bound.on.Load() {
			before, last = nil, text // what is read is of the last one: the others return no rows
		}
		for _, first := range before {
			if _, err := q.ExecContext(ctx, first); err != nil {
				return named(err, Call{Name: name})
			}
		}
		return named(fn(ctx, q, last, args), Call{Name: name})
	}
	switch {
	case q == Querier(d.Pool):
	case hasGivenUp(ctx): // in a transaction
		return errGivenUp
	default:
		return send(q)
	}
	return d.onConn(ctx, name, func(own *sql.Conn) error { return send(own) })
}

// onConn runs fn, which sends the statement name, on a connection of the pool. As the pool does, it runs fn on another one
// where one has broken while nobody used it.
func (d *Database) onConn(ctx context.Context, name Statement, fn func(own *sql.Conn) error) error {
	for try := 1; ; try++ {
		own, err := d.Pool.Conn(ctx)
		switch {
		case err != nil && try == 1:
			return fmt.Errorf("%w: %w", store.ErrNotSent, err)
		case err != nil: // not every driver knows what it has sent over the connection that has broken
			return err
		}
		if err = Sends(ctx, own, name); err == nil {
			err = fn(own)
		}
		giveBack(own, err)
		if try == MaxTries || !errors.Is(err, driver.ErrBadConn) && !pgconn.SafeToRetry(err) {
			return err
		}
	}
}
