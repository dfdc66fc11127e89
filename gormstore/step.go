package gormstore

import (
	"context"
	"errors"
	"fmt"

	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
)

// Step is [core.Step] with the transaction in which fn writes: rows of the app's database, as a step of a Resume attempt.
// The rows, the step's record and its result become durable together, with the next core.Call, core.Checkpoint or answer
//
// Later attempts get the recorded result without running fn.
//
// After an error of fn, or of a statement in it, nothing commits that was written since the last call or checkpoint:
// return the error, or answer with 5xx. A business refusal is a result. The errors are those of core.Step.
func Step[T any](ctx context.Context, name string, fn func(tx *gorm.DB) (T, error)) (T, error) {
	return core.Step(ctx, name, func(ctx context.Context) (result T, err error) {
		tx, ok := TxFrom(ctx)
		if !ok {
			return result, fmt.Errorf("idem: gormstore.Step: step %q has no transaction: the module's store is none of "+
				"gormstore; or, in a unit test, add one with gormstore.WithTx", name)
		}
		if b := bindingFrom(ctx); b == nil || b.tx != nil {
			return fn(tx)
		}
		err = tx.Transaction(func(tx *gorm.DB) error { // a unit test: a savepoint, so that a step that fails leaves no rows
			result, err = fn(tx)
			return err
		})
		return result, err
	})
}

// StepDo is [Step] for rows without a result.
func StepDo(ctx context.Context, name string, fn func(tx *gorm.DB) error) error {
	_, err := Step(ctx, name, func(tx *gorm.DB) (struct{}, error) { return struct{}{}, fn(tx) })
	return err
}

// failedStep returns why the segment of a step cannot commit. A failed statement dooms it, unless the handler has undone the
// statement with a savepoint.
func (t *tx) failedStep(ctx context.Context) error {
	if err := t.failed(ctx); err != nil {
		return err
	}
	if err := t.conn.distress(false); err != nil {
		return err
	}
	if err := t.conn.standing(); err != nil {
		return fmt.Errorf("%w: %w", store.ErrAborted, err)
	}
	return nil
}

// standing returns the error that has aborted the transaction; nil on SQLite, where a failed statement aborts nothing.
func (c *conn) standing() error {
	c.stateMu.Lock()
	defer c.stateMu.Unlock()
	if c.store.dialect == sqlite {
		return nil
	}
	return c.failures.standing
}

var (
	errStepOver = errors.New("idem: gormstore: the step is over; write in a step of your own, and do not keep its transaction")
)
