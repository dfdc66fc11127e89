package gormstore

import (
	"context"
	"errors"
	"regexp"

	"gorm.io/gorm"
)

// ErrOutsideTransaction is the error of a write that carries the context of a Rollback attempt but goes over another
// connection: it would stay when the attempt is rolled back.
var ErrOutsideTransaction = errors.New("idem: gormstore: this write carries the context of a Rollback attempt but goes " +
	"over another connection, so it would stay when the attempt is rolled back. Write through gormstore.Tx(ctx); or mark " +
	"the write with gormstore.Outside(ctx) if it is meant to stay")

type outsideKey struct{}

// Outside marks a context whose writes are meant to go over another connection than the attempt's, and to stay
// whatever becomes of the attempt: an audit log, for instance.
func Outside(ctx context.Context) context.Context { return context.WithValue(ctx, outsideKey{}, true) }

const guardName = "idem:write_guard"

// WriteGuard is a GORM plugin that refuses writes which carry the context of a Rollback attempt but go over another
// connection, before they reach the database, with [ErrOutsideTransaction]. New installs it on its own db; an
// app with further *gorm.DB values installs it there with db.Use(gormstore.WriteGuard()).
//
// It sees what goes through GORM with the handler's context: Create, Save, Update, Delete, Exec, and raw statements
// that write. It cannot see a write without the context (db.Create instead of db.WithContext(ctx).Create), nor one
// past GORM.
func WriteGuard() gorm.Plugin { return writeGuard{} }

type writeGuard struct{}

// Name implements [gorm.Plugin].
func (writeGuard) Name() string { return guardName }

// Initialize implements [gorm.Plugin].
func (writeGuard) Initialize(db *gorm.DB) error {
	// Before everything else: GORM opens a transaction of its own first, and that takes a connection.
	cb := db.Callback()
	return errors.Join(
		cb.Create().Before("*").Register(guardName, refuseOutside),
		cb.Update().Before("*").Register(guardName, refuseOutside),
		cb.Delete().Before("*").Register(guardName, refuseOutside),
		cb.Raw().Before("*").Register(guardName, refuseOutsideRaw),
		cb.Row().Before("*").Register(guardName, refuseOutsideRaw),
		cb.Query().Before("*").Register(guardName, refuseOutsideRaw),
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
	ctx := db.Statement.Context
	b := bindingFrom(ctx)
	if b == nil || ctx.Value(outsideKey{}) != nil {
		return
	}
	// In a unit test WithTx may have put a database there, in which every transaction is another connection.
	_, transaction := b.raw.(gorm.TxCommitter)
	if transaction && db.Statement.ConnPool != b.raw {
		_ = db.AddError(ErrOutsideTransaction)
	}
}

// refuseOutsideRaw looks only at statements that the app wrote itself and that may write.
func refuseOutsideRaw(db *gorm.DB) {
	if text := db.Statement.SQL.String(); text != "" && mayWrite(text) {
		refuseOutside(db)
	} else {
		refusePrepared(db)
	}
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

var (
	reads = regexp.MustCompile(`(?is)^[\s(]*(SELECT|WITH|VALUES|TABLE|SHOW|EXPLAIN)\b`)
	// A SELECT and a WITH can hold a write: in a common table expression, or as SELECT ... INTO.
	writes = regexp.MustCompile(`(?is)\b(INSERT|UPDATE|DELETE|MERGE|INTO|CALL|TRUNCATE)\b`)
	// SELECT ... FOR UPDATE locks rows and writes none.
	locks = regexp.MustCompile(`(?is)\bFOR\s+(NO\s+KEY\s+)?UPDATE\b`)
)

// mayWrite tells statements that only read from those that may write. In doubt it may: a word in a string literal, for
// instance; the mark of Outside is the way out.
func mayWrite(text string) bool {
	return !reads.MatchString(text) || writes.MatchString(locks.ReplaceAllString(text, ""))
}
