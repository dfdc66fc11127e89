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
	slices.SortFunc(steps, func(a, b core.StepRecord) int {
		return cmp.Or(a.StartedAt.Compare(b.StartedAt), cmp.Compare(a.Name, b.Name))
	})
	return steps, nil
}

// StartStep implements [core.Stepper].
func (s *Store) StartStep(ctx context.Context, t core.Ticket, step core.StepRecord) (core.StepRecord, error) {
	var started core.StepRecord
	err := s.writeStep(ctx, t, func(e *entry, now time.Time) error {
		at := e.step(step.Name)
		if at < 0 {
			at = len(e.steps)
			e.steps = append(e.steps, core.StepRecord{Name: step.Name, Kind: step.Kind, Fence: t.Fence, StartedAt: now})
		}
		if e.steps[at].Kind != step.Kind {
			return core.ErrStepsChanged
		}
		started = readStep(e.steps[at], now)
		return nil
	})
	return started, err
}

// FinishStep implements [core.Stepper].
func (s *Store) FinishStep(ctx context.Context, t core.Ticket, step core.StepRecord) error {
	return s.writeStep(ctx, t, func(e *entry, now time.Time) error {
		at := e.step(step.Name)
		switch {
		case at < 0:
			return core.ErrNotFound
		case !e.steps[at].Finished:
			e.steps[at].Finished, e.steps[at].Result = true, bytes.Clone(step.Result)
			e.steps[at].Derived, e.steps[at].FinishedAt = slices.Clone(step.Derived), now
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

// step returns where the step of a name is, -1 where there is none.
func (e *entry) step(name string) int {
	return slices.IndexFunc(e.steps, func(s core.StepRecord) bool { return s.Name == name })
}

func readStep(step core.StepRecord, now time.Time) core.StepRecord {
	step.Result, step.Derived, step.Now = bytes.Clone(step.Result), slices.Clone(step.Derived), now
	return step
}
