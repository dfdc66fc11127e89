package gormstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5"
	"gorm.io/gorm"

	"github.com/auth19/idem/gormstore/internal/txn"
)

// ErrOutsideTransaction is the error of a write that carries the context of a Rollback attempt but goes over another
// connection. Such a write would stay when the attempt is rolled back. A write in a Resume attempt outside a database
// step also gets this error, because the next attempt would write again. inbox.Inbox.Process returns it, too, and so
// do Plan and Done of journal.Journal.
var ErrOutsideTransaction = txn.ErrOutsideTransaction

// Outside marks a context for statements that go over another connection than the attempt's on purpose. The write guard
// lets them pass, and their rows stay even if the attempt is rolled back. Use it for an audit log, for instance, or for a
// function that only reads.
func Outside(ctx context.Context) context.Context { return txn.Outside(ctx) }

const guardName = "idem:write_guard"

// WriteGuard is a GORM plugin that refuses two kinds of writes with [ErrOutsideTransaction], before they reach the
// database: a write with the context of a Rollback attempt over another connection than the attempt's, and a write with
// the context of a Resume attempt outside its database steps. New installs it on its own db, as inbox.New and
// journal.New do. If an app has more *gorm.DB values, install it on each with db.Use(gormstore.WriteGuard()). It also
// refuses a row with [Once] that has no operation id, and calls no AfterCreate of a row that [CreateOnce] has not created.
//
// It sees what goes through GORM with the handler's context: Create, Save, Update, Delete, Exec, reads that lock their rows
// (SELECT ... FOR UPDATE), and reads that may write. A read may write if it contains a write, or calls a function that the
// guard does not know. The guard knows the functions of PostgreSQL and SQLite that only read: count, sum, now, lower, those
// of JSON. To call a function of the app that only reads, use [Outside].
//
// It does not see: a write without the handler's context (db.Create instead of db.WithContext(ctx).Create); a write past
// GORM; what views, operators, casts and triggers do; a function that is called in attribute notation, SELECT (row).book
// or SELECT (7).book instead of book(7); a function of the app that has the name of a known one.
func WriteGuard() gorm.Plugin { return &writeGuard{} }

type writeGuard struct {
	early sync.Map // the tables of which Audit has found triggers that run before a row is inserted
}

// Name implements [gorm.Plugin].
func (*writeGuard) Name() string { return guardName }

// Initialize implements [gorm.Plugin].
func (*writeGuard) Initialize(db *gorm.DB) error {
	// A write is refused before everything else: GORM first opens a transaction of its own, and that takes a connection. A read
	// is looked at as late as possible, when it is sent: other plugins may have changed its text.
	cb := db.Callback()
	return errors.Join(
		cb.Create().Before("*").Register(guardName, txn.RefuseOutside),
		cb.Create().After("gorm:before_create").Before("gorm:save_before_associations").
			Register(guardName+"_once", refuseWithoutOperation),
		cb.Create().After("gorm:create").Before("gorm:save_after_associations").
			Register(guardName+"_created", skipUncreated),
		cb.Update().Before("*").Register(guardName, txn.RefuseOutside),
		cb.Delete().Before("*").Register(guardName, txn.RefuseOutside),
		cb.Raw().Before("gorm:raw").Register(guardName, txn.GuardReads),
		cb.Row().Before("gorm:row").Register(guardName, txn.GuardReads),
		cb.Query().Before("gorm:query").Register(guardName, txn.GuardReads),
		cb.Raw().After("gorm:raw").Register(guardName+"_end", txn.UnguardReads),
		cb.Row().After("gorm:row").Register(guardName+"_end", txn.UnguardReads),
		cb.Query().After("gorm:query").Register(guardName+"_end", txn.UnguardReads),
	)
}

// guardInstalled reports whether db has the write guard.
func guardInstalled(db *gorm.DB) bool {
	_, ok := db.Plugins[guardName]
	return ok
}

// SQLWriteGuard is [WriteGuard] for what an app writes over a *sql.DB of its own, on PostgreSQL, with any driver. It wraps
// the connector that the *sql.DB is opened with:
//
//	config, err := pgx.ParseConfig(url)
//	db := sql.OpenDB(gormstore.SQLWriteGuard(stdlib.GetConnector(*config)))
//
// A write with the context of a Rollback attempt over another connection than the attempt's, or with the context of a
// Resume attempt outside its database steps, is [ErrOutsideTransaction], and nothing was sent. That is also a
// statement without a context in a transaction that was begun with the attempt's. Otherwise it sees and does not see what
// WriteGuard does. The store may be opened over the same *sql.DB, and [PgxTx] works as without the guard.
func SQLWriteGuard(connector driver.Connector) driver.Connector { return txn.SQLGuard(connector) }

// PgxWriteGuard is [WriteGuard] for what goes past GORM: a tracer that refuses a write with the context of a Rollback
// attempt over another connection than the attempt's, and one with the context of a Resume attempt outside its database
// steps. Set it where the connections of pgx are configured; with other tracers, use pgx's package multitracer:
//
//	config, err := pgxpool.ParseConfig(url)
//	config.ConnConfig.Tracer = gormstore.PgxWriteGuard()
//
// Over pgx the error is [ErrOutsideTransaction], and nothing was sent. Over database/sql (stdlib.OpenDB with such a
// configuration) nothing is sent either, but database/sql makes driver.ErrBadConn of the error: use [SQLWriteGuard] there.
// [core.EventOverdue] does not come, because nothing waits. It sees and does not see what WriteGuard does, in the texts of
// statements and batches. A CopyFrom is a write. The store's own database may have the guard too.
//
// Without it, a write past the attempt stays when the attempt is rolled back, and waits for rows that the attempt has
// locked, which waits for the write: until the deadline, when the attempt is rolled back and the write commits.
func PgxWriteGuard() pgx.QueryTracer {
	return txn.PgxGuard()
}
