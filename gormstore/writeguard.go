package gormstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"gorm.io/gorm"

	"github.com/auth19/idem/core"
)

// ErrOutsideTransaction is the error of a write that carries the context of a Rollback attempt but goes over another
// connection: it would stay when the attempt is rolled back. It is that of a write in a Resume attempt outside a database
// step, too, which the next attempt would write again.
var ErrOutsideTransaction = errors.New("idem: gormstore: this write carries the context of a Rollback attempt but goes " +
	"over another connection, so it would stay when the attempt is rolled back. Write through gormstore.Tx(ctx); or mark " +
	"the write with gormstore.Outside(ctx) if it is meant to stay")

// outsideStep is ErrOutsideTransaction in a Resume attempt.
type outsideStep struct{}

// Error implements error.
func (outsideStep) Error() string {
	return "idem: gormstore: this write carries the context of a Resume attempt but is in none of its database steps, so the " +
		"next attempt would write it again. Write in a gormstore.Step, through its tx; or mark the write with " +
		"gormstore.Outside(ctx) if it may be repeated"
}

// Is implements what [errors.Is] asks for.
func (outsideStep) Is(target error) bool { return target == ErrOutsideTransaction }

type outsideKey struct{}

// Outside marks a context whose statements are meant to go over another connection than the attempt's, and to stay
// whatever becomes of the attempt: an audit log, for instance, or a function that only reads.
func Outside(ctx context.Context) context.Context { return context.WithValue(ctx, outsideKey{}, true) }

const guardName = "idem:write_guard"

// WriteGuard is a GORM plugin that refuses writes which carry the context of a Rollback attempt but go over another
// connection, or that of a Resume attempt outside its database steps, before they reach the database, with
// [ErrOutsideTransaction]. New installs it on its own db; an app with further *gorm.DB values installs it there
// with db.Use(gormstore.WriteGuard()).
//
// It sees what goes through GORM with the handler's context: Create, Save, Update, Delete, Exec, and reads that may write,
// because they hold a write or call a function that is not known to only read. The functions of PostgreSQL and SQLite that
// only read are known: count, sum, now, lower, those of JSON. One of the app's own that only reads is called with
// [Outside]. It cannot see a write without the context (db.Create instead of db.WithContext(ctx).Create), one past GORM,
// nor what views, operators, casts and triggers do, a function that is called like a column, (row).book, or one of the
// app's own by the name of one that is known.
func WriteGuard() gorm.Plugin { return writeGuard{} }

type writeGuard struct{}

// Name implements [gorm.Plugin].
func (writeGuard) Name() string { return guardName }

// Initialize implements [gorm.Plugin].
func (writeGuard) Initialize(db *gorm.DB) error {
	// Writes before everything else: GORM opens a transaction of its own first, and that takes a connection. Reads as late
	// as can be: their text is looked at when it is sent, behind what other plugins add.
	cb := db.Callback()
	return errors.Join(
		cb.Create().Before("*").Register(guardName, refuseOutside),
		cb.Update().Before("*").Register(guardName, refuseOutside),
		cb.Delete().Before("*").Register(guardName, refuseOutside),
		cb.Raw().Before("gorm:raw").Register(guardName, guardReads),
		cb.Row().Before("gorm:row").Register(guardName, guardReads),
		cb.Query().Before("gorm:query").Register(guardName, guardReads),
		cb.Raw().After("gorm:raw").Register(guardName+"_end", unguardReads),
		cb.Row().After("gorm:row").Register(guardName+"_end", unguardReads),
		cb.Query().After("gorm:query").Register(guardName+"_end", unguardReads),
	)
}

// guardInstalled reports whether db has the write guard.
func guardInstalled(db *gorm.DB) bool {
	_, ok := db.Plugins[guardName]
	return ok
}

// attemptSetting is the setting of sessions that come from Tx; its value is the attempt's connection.
const attemptSetting = "idem:attempt"

func refuseOutside(db *gorm.DB) {
	if refusePrepared(db) {
		return
	}
	if err := misplaced(db); err != nil {
		_ = db.AddError(err)
	}
}

// misplaced returns the error of a write by db; nil where it may write.
func misplaced(db *gorm.DB) error {
	ctx := db.Statement.Context
	if ctx.Value(outsideKey{}) != nil {
		return nil
	}
	if b := bindingFrom(ctx); b != nil {
		// In a unit test WithTx may have put a database there, in which every transaction is another connection.
		_, transaction := b.raw.(gorm.TxCommitter)
		if transaction && db.Statement.ConnPool != b.raw {
			return ErrOutsideTransaction
		}
		return nil
	}
	_, inStep := db.Statement.ConnPool.(*conn) // with the attempt's own context
	if recovery, ok := core.RecoveryOf(ctx); ok && recovery == core.Resume && !inStep {
		return outsideStep{}
	}
	return nil
}

// guardReads lets a statement that may not write through readPool.
func guardReads(db *gorm.DB) {
	if refusePrepared(db) || db.Error != nil {
		return
	}
	dialect, err := dialectOf(db.Dialector.Name())
	if refusal := misplaced(db); refusal != nil && err == nil {
		pool, _ := db.DB()
		db.Statement.ConnPool = readPool{db.Statement.ConnPool, pool, dialect, refusal}
	}
}

// unguardReads gives the statement its connection back: it may be used again.
func unguardReads(db *gorm.DB) {
	if guarded, ok := db.Statement.ConnPool.(readPool); ok {
		db.Statement.ConnPool = guarded.ConnPool
	}
}

// readPool sends what only reads, and refuses what may write.
type readPool struct {
	gorm.ConnPool
	pool    *sql.DB // nil where it is not known
	dialect *dialect
	refusal error
}

func (p readPool) check(query string) error {
	if why := mayWrite(p.dialect, query); why != "" {
		return fmt.Errorf("%w. What may write here: %s", p.refusal, why)
	}
	return nil
}

// ExecContext implements [gorm.ConnPool].
func (p readPool) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if err := p.check(query); err != nil {
		return nil, err
	}
	return p.ConnPool.ExecContext(ctx, query, args...)
}

// QueryContext implements [gorm.ConnPool].
func (p readPool) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if err := p.check(query); err != nil {
		return nil, err
	}
	return p.ConnPool.QueryContext(ctx, query, args...)
}

// QueryRowContext implements [gorm.ConnPool].
func (p readPool) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if err := p.check(query); err != nil {
		return refusedRow(ctx, p.pool, err)
	}
	return p.ConnPool.QueryRowContext(ctx, query, args...)
}

// refusePrepared refuses everything, reads too, in a session of Tx that GORM has taken to the pool: see errPrepare.
func refusePrepared(db *gorm.DB) bool {
	own, ok := db.Statement.Settings.Load(attemptSetting)
	if !ok || db.Statement.ConnPool == own {
		return false
	}
	_ = db.AddError(errPrepare)
	return true
}
