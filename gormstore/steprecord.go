package gormstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/auth19/idem/core/store"
)

// Steps implements [store.Stepper].
func (s *Store) Steps(ctx context.Context, id store.ID) ([]store.StepRecord, error) {
	var steps []store.StepRecord
	err := s.onPool(ctx, func(q querier) error {
		steps = nil
		rows, err := s.query(ctx, q, stepsOf, id[:])
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			step, err := scanStep(rows.Scan)
			if err != nil {
				return err
			}
			steps = append(steps, step)
		}
		return rows.Err()
	})
	return steps, err
}

func (s *Store) stepAt(ctx context.Context, q querier, id store.ID, name string) (store.StepRecord, error) {
	step, err := scanStep(s.queryRow(ctx, q, stepAt, id[:], name).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		err = store.ErrNotFound
	}
	return step, err
}

func scanStep(scan func(...any) error) (store.StepRecord, error) {
	var step store.StepRecord
	var now, started, finished instant
	var kind, state, encoding int16
	var derived []byte
	err := scan(&now, &step.Name, &kind, &state, &step.Fence, &started, &finished, &encoding, &step.Result, &derived)
	if err != nil {
		return store.StepRecord{}, err
	}
	if encoding != plain {
		return store.StepRecord{}, fmt.Errorf("idem: gormstore: a step has the encoding %d of a newer release", encoding)
	}
	step.Kind, step.Finished = store.StepKind(kind), state == 2 //nolint:gosec // written by this package
	step.StartedAt, step.FinishedAt, step.Now = started.Time, finished.Time, now.Time
	for key := range slices.Chunk(derived, len(store.DerivedKey{})) {
		step.Derived = append(step.Derived, store.DerivedKey(key))
	}
	return step, nil
}

// forgetSteps deletes the steps of a record that is about to be taken over as free. A record that is resumed keeps them.
func (s *Store) forgetSteps(ctx context.Context, q querier, rec store.Record) error {
	if rec.Recovery != store.Resume || rec.State() != store.Free {
		return nil
	}
	_, err := s.exec(ctx, q, forgetSteps, rec.ID[:], rec.Fence)
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
