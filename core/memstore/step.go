package memstore

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/auth19/idem/core/store"
)

// Steps implements [store.Attempts].
func (s *Store) Steps(ctx context.Context, id store.ID) ([]store.StepRecord, error) {
	if err := alive(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.records[id]
	if e == nil {
		return nil, nil
	}
	now := s.now()
	steps := make([]store.StepRecord, 0, len(e.steps))
	for _, step := range e.steps {
		steps = append(steps, readStep(step, now))
	}
	slices.SortFunc(steps, func(a, b store.StepRecord) int {
		return cmp.Or(a.StartedAt.Compare(b.StartedAt), cmp.Compare(a.Name, b.Name))
	})
	return steps, nil
}

// step returns where the step of a name is, -1 where there is none.
func (e *entry) step(name string) int {
	return slices.IndexFunc(e.steps, func(s store.StepRecord) bool { return s.Name == name })
}

func readStep(step store.StepRecord, now time.Time) store.StepRecord {
	step.Result, step.Derived, step.Now = bytes.Clone(step.Result), slices.Clone(step.Derived), now
	return step
}
