package txn

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/sqltext"
)

// ErrOutsideTransaction is gormstore.ErrOutsideTransaction.
var ErrOutsideTransaction = errors.New("idem: gormstore: this write carries the context of a Rollback attempt, or of " +
	"a message, but goes over another connection, so it would stay when that is rolled back. Write through " +
	"gormstore.Tx(ctx), SQLTx or PgxTx, or the tx of the message's handler; or mark the write with gormstore.Outside(ctx) " +
	"if it is meant to stay")

// outsideStep is ErrOutsideTransaction in a Resume attempt.
type outsideStep struct{}

// Error implements error.
func (outsideStep) Error() string {
	return "idem: gormstore: this write carries the context of a Resume attempt but is outside its database steps, so the " +
		"next attempt would write it again. Write in a gormstore.Step, through its tx; or mark the write with " +
		"gormstore.Outside(ctx) if it may be repeated"
}

// Is implements what [errors.Is] asks for.
func (outsideStep) Is(target error) bool { return target == ErrOutsideTransaction }

type outsideKey struct{}

// Outside is gormstore.Outside.
func Outside(ctx context.Context) context.Context { return context.WithValue(ctx, outsideKey{}, true) }

// IsOutside reports whether Outside has marked ctx.
func IsOutside(ctx context.Context) bool { return ctx.Value(outsideKey{}) == true }

// NotOutside takes the mark of Outside away.
func NotOutside(ctx context.Context) context.Context {
	if !IsOutside(ctx) {
		return ctx
	}
	return context.WithValue(ctx, outsideKey{}, false)
}

// attemptSetting is the setting of sessions that come from gormstore.Tx; its value is the attempt's connection.
const attemptSetting = "idem:attempt"

// RefuseOutside refuses a write that goes past the attempt.
func RefuseOutside(db *gorm.DB) {
	if refusePrepared(db) {
		return
	}
	if err := misplaced(db); err != nil {
		_ = db.AddError(refused(db.Statement.Context, err))
		if db.Statement.SQL.Len() == 0 { // GORM logs errors of statements only, and many apps do not log a handler's error
			db.Logger.Error(db.Statement.Context, "%v", err)
		}
	}
}

// misplaced returns the error of a write by db; nil where it may write.
func misplaced(db *gorm.DB) error {
	ctx := db.Statement.Context
	if IsOutside(ctx) {
		return nil
	}
	if b := BindingFrom(ctx); b != nil {
		// In a unit test WithTx may have put a database there, where each transaction has another connection.
		_, transaction := b.Raw.(gorm.TxCommitter)
		if transaction && db.Statement.ConnPool != b.Raw {
			return ErrOutsideTransaction
		}
		return nil
	}
	_, inStep := db.Statement.ConnPool.(*stepConn) // with the attempt's own context
	if recovery, ok := core.RecoveryOf(ctx); ok && recovery == store.Resume && !inStep {
		return outsideStep{}
	}
	return nil
}

// GuardReads lets a statement that may not write through readPool.
func GuardReads(db *gorm.DB) {
	if refusePrepared(db) || db.Error != nil {
		return
	}
	dialect, err := DialectOf(db.Dialector.Name())
	if err != nil {
		return
	}
	if refusal := misplaced(db); refusal != nil {
		db.Statement.ConnPool = readPool{db.Statement.ConnPool, dialect, refusal}
	}
}

// UnguardReads gives the statement its connection back: the statement may be used again.
func UnguardReads(db *gorm.DB) {
	if guarded, ok := db.Statement.ConnPool.(readPool); ok {
		db.Statement.ConnPool = guarded.ConnPool
	}
}

// readPool sends statements that only read, and refuses those that may write.
type readPool struct {
	gorm.ConnPool
	dialect *Dialect
	refusal error
}

func (p readPool) check(ctx context.Context, query string) error {
	return pastAttempt(ctx, p.refusal, p.dialect.Text, query)
}

// pastAttempt returns refusal with the reason why a text must not go past the attempt: it may write, or it locks rows. Such
// a lock is gone at once, or is that of another transaction, and what was read is no longer true when the attempt writes.
func pastAttempt(ctx context.Context, refusal error, d sqltext.Dialect, text string) error {
	if why := sqltext.MayWrite(d, text); why != "" {
		return refused(ctx, fmt.Errorf("%w. This may write: %s", refusal, why))
	}
	if lock := sqltext.Locks(d, text); lock != "" {
		return refused(ctx, fmt.Errorf("%w. This locks rows, and the attempt's transaction would not have the lock: %s",
			refusal, lock))
	}
	return nil
}

// refused returns the error of a statement that the library does not send, and tells the observer of the attempt that ctx
// belongs to: the handler may ignore the error.
func refused(ctx context.Context, err error) error {
	core.WriteRefused(ctx, err)
	return err
}

// ExecContext implements [gorm.ConnPool].
func (p readPool) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if err := p.check(ctx, query); err != nil {
		return nil, err
	}
	return p.ConnPool.ExecContext(ctx, query, args...)
}

// QueryContext implements [gorm.ConnPool].
func (p readPool) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if err := p.check(ctx, query); err != nil {
		return nil, err
	}
	return p.ConnPool.QueryContext(ctx, query, args...)
}

// QueryRowContext implements [gorm.ConnPool].
func (p readPool) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if err := p.check(ctx, query); err != nil {
		return new(handouts).refused(err)
	}
	return p.ConnPool.QueryRowContext(ctx, query, args...)
}

// refusePrepared refuses everything, even reads, in a session of gormstore.Tx whose connection GORM has replaced: see
// errPrepare.
func refusePrepared(db *gorm.DB) bool {
	own, ok := db.Statement.Settings.Load(attemptSetting)
	if !ok || db.Statement.ConnPool == own {
		return false
	}
	_ = db.AddError(refused(db.Statement.Context, errPrepare))
	return true
}
