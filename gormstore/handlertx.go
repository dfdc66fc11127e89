package gormstore

import (
	"context"
	"database/sql"

	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// DBTX runs a handler's statements. It has the methods of GORM's ConnPool and of the DBTX interface that sqlc generates for
// database/sql.
type DBTX interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// TxFrom returns the transaction of the Rollback attempt, the [Step] or the inbox.Inbox handler that ctx belongs to, with
// ctx as its context. Outside the steps of a Resume handler it only reads, in the open segment. It is false if
// there is none.
func TxFrom(ctx context.Context) (*gorm.DB, bool) {
	if b := txn.BindingFrom(ctx); b != nil {
		return b.Session(ctx), true
	}
	if r := txn.ReaderFrom(ctx); r != nil {
		return r.Session(ctx), true
	}
	return nil, false
}

// Tx returns the transaction of the Rollback attempt that ctx belongs to. What is written through it commits together
// with the recorded answer, or not at all. With the context of a [Step] or of an inbox.Inbox handler it returns that
// transaction; outside the steps of a Resume handler it only reads.
//
// Without a transaction it panics, because it never falls back to the plain database. The usual causes: the route's
// recovery is not core.Rollback (a Resume handler writes in a [Step]); or ctx is not the request's, but
// context.Background() or a *gin.Context of an engine without ContextWithFallback. Pass c.Request.Context() in Gin,
// c.Request().Context() in Echo.
//
// It also panics in shadow (core.Policy.ShadowUntil), because there is no attempt whose answer the rows could commit
// with. A handler that is in shadow now and enforced later opens its own transaction if core.InShadow is true.
func Tx(ctx context.Context) *gorm.DB {
	tx, ok := TxFrom(ctx)
	if !ok {
		if core.InShadow(ctx) {
			panic("idem: gormstore.Tx: this route is in shadow (Policy.ShadowUntil), and no attempt is around its handler. " +
				"If core.InShadow(ctx), use a transaction of your own: db.WithContext(ctx).Transaction")
		}
		if recovery, ok := core.RecoveryOf(ctx); ok && recovery != store.Rollback {
			panic("idem: gormstore.Tx: this route's recovery is " + recovery.String() + ", whose attempts have no transaction. " +
				"On a Resume route write in a gormstore.Step, through its tx; on a Park route through db.WithContext(ctx). If " +
				"the handler only writes rows of this database, choose core.Rollback")
		}
		panic("idem: gormstore.Tx: this context belongs to no Rollback attempt. Pass the request's context " +
			"(c.Request.Context() in Gin, c.Request().Context() in Echo; a *gin.Context alone does not carry it), on a " +
			"route whose policy says core.Rollback. In unit tests use gormstore.WithTx")
	}
	return tx
}

// SQLTx is TxFrom for users of plain SQL or sqlc.
func SQLTx(ctx context.Context) (DBTX, bool) {
	if b := txn.BindingFrom(ctx); b != nil {
		return b.Raw, true
	}
	if r := txn.ReaderFrom(ctx); r != nil {
		return r, true
	}
	return nil, false
}

// WithTx returns a context in which Tx, TxFrom and SQLTx find db, for unit tests of handlers and repositories. db is
// usually a transaction that the test rolls back. It is used as it is: what an attempt refuses (COMMIT, PrepareContext, a
// write past the transaction) is refused only in a test over HTTP. PgxTx finds nothing there: test it over HTTP, too.
func WithTx(ctx context.Context, db *gorm.DB) context.Context {
	return txn.WithTx(ctx, db)
}
