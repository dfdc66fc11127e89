package gormstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/auth19/idem/core"
)

// Step writes rows of the app's database as a step of a Resume attempt. What fn writes through tx commits together with
// the step's record and result. Later attempts get the recorded result without running fn. The last statement before
// COMMIT proves that the attempt still owns its operation, so a stale attempt leaves no rows.
//
// An error of fn rolls back, and the step is unfinished. The result is encoded as JSON and decoded again, in the first
// attempt too; a number without a Go type comes back as a json.Number. Names are unique within an attempt, and steps run
// one after the other. Errors: those of fn and of [core.EnterStep]; core.ErrStepUnknown if fn has ended the transaction
// itself; core.ErrRetryable, core.ErrAborted and core.ErrUnconfirmed from the end of the transaction; the result cannot
// be encoded or is above core.MaxStepResult. After an error, return it or answer with 5xx: the next repeat continues with
// this step.
func Step[T any](ctx context.Context, name string, fn func(tx *gorm.DB) (T, error)) (result T, err error) {
	step, err := core.EnterStep(ctx, name)
	if err != nil {
		return result, err
	}
	defer step.Leave(&err)
	if !step.Finished() {
		err = commitStep(step, func(tx *gorm.DB) (any, error) { return fn(tx) })
	}
	if err == nil {
		err = step.Finish(&result)
	}
	return result, err
}

// StepDo is [Step] for rows without a result.
func StepDo(ctx context.Context, name string, fn func(tx *gorm.DB) error) error {
	_, err := Step(ctx, name, func(tx *gorm.DB) (struct{}, error) { return struct{}{}, fn(tx) })
	return err
}

// commitStep runs work in a transaction, and commits it together with the record of the step.
func commitStep(step *core.Step, work func(tx *gorm.DB) (any, error)) error {
	switch store := step.Store().(type) {
	case *Store:
		return store.commitStep(step, work)
	case nil:
		return rehearse(step, work)
	default:
		return fmt.Errorf("idem: gormstore.Step: the module's store is a %T; a database step commits with its record, so both "+
			"must be in the same database", store)
	}
}

// rehearse runs a step in a unit test, inside the transaction of WithTx.
func rehearse(step *core.Step, work func(tx *gorm.DB) (any, error)) error {
	tx, ok := TxFrom(step.Context())
	if !ok {
		return fmt.Errorf("idem: gormstore.Step: step %q has no transaction in this unit test; add one with "+
			"gormstore.WithTx", step.Name())
	}
	return tx.Transaction(func(tx *gorm.DB) error { // a savepoint: a step that fails leaves no rows
		_, err := recordOf(step, tx, work)
		return err
	})
}

// recordOf runs work, and returns the record of the step with its result.
func recordOf(step *core.Step, tx *gorm.DB, work func(tx *gorm.DB) (any, error)) (core.StepRecord, error) {
	result, err := work(tx)
	if err != nil {
		return core.StepRecord{}, err
	}
	return step.Record(result)
}

func (s *Store) commitStep(step *core.Step, work func(tx *gorm.DB) (any, error)) error {
	ctx, ticket := step.Context(), step.Ticket()
	if err := s.enterAttempt(ctx); err != nil {
		return err
	}
	t, err := s.beginStep(ctx, ticket, step.Name())
	if err != nil {
		s.leaveAttempt()
		return err
	}
	var record core.StepRecord
	err = t.run(ctx, func(tx *gorm.DB) error {
		record, err = recordOf(step, tx, work)
		return err
	}, func(ctx context.Context) (lastCalls, error) { return t.recordStep(ctx, ticket, record) })
	if errors.Is(err, core.ErrEnded) {
		err = fmt.Errorf("step %q: %w: %w", step.Name(), core.ErrStepUnknown, err)
	}
	return err
}

func (s *Store) beginStep(ctx context.Context, ticket core.Ticket, step string) (*tx, error) {
	own, err := s.pool.Conn(ctx)
	if err != nil {
		return nil, err
	}
	t := s.newTx(own, result{ticket, step})
	if s.dialect == postgres {
		t.mark, err = s.beginGuarded(ctx, own)
	} else {
		err = s.beginStepSQLite(ctx, own, ticket, step)
	}
	if err != nil {
		rollback(own)
		return nil, err
	}
	return t, nil
}

// beginStepSQLite takes the one writer. So it proves the ownership at once: from then on nobody can take over.
func (s *Store) beginStepSQLite(ctx context.Context, conn *sql.Conn, ticket core.Ticket, step string) error {
	if _, err := conn.ExecContext(ctx, s.dialect.begin); err != nil {
		return err
	}
	if n, err := s.exec(ctx, conn, own, ownedBy(ticket)...); err != nil || n == 0 {
		return cmp.Or(err, core.ErrStale)
	}
	_, err := s.exec(ctx, conn, beginDatabaseStep, ticket.ID[:], step, ticket.Fence) // recordStep finishes it
	if err == nil {
		_, err = conn.ExecContext(ctx, "SAVEPOINT "+savepoint)
	}
	return err
}

// recordStep records the step, and returns the last message of its transaction. On PostgreSQL the record takes the
// lock. Only when it has it may COMMIT leave: whoever reads back would otherwise find neither lock nor record while
// both are on their way, and take that for proof.
func (t *tx) recordStep(ctx context.Context, ticket core.Ticket, step core.StepRecord) (lastCalls, error) {
	args := []any{step.Name, step.Result, keys(step.Derived)}
	if t.store.dialect == postgres {
		args = append(append(append(ownedBy(ticket), args...), lockKey(ticket.ID)), t.mark.args()...)
		record, err := t.store.call(ctx, t.conn.sql, recordStep, []any{new(int)}, args...)
		if err != nil {
			return lastCalls{}, err
		}
		last, err := t.restored(ctx)
		if err == nil {
			_, err = t.store.send(ctx, t.conn.sql, record)
		}
		if err = t.noteLast(err); err != nil && !errors.Is(err, core.ErrStale) {
			err = notCommitted(err)
		}
		return last, err
	}
	if err := t.stillOpen(ctx); err != nil {
		return lastCalls{}, err
	}
	n, err := t.store.asOwner(ctx, t.conn.sql, ticket, recordStep, args...)
	switch {
	case err != nil:
		return lastCalls{}, notCommitted(err)
	case n != 1:
		return lastCalls{}, core.ErrStale
	}
	return committing(), nil
}

// result is the entry of a database step: its record, finished.
type result struct {
	ticket core.Ticket
	step   string
}

func (r result) lock() int64 { return lockKey(r.ticket.ID) }

func (r result) trace() (statement, []any) {
	return traceStep, []any{r.ticket.ID[:], r.step, r.ticket.Fence}
}

func (r result) committed(ctx context.Context, s *Store, q querier) (bool, error) {
	step, err := s.stepAt(ctx, q, r.ticket.ID, r.step)
	if errors.Is(err, core.ErrNotFound) {
		return false, nil
	}
	return step.Finished && step.Fence == r.ticket.Fence, err
}

func (r result) touch() (statement, []any) { return touch, []any{r.ticket.ID[:]} }

// lose parks the operation: the step may be done without its record.
func (r result) lose(ctx context.Context, s *Store, q querier, _ time.Duration) error {
	_, err := s.exec(ctx, q, park, ownedBy(r.ticket)...)
	return err
}

func (r result) leave(*Store) {}
