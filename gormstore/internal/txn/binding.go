package txn

import (
	"context"

	"gorm.io/gorm"

	"github.com/auth19/idem/core/store"
)

type txKey struct{}

// Binding is what the context of an attempt, a step or an inbox handler carries.
type Binding struct {
	Tx     *Tx
	Gorm   *gorm.DB // in a unit test only: see WithTx
	Raw    DBTX
	joined bool // it is that of a message that has joined the transaction
}

// Session is the transaction for GORM, made when it is asked for: a handler may use database/sql alone.
func (b *Binding) Session(ctx context.Context) *gorm.DB {
	if b.Tx == nil {
		return b.Gorm.WithContext(ctx)
	}
	return b.Tx.DB.session(ctx, b.Raw)
}

// MarkWrote records a write of the library that belongs to the handler's command.
func (t *Tx) MarkWrote() { t.Conn.wrote.Store(true) }

// Statements says what the handler's statements have done.
func (t *Tx) Statements() store.Statements {
	t.Conn.stateMu.Lock()
	defer t.Conn.stateMu.Unlock()
	return store.Statements{Wrote: t.Conn.wrote.Load(), Failed: t.DB.Dialect.Class(t.Conn.failures.unresolved)}
}

// Bind returns the context in which a handler finds the transaction.
func (t *Tx) Bind(ctx context.Context) context.Context {
	ctx = t.Conn.bind(ctx)
	return context.WithValue(ctx, txKey{}, &Binding{Tx: t, Raw: t.Conn})
}

// BindingFrom returns the binding that ctx carries; nil: it has none.
func BindingFrom(ctx context.Context) *Binding {
	b, _ := ctx.Value(txKey{}).(*Binding)
	return b
}

// TxFrom returns the transaction that ctx belongs to; nil: it belongs to none.
func TxFrom(ctx context.Context) *Tx {
	if b := BindingFrom(ctx); b != nil {
		return b.Tx
	}
	return nil
}

// WithTx returns a context whose transaction is db, for unit tests.
func WithTx(ctx context.Context, db *gorm.DB) context.Context {
	return context.WithValue(ctx, txKey{}, &Binding{Gorm: db, Raw: db.Statement.ConnPool})
}
