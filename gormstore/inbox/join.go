package inbox

import (
	"context"
	"errors"
	"fmt"

	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// around returns the transaction of the attempt, the step or the message that ctx belongs to, which the message joins. If
// it returns nil, the message gets its own transaction. Inside another transaction that would be wrong: it would
// stay when the other one is rolled back, would wait for SQLite's writer that the other one holds, and would need a
// second connection.
func (i *Inbox) around(ctx context.Context) (*txn.Binding, error) {
	b := txn.BindingFrom(ctx)
	outside := txn.IsOutside(ctx)
	switch {
	case b != nil && b.Tx != nil && b.Tx.DB.Pool == i.db.Pool:
		b.Tx.MarkWrote()
		return b, nil
	case b != nil && b.Tx != nil && !outside:
		return nil, fmt.Errorf("idem: inbox: Process: the inbox has another database than the transaction around "+
			"it: %w", gormstore.ErrOutsideTransaction)
	case b != nil && b.Tx == nil: // a unit test: gormstore.WithTx
		if _, transaction := b.Raw.(gorm.TxCommitter); transaction {
			return b, nil
		}
	case b == nil && !outside:
		if _, inside := core.Operation(ctx); inside {
			return nil, fmt.Errorf("idem: inbox: Process: this attempt has no transaction that the message could "+
				"join; guard the route with core.Rollback, or call Process in a gormstore.Step with the step's context: %w",
				gormstore.ErrOutsideTransaction)
		}
	}
	return nil, nil
}

// join runs fn in the transaction around it, and the marker commits with that transaction or is undone with it. A
// duplicate needs no confirmation of its own: when the COMMIT of that transaction is confirmed, everything that was
// visible before is confirmed, too (F-2).
func (i *Inbox) join(ctx context.Context, around *txn.Binding, m marker, fn func(tx *gorm.DB) error) error {
	ctx, alone, err := around.Enter(ctx)
	switch {
	case err != nil:
		return err
	case !alone:
		return ErrTwoMessages
	}
	done := false
	defer func() {
		if !done {
			around.Undo(ctx)
		}
	}()
	if err := i.mark(ctx, around.Raw, m); err != nil {
		around.Undo(ctx)
		done = true
		switch {
		case errors.Is(err, txn.ErrRace):
			return ErrBusy
		case errors.Is(err, ErrTooOld):
			if noted := i.raiseFloor(ctx, around.Raw, m); noted != nil {
				return noted
			}
		}
		return err
	}
	tx, _ := gormstore.TxFrom(ctx)
	if err := fn(tx); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := around.ReleaseSavepoint(ctx); err != nil {
		return err
	}
	done = true
	return nil
}
