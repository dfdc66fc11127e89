package memstore

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/auth19/idem/core"
)

var _ core.Stepper = (*Store)(nil)

// Steps implements [core.Stepper].
func (s *Store) Steps(ctx context.Context, id core.ID) ([]core.StepRecord, error) {
	if err := alive(ctx); err != nil {
		return nil, err
	}
	sh := s.shard(id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := sh.records[id]
	if e == nil {
		return nil, nil
	}
	now := s.now()
	steps := make([]core.StepRecord, 0, len(e.steps))
	for _, step := range e.steps {
		steps = append(steps, readStep(step, now))
	}
	return steps, nil
}

// StartStep implements [core.Stepper].
func (s *Store) StartStep(ctx context.Context, t core.Ticket, step core.StepRecord) (core.StepRecord, error) {
	var started core.StepRecord
	err := s.writeStep(ctx, t, func(e *entry, now time.Time) error {
		at, there := e.step(step.Seq)
		if !there {
			e.steps = slices.Insert(e.steps, at, core.StepRecord{
				Seq: step.Seq, Name: step.Name, Kind: step.Kind, Fence: t.Fence, StartedAt: now,
			})
		}
		if found := e.steps[at]; found.Name != step.Name || found.Kind != step.Kind {
			return core.ErrStepsChanged
		}
		started = readStep(e.steps[at], now)
		return nil
	})
	return started, err
}

// FinishStep implements [core.Stepper].
func (s *Store) FinishStep(ctx context.Context, t core.Ticket, step core.StepRecord) error {
	return s.writeStep(ctx, t, func(e *entry, _ time.Time) error {
		at, there := e.step(step.Seq)
		switch {
		case !there:
			return core.ErrNotFound
		case !e.steps[at].Finished:
			e.steps[at].Finished, e.steps[at].Result = true, bytes.Clone(step.Result)
		}
		return nil
	})
}

// writeStep is write for a step: only while the attempt runs.
func (s *Store) writeStep(ctx context.Context, t core.Ticket, do func(*entry, time.Time) error) error {
	return s.write(ctx, t, func(_ *shard, e *entry, now time.Time) error {
		if e.Stored != core.Running {
			return core.ErrStale
		}
		return do(e, now)
	})
}

// step returns where the step of a place is, or would be.
func (e *entry) step(seq int) (int, bool) {
	return slices.BinarySearchFunc(e.steps, seq, func(s core.StepRecord, seq int) int { return cmp.Compare(s.Seq, seq) })
}

func readStep(step core.StepRecord, now time.Time) core.StepRecord {
	step.Result, step.Now = bytes.Clone(step.Result), now
	return step
}
