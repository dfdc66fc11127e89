package storetest_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/auth19/idem/core/store"
)

// The mutants of a store.Stepper.
var stepMutants = map[string]mutantOf[store.Stepper, store.Stepper]{
	"starts a step anew":          {"Step/FirstStartStands", func(s store.Stepper) store.Stepper { return startsAnew{s} }},
	"tells no clock":              {"Step/FirstStartStands", func(s store.Stepper) store.Stepper { return tellsNoClock{s} }},
	"tells when it last finished": {"Step/Times", func(s store.Stepper) store.Stepper { return finishedNow{s} }},
	"takes the last result":       {"Step/FirstResultStands", newLastResult},
	"forgets derived keys":        {"Step/DerivedKeys", func(s store.Stepper) store.Stepper { return onSeal{s, losesKeys} }},
	"writes for stale attempts":   {"Step/Stale", func(s store.Stepper) store.Stepper { return onSeal{s, confirmsStale} }},
	"wants steps to be in time":   {"Step/Late", newPunctualSteps},
	"lists steps as they came":    {"Step/InOrder", func(s store.Stepper) store.Stepper { return unordered{s} }},
	"keeps steps of a free key":   {"Step/OfAnotherLife", func(s store.Stepper) store.Stepper { return &neverForgets{Stepper: s} }},
	"keeps steps for ever":        {"Step/Swept", func(s store.Stepper) store.Stepper { return &neverForgets{Stepper: s} }},
	"takes steps regardless":      {"Step/Cancelled", func(s store.Stepper) store.Stepper { return heedlessSteps{s} }},

	"takes lost for half-done": {"List/States", func(s store.Stepper) store.Stepper { return impatient{s} }},
	"lists no half-done":       {"List/States", func(s store.Stepper) store.Stepper { return listsNone{s} }},
	"counts by the fence":      {"Step/Attempts", func(s store.Stepper) store.Stepper { return countsFences{s} }},

	"keeps steps of a free key, under stress": {"Stress", func(s store.Stepper) store.Stepper { return &neverForgets{Stepper: s} }},
	"takes the last result, under stress":     {"Stress", newLastResult},
}

// onSeal makes a mutant of its segments' Seal.
type onSeal struct {
	store.Stepper
	seal func(ctx context.Context, c store.Claim, of store.Segments, s store.Seal) (time.Time, error)
}

func (s onSeal) Resume(ctx context.Context, c store.Claim) (store.Segments, store.Claimed, error) {
	segments, got, err := s.Stepper.Resume(ctx, c)
	if segments == nil {
		return nil, got, err
	}
	return faultySeal{segments, func(ctx context.Context, seal store.Seal) (time.Time, error) {
		return s.seal(ctx, c, segments, seal)
	}}, got, err
}

type faultySeal struct {
	store.Segments
	seal func(context.Context, store.Seal) (time.Time, error)
}

func (s faultySeal) Seal(ctx context.Context, seal store.Seal) (time.Time, error) {
	return s.seal(ctx, seal)
}

// startsAnew treats every start as the first.
type startsAnew struct{ store.Stepper }

func (s startsAnew) Steps(ctx context.Context, id store.ID) ([]store.StepRecord, error) {
	steps, err := s.Stepper.Steps(ctx, id)
	r, _ := s.Find(ctx, id)
	for i := range steps {
		steps[i].Fence = r.Fence
	}
	return steps, err
}

type tellsNoClock struct{ store.Stepper }

func (s tellsNoClock) Steps(ctx context.Context, id store.ID) ([]store.StepRecord, error) {
	steps, err := s.Stepper.Steps(ctx, id)
	for i := range steps {
		steps[i].Now = steps[i].StartedAt
	}
	return steps, err
}

// finishedNow takes every finish for the first.
type finishedNow struct{ store.Stepper }

func (s finishedNow) Steps(ctx context.Context, id store.ID) ([]store.StepRecord, error) {
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
	onSeal
	last sync.Map
}

func newLastResult(sound store.Stepper) store.Stepper {
	s := &lastResult{}
	s.onSeal = onSeal{sound, func(ctx context.Context, c store.Claim, of store.Segments, seal store.Seal) (time.Time, error) {
		now, err := of.Seal(ctx, seal)
		if err == nil && len(seal.Steps) > 0 {
			s.last.Store(c.ID, seal.Steps[0].Result)
		}
		return now, err
	}}
	return s
}

func (s *lastResult) Steps(ctx context.Context, id store.ID) ([]store.StepRecord, error) {
	steps, err := s.Stepper.Steps(ctx, id)
	last, ok := s.last.Load(id)
	for i := range steps {
		if ok && steps[i].Finished {
			steps[i].Result = last.([]byte)
		}
	}
	return steps, err
}

func losesKeys(ctx context.Context, _ store.Claim, of store.Segments, seal store.Seal) (time.Time, error) {
	for i := range seal.Steps {
		seal.Steps[i].Derived = nil
	}
	return of.Seal(ctx, seal)
}

// confirmsStale tells a stale attempt that its steps are recorded.
func confirmsStale(ctx context.Context, _ store.Claim, of store.Segments, seal store.Seal) (time.Time, error) {
	now, err := of.Seal(ctx, seal)
	if errors.Is(err, store.ErrStale) && seal.Answer == nil {
		err = nil
	}
	return now, err
}

func newPunctualSteps(sound store.Stepper) store.Stepper {
	return onSeal{sound, func(ctx context.Context, c store.Claim, of store.Segments, seal store.Seal) (time.Time, error) {
		if r, err := sound.Find(ctx, c.ID); err == nil && r.LeaseExpired() {
			return time.Time{}, store.ErrStale
		}
		return of.Seal(ctx, seal)
	}}
}

type unordered struct{ store.Stepper }

func (s unordered) Steps(ctx context.Context, id store.ID) ([]store.StepRecord, error) {
	steps, err := s.Stepper.Steps(ctx, id)
	slices.Reverse(steps)
	return steps, err
}

// neverForgets keeps a step of a key when the key is freed.
type neverForgets struct {
	store.Stepper
	kept sync.Map
}

func (s *neverForgets) Steps(ctx context.Context, id store.ID) ([]store.StepRecord, error) {
	steps, err := s.Stepper.Steps(ctx, id)
	if len(steps) > 0 {
		s.kept.LoadOrStore(id, steps[0])
	}
	if there, ok := s.kept.Load(id); ok {
		return []store.StepRecord{there.(store.StepRecord)}, err
	}
	return steps, err
}

type impatient struct{ store.Stepper }

func (s impatient) List(ctx context.Context, q store.Query) ([]store.Record, error) {
	q.Resumable = q.Resumable || q.HalfDone
	return s.Stepper.List(ctx, q)
}

type listsNone struct{ store.Stepper }

func (s listsNone) List(ctx context.Context, q store.Query) ([]store.Record, error) {
	q.HalfDone = false
	return s.Stepper.List(ctx, q)
}

type countsFences struct{ store.Stepper }

func (s countsFences) Resume(ctx context.Context, c store.Claim) (store.Segments, store.Claimed, error) {
	segments, claimed, err := s.Stepper.Resume(ctx, c)
	claimed.Record.Attempts = int(claimed.Record.Fence)
	return segments, claimed, err
}

type heedlessSteps struct{ store.Stepper }

func (s heedlessSteps) Steps(ctx context.Context, id store.ID) ([]store.StepRecord, error) {
	return s.Stepper.Steps(context.WithoutCancel(ctx), id)
}
