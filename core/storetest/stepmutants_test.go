package storetest_test

import (
	"context"
	"slices"
	"sync"

	"github.com/auth19/idem/core"
)

// The mutants of a core.Stepper.
var stepMutants = map[string]mutantOf[core.Stepper, core.Stepper]{
	"starts a step anew":          {"Step/FirstStartStands", func(s core.Stepper) core.Stepper { return startsAnew{s} }},
	"tells no clock":              {"Step/FirstStartStands", func(s core.Stepper) core.Stepper { return tellsNoClock{s} }},
	"tells when it last finished": {"Step/Times", func(s core.Stepper) core.Stepper { return finishedNow{s} }},
	"takes the last result":       {"Step/FirstResultStands", func(s core.Stepper) core.Stepper { return &lastResult{Stepper: s} }},
	"forgets derived keys":        {"Step/DerivedKeys", func(s core.Stepper) core.Stepper { return losesKeys{Stepper: s} }},
	"mixes steps up":              {"Step/Changed", func(s core.Stepper) core.Stepper { return mixesUp{s} }},
	"writes for stale attempts":   {"Step/Stale", func(s core.Stepper) core.Stepper { return anyAttempt{s} }},
	"wants steps to be in time":   {"Step/Late", func(s core.Stepper) core.Stepper { return punctualSteps{s} }},
	"lists steps as they came":    {"Step/InOrder", func(s core.Stepper) core.Stepper { return unordered{s} }},
	"keeps steps of a free key":   {"Step/OfAnotherLife", func(s core.Stepper) core.Stepper { return &neverForgets{Stepper: s} }},
	"keeps steps for ever":        {"Step/Swept", func(s core.Stepper) core.Stepper { return &neverForgets{Stepper: s} }},
	"finishes what was never":     {"Step/NotFound", func(s core.Stepper) core.Stepper { return finishesAnything{s} }},
	"takes steps regardless":      {"Step/Cancelled", func(s core.Stepper) core.Stepper { return heedlessSteps{s} }},

	"takes lost for half-done": {"Step/HalfDone", func(s core.Stepper) core.Stepper { return impatient{s} }},
	"lists no half-done":       {"Step/HalfDone", func(s core.Stepper) core.Stepper { return listsNone{s} }},
	"counts by the fence":      {"Step/Attempts", func(s core.Stepper) core.Stepper { return countsFences{s} }},

	"keeps steps of a free key, under stress": {"Stress", func(s core.Stepper) core.Stepper { return &neverForgets{Stepper: s} }},
	"takes the last result, under stress":     {"Stress", func(s core.Stepper) core.Stepper { return &lastResult{Stepper: s} }},
}

// startsAnew treats every start as the first.
type startsAnew struct{ core.Stepper }

func (s startsAnew) StartStep(ctx context.Context, t core.Ticket, step core.StepRecord) (core.StepRecord, error) {
	started, err := s.Stepper.StartStep(ctx, t, step)
	started.Fence = t.Fence
	return started, err
}

type tellsNoClock struct{ core.Stepper }

func (s tellsNoClock) StartStep(ctx context.Context, t core.Ticket, step core.StepRecord) (core.StepRecord, error) {
	started, err := s.Stepper.StartStep(ctx, t, step)
	started.Now = started.StartedAt
	return started, err
}

// finishedNow takes every finish for the first.
type finishedNow struct{ core.Stepper }

func (s finishedNow) Steps(ctx context.Context, id core.ID) ([]core.StepRecord, error) {
	steps, err := s.Stepper.Steps(ctx, id)
	for i := range steps {
		if steps[i].Finished {
			steps[i].FinishedAt = steps[i].Now
		}
	}
	return steps, err
}

// lastResult forgets the result of a step when it is finished again.
type lastResult struct {
	core.Stepper
	mu   sync.Mutex
	last map[core.ID][]byte
}

type losesKeys struct{ core.Stepper }

func (s losesKeys) FinishStep(ctx context.Context, t core.Ticket, step core.StepRecord) error {
	step.Derived = nil
	return s.Stepper.FinishStep(ctx, t, step)
}

func (s *lastResult) FinishStep(ctx context.Context, t core.Ticket, step core.StepRecord) error {
	err := s.Stepper.FinishStep(ctx, t, step)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		s.last = map[core.ID][]byte{}
	}
	if err == nil {
		s.last[t.ID] = step.Result
	}
	return err
}

