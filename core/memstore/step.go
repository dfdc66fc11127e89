package memstore

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/auth19/idem/core"
)

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

// step returns where the step of a name is, -1 where there is none.
func (e *entry) step(name string) int {
	return slices.IndexFunc(e.steps, func(s core.StepRecord) bool { return s.Name == name })
}

func readStep(step core.StepRecord, now time.Time) core.StepRecord {
	step.Result, step.Derived, step.Now = bytes.Clone(step.Result), slices.Clone(step.Derived), now
	return step
}
