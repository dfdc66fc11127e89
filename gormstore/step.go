package gormstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// Step is [core.Step] with the transaction in which fn writes: rows of the app's database, as a step of a Resume attempt.
// The rows, the step's record and its result become durable together, with the next core.Call, core.Checkpoint or answer
//
// Later attempts get the recorded result without running fn.
//
// After an error of fn, or on PostgreSQL of a statement in it, nothing commits that was written since the last call or
// checkpoint: return the error, or answer with 5xx. A business refusal is a result. The errors are those of
// core.Step.
func Step[T any](ctx context.Context, name string, fn func(tx *gorm.DB) (T, error)) (T, error) {
	return core.Step(ctx, name, func(ctx context.Context) (result T, err error) {
		tx, ok := TxFrom(ctx)
		if !ok {
			return result, fmt.Errorf("idem: gormstore.Step: step %q has no transaction: the module's store is none of "+
				"gormstore; or, in a unit test, add one with gormstore.WithTx", name)
		}
		if b := txn.BindingFrom(ctx); b == nil || b.Tx != nil {
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

// Steps implements [store.Attempts].
func (s *Store) Steps(ctx context.Context, id store.ID) ([]store.StepRecord, error) {
	var steps []store.StepRecord
	err := s.db.OnPool(ctx, func(q txn.Querier) (err error) {
		steps, err = s.steps(ctx, q, id)
		return err
	})
	return steps, err
}

func (s *Store) steps(ctx context.Context, q txn.Querier, id store.ID) (steps []store.StepRecord, err error) {
	open, cancel := opening(ctx)
	defer cancel()
	err = s.db.Each(ctx, q, stepsOf, func(scan func(...any) error) error {
		step, err := s.scanStep(open, id, scan)
		steps = append(steps, step)
		return err
	}, id[:])
	return steps, err
}

func (s *Store) stepAt(ctx context.Context, q txn.Querier, id store.ID, name string) (store.StepRecord, error) {
	step, err := s.scanStep(ctx, id, s.db.QueryRow(ctx, q, stepAt, id[:], name).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		err = store.ErrNotFound
	}
	return step, err
}

func (s *Store) scanStep(ctx context.Context, id store.ID, scan func(...any) error) (store.StepRecord, error) {
	var step store.StepRecord
	var now, started int64
	var finished pgtype.Int8
	var kind, state, encoding int16
	var derived []byte
	err := scan(&now, &step.Name, &kind, &state, &step.Fence, &started, &finished, &encoding, &step.Result, &derived)
	if err != nil {
		return store.StepRecord{}, err
	}
	if started == now+1 { // SQLite's clock counts milliseconds, and the second step of a statement starts a microsecond later
		now = started
	}
	step.Kind, step.Finished = store.StepKind(kind), state == 2 //nolint:gosec // written by this package
	step.StartedAt, step.FinishedAt, step.Now = time.UnixMicro(started), txn.Time(finished), time.UnixMicro(now)
	if step.Finished {
		step.Result, step.Unread = s.sealer.open(ctx, encoding, step.Result, stepData(id, step.Kind, step.Name))
	}
	for key := range slices.Chunk(derived, len(store.DerivedKey{})) {
		step.Derived = append(step.Derived, store.DerivedKey(key))
	}
	return step, nil
}

// forgetSteps deletes the steps of a record that owner is about to take over as free. A record that is resumed keeps them.
func (s *Store) forgetSteps(ctx context.Context, q txn.Querier, rec store.Record, owner store.Owner) error {
	if rec.Recovery != store.Resume || rec.State() != store.Free {
		return nil
	}
	_, err := s.db.Exec(ctx, q, forgetSteps, rec.ID[:], rec.Fence+1, owner[:])
	return err
}

// keys returns derived keys as they are stored: one after the other, NULL where there are none.
func keys(derived []store.DerivedKey) []byte {
	var joined []byte
	for _, key := range derived {
		joined = append(joined, key[:]...)
	}
	return joined
}