func (s *lastResult) StartStep(ctx context.Context, t core.Ticket, step core.StepRecord) (core.StepRecord, error) {
	started, err := s.Stepper.StartStep(ctx, t, step)
	started.Finished = false // so that a worker finishes it again
	return started, err
}

func (s *lastResult) Steps(ctx context.Context, id core.ID) ([]core.StepRecord, error) {
	steps, err := s.Stepper.Steps(ctx, id)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range steps {
		if last, ok := s.last[id]; ok {
			steps[i].Result = last
		}
	}
	return steps, err
}

type mixesUp struct{ core.Stepper }

func (s mixesUp) StartStep(ctx context.Context, t core.Ticket, step core.StepRecord) (core.StepRecord, error) {
	steps, err := s.Steps(ctx, t.ID)
	for _, there := range steps {
		if err == nil && there.Name == step.Name {
			step.Kind = there.Kind
		}
	}
	return s.Stepper.StartStep(ctx, t, step)
}

// anyAttempt writes for any ticket, as if its holder was the owner.
type anyAttempt struct{ core.Stepper }

func (s anyAttempt) FinishStep(ctx context.Context, t core.Ticket, step core.StepRecord) error {
	if r, err := s.Find(ctx, t.ID); err == nil {
		t = r.Ticket
	}
	return s.Stepper.FinishStep(ctx, t, step)
}

type punctualSteps struct{ core.Stepper }

func (s punctualSteps) FinishStep(ctx context.Context, t core.Ticket, step core.StepRecord) error {
	if r, err := s.Find(ctx, t.ID); err == nil && r.LeaseExpired() {
		return core.ErrStale
	}
	return s.Stepper.FinishStep(ctx, t, step)
}

type unordered struct{ core.Stepper }

func (s unordered) Steps(ctx context.Context, id core.ID) ([]core.StepRecord, error) {
	steps, err := s.Stepper.Steps(ctx, id)
	slices.Reverse(steps)
	return steps, err
}

// neverForgets keeps the steps of a key when the key is freed.
type neverForgets struct {
	core.Stepper
	mu   sync.Mutex
	kept map[core.ID]core.StepRecord
}

func (s *neverForgets) StartStep(ctx context.Context, t core.Ticket, step core.StepRecord) (core.StepRecord, error) {
	started, err := s.Stepper.StartStep(ctx, t, step)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept == nil {
		s.kept = map[core.ID]core.StepRecord{}
	}
	if there, ok := s.kept[t.ID]; err == nil && step.Name == "charge" && ok {
		there.Now = started.Now
		return there, nil
	}
	if err == nil && step.Name == "charge" {
		s.kept[t.ID] = started
	}
	return started, err
}

func (s *neverForgets) Steps(ctx context.Context, id core.ID) ([]core.StepRecord, error) {
	steps, err := s.Stepper.Steps(ctx, id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if there, ok := s.kept[id]; ok && len(steps) == 0 {
		return []core.StepRecord{there}, err
	}
	return steps, err
}

type finishesAnything struct{ core.Stepper }

func (s finishesAnything) FinishStep(ctx context.Context, t core.Ticket, step core.StepRecord) error {
	if _, err := s.StartStep(ctx, t, step); err != nil {
		return err
	}
	return s.Stepper.FinishStep(ctx, t, step)
}

type impatient struct{ core.Stepper }

func (s impatient) HalfDone(ctx context.Context, within []byte, after core.ID, limit int) ([]core.Record, error) {
	return s.Resumable(ctx, within, after, limit)
}

type listsNone struct{ core.Stepper }

func (s listsNone) HalfDone(ctx context.Context, _ []byte, _ core.ID, _ int) ([]core.Record, error) {
	return nil, ctx.Err()
}

type countsFences struct{ core.Stepper }

func (s countsFences) Claim(ctx context.Context, c core.Claim) (core.Claimed, error) {
	claimed, err := s.Stepper.Claim(ctx, c)
	claimed.Record.Attempts = int(claimed.Record.Fence)
	return claimed, err
}

type heedlessSteps struct{ core.Stepper }

func (s heedlessSteps) StartStep(ctx context.Context, t core.Ticket, step core.StepRecord) (core.StepRecord, error) {
	return s.Stepper.StartStep(context.WithoutCancel(ctx), t, step)
}
