package gormstore

import (
	"context"
	"errors"
	"fmt"

	"gorm.io/gorm"

	"github.com/auth19/idem/core"
)

// around returns the transaction of the attempt, the step or the message that ctx belongs to, which the message joins. If
// it returns nil, the message gets its own transaction. Inside another transaction that would be wrong: it would
// stay when the other one is rolled back, would wait for SQLite's writer that the other one holds, and would need a
// second connection.
func (i *Inbox) around(ctx context.Context) (*binding, error) {
	b := bindingFrom(ctx)
	outside := isOutside(ctx)
	switch {
	case b != nil && b.tx != nil && b.tx.db.pool == i.db.pool:
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

// join runs fn in the transaction around it, and the marker commits with that transaction or is undone with it. A
// duplicate needs no confirmation of its own: when the COMMIT of that transaction is confirmed, everything that was
// visible before is confirmed, too (F-2).
func (i *Inbox) join(ctx context.Context, around *binding, m marker, fn func(tx *gorm.DB) error) error {
	ctx, alone, err := around.enter(ctx)
	switch {
	case err != nil:
		return err
	case !alone:
		return ErrTwoMessages
	}
	done := false
	defer func() {
		if !done {
			around.undo(ctx)
		}
	}()
	if err := i.mark(ctx, around.raw, m); err != nil {
		around.undo(ctx)
		done = true
		switch {
		case errors.Is(err, errRace):
			return ErrMessageBusy
		case errors.Is(err, ErrMessageTooOld):
			if noted := i.refuse(ctx, around.raw, m); noted != nil {
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
	if err := around.release(ctx); err != nil {
		return err
	}
	done = true
	return nil
}
