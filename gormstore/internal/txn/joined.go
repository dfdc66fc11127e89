package txn

import (
	"context"

	"github.com/auth19/idem/gormstore/internal/sqltext"
)

// Enter begins a message in the transaction of b, behind a savepoint, and returns the context of its handler. Not ok:
// another message of the transaction is being processed, other than the one that b is the binding of. Savepoints are a
// stack: two messages side by side would undo or keep each other's rows.
func (b *Binding) Enter(ctx context.Context) (handlers context.Context, ok bool, err error) {
	inside := &Binding{Tx: b.Tx, Gorm: b.Gorm, Raw: b.Raw, joined: true}
	if b.Tx != nil && !b.Tx.Conn.message.CompareAndSwap(b.ofMessage(), inside) {
		return nil, false, nil
	}
	ctx = context.WithValue(ctx, txKey{}, inside)
	if err := b.exec(ctx, "SAVEPOINT "+sqltext.MessageSavepoint); err != nil {
		b.unjoin()
		return nil, false, err
	}
	if b.Tx != nil {
		b.Tx.Conn.stateMu.Lock()
		defer b.Tx.Conn.stateMu.Unlock()
		b.Tx.Conn.failures.mark(sqltext.MessageSavepoint)
	}
	return ctx, true, nil
}

// ReleaseSavepoint ends a message whose rows stay. It fails in a transaction that a failed statement has aborted.
func (b *Binding) ReleaseSavepoint(ctx context.Context) error {
	b.closeRows()
	if err := b.exec(ctx, "RELEASE SAVEPOINT "+sqltext.MessageSavepoint); err != nil {
		return NotCommitted(err)
	}
	b.unjoin()
	return nil
}

// unjoin ends a message that was released or undone. Until then the transaction does not commit: see Tx.failed.
func (b *Binding) unjoin() {
	if b.Tx != nil {
		b.Tx.Conn.message.Store(b.ofMessage())
	}
}

// ofMessage returns b if it is the binding of a message that has joined the transaction; nil otherwise.
func (b *Binding) ofMessage() *Binding {
	if b.joined {
		return b
	}
	return nil
}

// Undo undoes what a message has written in the transaction around it. If it cannot, nothing of that transaction commits.
func (b *Binding) Undo(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	b.closeRows()
	for _, do := range []string{"ROLLBACK TO SAVEPOINT ", "RELEASE SAVEPOINT "} {
		if err := b.exec(ctx, do+sqltext.MessageSavepoint); err != nil && b.Tx != nil {
			b.Tx.Conn.fail(err)
			return
		}
	}
	if b.Tx != nil {
		b.Tx.Conn.stateMu.Lock()
		defer b.Tx.Conn.stateMu.Unlock()
		b.Tx.Conn.undone(sqltext.MessageSavepoint)
	}
	b.unjoin()
}

// closeRows closes the rows that the handler of a message has left unread.
func (b *Binding) closeRows() {
	if b.Tx != nil {
		b.Tx.Conn.freeBusy()
	}
}

// exec runs a statement of the library that a handler may not send.
func (b *Binding) exec(ctx context.Context, statement string) error {
	if b.Tx != nil {
		return b.Tx.Conn.execOwn(ctx, statement)
	}
	_, err := b.Raw.ExecContext(ctx, statement)
	return err
}
