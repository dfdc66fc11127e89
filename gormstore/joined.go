package gormstore

import (
	"context"

	"github.com/auth19/idem/gormstore/internal/sqltext"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// enter begins a message in the transaction of b, behind a savepoint, and returns the context of its handler. Not ok:
// another message of the transaction is being processed, other than the one that b is the binding of. Savepoints are a
// stack: two messages side by side would undo or keep each other's rows.
func (b *binding) enter(ctx context.Context) (handlers context.Context, ok bool, err error) {
	inside := &binding{tx: b.tx, gorm: b.gorm, raw: b.raw, joined: true}
	if b.tx != nil && !b.tx.conn.message.CompareAndSwap(b.ofMessage(), inside) {
		return nil, false, nil
	}
	ctx = context.WithValue(ctx, txKey{}, inside)
	if err := b.exec(ctx, "SAVEPOINT "+sqltext.MessageSavepoint); err != nil {
		b.leave()
		return nil, false, err
	}
	return ctx, true, nil
}

// release ends a message whose rows stay. It fails in a transaction that a failed statement has aborted.
func (b *binding) release(ctx context.Context) error {
	b.closeRows()
	if err := b.exec(ctx, "RELEASE SAVEPOINT "+sqltext.MessageSavepoint); err != nil {
		return notCommitted(err)
	}
	b.leave()
	return nil
}

// leave ends a message that was released or undone. Until then the transaction does not commit: see tx.failed.
func (b *binding) leave() {
	if b.tx != nil {
		b.tx.conn.message.Store(b.ofMessage())
	}
}

// ofMessage returns b if it is the binding of a message that has joined the transaction; nil otherwise.
func (b *binding) ofMessage() *binding {
	if b.joined {
		return b
	}
	return nil
}

// undo undoes what a message has written in the transaction around it. If it cannot, nothing of that transaction commits.
func (b *binding) undo(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), txn.EndTimeout)
	defer cancel()
	b.closeRows()
	for _, do := range []string{"ROLLBACK TO SAVEPOINT ", "RELEASE SAVEPOINT "} {
		if err := b.exec(ctx, do+sqltext.MessageSavepoint); err != nil && b.tx != nil {
			b.tx.conn.fail(err)
			return
		}
	}
	if b.tx != nil {
		b.tx.conn.stateMu.Lock()
		defer b.tx.conn.stateMu.Unlock()
		b.tx.conn.undone()
	}
	b.leave()
}

// closeRows closes the rows that the handler of a message has left unread.
func (b *binding) closeRows() {
	if b.tx != nil {
		b.tx.conn.stateMu.Lock()
		defer b.tx.conn.stateMu.Unlock()
		b.tx.conn.closeBusy()
	}
}

// exec runs a statement of the library that a handler may not send.
func (b *binding) exec(ctx context.Context, statement string) error {
	if b.tx != nil {
		return b.tx.conn.execOwn(ctx, statement)
	}
	_, err := b.raw.ExecContext(ctx, statement)
	return err
}
