package gormstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/auth19/idem/core"
)

// asOwner runs a statement of a step together with the proof of ownership. It returns how many rows the statement changed: 0
// as well if t does not own the record any more.
func (s *Store) asOwner(ctx context.Context, q querier, t core.Ticket, name statement, args ...any) (int64, error) {
	args = append(ownedBy(t), args...)
	if s.dialect == postgres {
		return s.exec(ctx, q, name, args...)
	}
	if n, err := s.exec(ctx, q, own, ownedBy(t)...); err != nil || n == 0 {
		return 0, err
	}
	return s.exec(ctx, q, name, args...)
}

// stepWrite runs a statement of a provider step: one statement on PostgreSQL, a transaction on SQLite.
func (s *Store) stepWrite(ctx context.Context, fn func(q querier) error) error {
	if s.dialect == postgres {
		return s.write(ctx, fn)
	}
	return s.inTx(ctx, fn)
}

// StartStep implements [core.Stepper].
func (s *Store) StartStep(ctx context.Context, t core.Ticket, step core.StepRecord) (core.StepRecord, error) {
	var started core.StepRecord
	err := s.stepWrite(ctx, func(q querier) error {
		n, err := s.asOwner(ctx, q, t, startStep, step.Name, int64(step.Kind))
		if err != nil {
			return err
		}
		if n == 1 {
			// The step has just started: nobody asks for its window or its result.
			started = step
			started.Fence = t.Fence
			return nil
		}
		if err := s.mustOwn(ctx, q, t); err != nil {
			return err
		}
		started, err = s.stepAt(ctx, q, t.ID, step.Name)
		if err == nil && started.Kind != step.Kind {
			return core.ErrStepsChanged
		}
		return err
	})
	return started, err
}

// FinishStep implements [core.Stepper].
func (s *Store) FinishStep(ctx context.Context, t core.Ticket, step core.StepRecord) error {
	return s.stepWrite(ctx, func(q querier) error {
		n, err := s.asOwner(ctx, q, t, finishStep, step.Name, step.Result, keys(step.Derived))
		if err != nil || n == 1 {
			return err
		}
		if err := s.mustOwn(ctx, q, t); err != nil {
			return err
		}
		there, err := s.stepAt(ctx, q, t.ID, step.Name)
		if err == nil && !there.Finished {
			err = core.ErrStale // taken over and given back in between
		}
		return err
	})
}

// mustOwn returns ErrStale unless t is current.
func (s *Store) mustOwn(ctx context.Context, q querier, t core.Ticket) error {
	rec, err := s.find(ctx, q, t.ID)
	switch {
	case errors.Is(err, core.ErrNotFound):
		return core.ErrStale
	case err != nil:
		return err
	case rec.Ticket != t || rec.Stored != core.Running:
		return core.ErrStale
	}
	return nil
}

// Steps implements [core.Stepper].
func (s *Store) Steps(ctx context.Context, id core.ID) ([]core.StepRecord, error) {
	var steps []core.StepRecord
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

func (s *Store) stepAt(ctx context.Context, q querier, id core.ID, name string) (core.StepRecord, error) {
	step, err := scanStep(s.queryRow(ctx, q, stepAt, id[:], name).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		err = core.ErrNotFound
	}
	return step, err
}

func scanStep(scan func(...any) error) (core.StepRecord, error) {
	var step core.StepRecord
	var now, started, finished instant
	var kind, state, encoding int16
	var derived []byte
	err := scan(&now, &step.Name, &kind, &state, &step.Fence, &started, &finished, &encoding, &step.Result, &derived)
	if err != nil {
		return core.StepRecord{}, err
	}
	if encoding != plain {
		return core.StepRecord{}, fmt.Errorf("idem: gormstore: a step has the encoding %d of a newer release", encoding)
	}
	step.Kind, step.Finished = core.StepKind(kind), state == 2 //nolint:gosec // written by this package
	step.StartedAt, step.FinishedAt, step.Now = started.Time, finished.Time, now.Time
	for key := range slices.Chunk(derived, len(core.DerivedKey{})) {
		step.Derived = append(step.Derived, core.DerivedKey(key))
	}
	return step, nil
}

// forgetSteps deletes the steps of a record that is about to be taken over as free. A record that is resumed keeps them.
func (s *Store) forgetSteps(ctx context.Context, q querier, rec core.Record) error {
	if rec.Recovery != core.Resume || rec.State() != core.Free {
		return nil
	}
	_, err := s.exec(ctx, q, forgetSteps, rec.ID[:], rec.Fence)
	return err
}

// keys returns derived keys as they are stored: one after the other, NULL where there are none.
func keys(derived []core.DerivedKey) []byte {
	var joined []byte
	for _, key := range derived {
		joined = append(joined, key[:]...)
	}
	return joined
}
