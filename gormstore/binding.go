package gormstore

import (
	"context"

	"gorm.io/gorm"
)

type txKey struct{}

// binding is what the context of an attempt, a step or an inbox handler carries.
type binding struct {
	tx     *tx
	gorm   *gorm.DB // in a unit test only: see WithTx
	raw    dbtx
	joined bool // it is that of a message that has joined the transaction
}

// asked records that the handler has asked for its transaction.
func (b *binding) asked() {
	if b.tx != nil {
		b.tx.asked.Store(true)
	}
}

// session is the transaction for GORM, made when it is asked for: a handler may use database/sql alone.
func (b *binding) session(ctx context.Context) *gorm.DB {
	b.asked()
	if b.tx == nil {
		return b.gorm.WithContext(ctx)
	}
	return b.tx.db.session(ctx, b.raw)
}

// Asked implements [store.AskedTx].
func (t *tx) Asked() bool { return t.asked.Load() }

// FailedWith implements [store.FailedTx].
func (t *tx) FailedWith() string {
	t.conn.stateMu.Lock()
	defer t.conn.stateMu.Unlock()
	return className(t.db.dialect, t.conn.failures.first)
}

// Bind implements [store.Tx].
func (t *tx) Bind(ctx context.Context) context.Context {
	ctx = t.conn.bind(ctx)
	return context.WithValue(ctx, txKey{}, &binding{tx: t, raw: t.conn})
}

func bindingFrom(ctx context.Context) *binding {
	b, _ := ctx.Value(txKey{}).(*binding)
	return b
}

func txFrom(ctx context.Context) *tx {
	if b := bindingFrom(ctx); b != nil {
		return b.tx
	}
	return nil
}

// withTx returns a context whose transaction is db, for unit tests.
func withTx(ctx context.Context, db *gorm.DB) context.Context {
	return context.WithValue(ctx, txKey{}, &binding{gorm: db, raw: db.Statement.ConnPool})
}
