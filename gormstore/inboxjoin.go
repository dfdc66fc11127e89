package gormstore

import (
	"context"
	"errors"
	"fmt"

	"gorm.io/gorm"

	"github.com/auth19/idem/core"
)

// messageSavepoint is where a message begins that joins a transaction. Behind another one of that name, a message that
// fails would keep its marker, and be lost: a handler cannot use it.
const messageSavepoint = "idem_message"

// around returns the transaction that a message joins: that of the attempt, the step or the message that ctx belongs to.
// nil: it has one of its own. One of its own inside another would stay when that is rolled back, wait for SQLite's writer
// that the other one holds, and take a second connection with the first in its hand.
func (i *Inbox) around(ctx context.Context) (*binding, error) {
	b := bindingFrom(ctx)
	outside := ctx.Value(outsideKey{}) != nil
	switch {
	case b != nil && b.tx != nil && b.tx.store.pool == i.store.pool:
		b.asked()
		return b, nil
	case b != nil && b.tx != nil && !outside:
		return nil, fmt.Errorf("idem: gormstore.Inbox.Process: the inbox has another database than the transaction around "+
			"it: %w", ErrOutsideTransaction)
	case b != nil && b.tx == nil: // a unit test: WithTx
		if _, transaction := b.raw.(gorm.TxCommitter); transaction {
			return b, nil
		}
	case b == nil && !outside:
		if _, inside := core.Operation(ctx); inside {
			return nil, fmt.Errorf("idem: gormstore.Inbox.Process: this attempt has no transaction that the message could "+
				"join; guard the route with core.Rollback, or call Process in a gormstore.Step with the step's context: %w",
				ErrOutsideTransaction)
		}
	}
	return nil, nil
}

// join runs fn in the transaction around it. The marker commits with that one or is undone with it. COMMIT of an attempt
// is confirmed after everything that was visible before, so that a duplicate needs no confirmation of its own (F-2).
func (i *Inbox) join(ctx context.Context, around *binding, m marker, fn func(tx *gorm.DB) error) error {
	if _, err := around.own().ExecContext(ctx, "SAVEPOINT "+messageSavepoint); err != nil {
		return err
	}
	done := false
	defer func() {
		if !done {
			around.undo(ctx)
		}
	}()
	s := i.store
	if _, err := s.mark(ctx, around.raw, m); err != nil {
		around.undo(ctx)
		done = true
		switch {
		case errors.Is(err, errRace):
			return ErrMessageBusy
		case errors.Is(err, ErrMessageTooOld):
			if noted := s.refuse(ctx, around.raw, m); noted != nil {
				return noted
			}
		}
		return err
	}
	tx, _ := TxFrom(ctx)
	if err := fn(tx); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	// It fails in a transaction that a failed statement has aborted.
	if _, err := around.own().ExecContext(ctx, "RELEASE SAVEPOINT "+messageSavepoint); err != nil {
		return notCommitted(err)
	}
	done = true
	return nil
}

// undo takes back what a message has left in the transaction around it. Where it cannot, nothing of that one commits.
func (b *binding) undo(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	for _, statement := range []string{"ROLLBACK TO SAVEPOINT " + messageSavepoint, "RELEASE SAVEPOINT " + messageSavepoint} {
		if _, err := b.own().ExecContext(ctx, statement); err != nil && b.tx != nil {
			b.tx.conn.fail(err)
			return
		}
	}
}

// own is the transaction for statements of the library, which a handler may not send.
func (b *binding) own() querier {
	if b.tx != nil {
		return b.tx.conn.sql
	}
	return b.raw
}
