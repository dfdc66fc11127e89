package core

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/auth19/idem/core/internal/attemptctx"
)

// steps is where a Resume attempt is in its sequence.
type steps struct {
	mu       sync.Mutex
	recorded []StepRecord // by the attempts before, in their order; places may be left out
	next     int
	names    map[string]bool
	busy     bool // a step is under way
	ended    bool // the attempt has ended

	course
}

// course is what the end of the attempt asks of its steps.
type course struct {
	changed          bool // a step was not that of the attempt before
	leftOut          bool // steps of the attempt before were not reached
	unknown          bool // a step may not be called again
	unfinished       bool // a step has failed, or is still under way
	providerFinished bool // a provider step has a result
	calledBefore     bool // an unfinished provider step was called by an attempt before too
}

// enter admits the next step, and returns it as it was recorded before: with its result, if it is finished.
func (s *steps) enter(name string, kind StepKind) (StepRecord, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case name == "":
		return StepRecord{}, errors.New("idem: a step needs a name")
	case s.ended:
		return StepRecord{}, fmt.Errorf("idem: step %q: the attempt is over; do not keep the context of a handler beyond "+
			"its return", name)
	case s.busy:
		return StepRecord{}, fmt.Errorf("idem: step %q begins while another step is under way; steps follow each other, in "+
			"one goroutine", name)
	case s.names[name]:
		return StepRecord{}, fmt.Errorf("idem: two steps are called %q; give each its own name", name)
	case s.changed:
		return StepRecord{}, fmt.Errorf("step %q: %w", name, ErrStepsChanged)
	case s.unknown:
		return StepRecord{}, fmt.Errorf("step %q: %w", name, ErrStepUnknown)
	}
	step := StepRecord{Seq: s.next, Name: name, Kind: kind}
	if i := slices.IndexFunc(s.recorded, func(r StepRecord) bool { return r.Seq == s.next }); i >= 0 {
		before := s.recorded[i]
		if before.Name != name || before.Kind != kind {
			s.changed = true
			return StepRecord{}, fmt.Errorf("step %q, where %q was: %w", name, before.Name, ErrStepsChanged)
		}
		step = before
	}
	if s.names == nil {
		s.names = make(map[string]bool, 4)
	}
	s.names[name] = true
	s.next++
	s.busy = true
	return step, nil
}

// leave notes how a step ended.
func (s *steps) leave(step StepRecord, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = false
	if step.Kind == ProviderStep && step.Finished {
		s.providerFinished = true
	}
	switch {
	case err == nil:
	case errors.Is(err, ErrStepsChanged):
		s.changed = true
	case errors.Is(err, ErrStepUnknown):
		s.unknown = true
	default:
		s.unfinished = true
		s.calledBefore = s.calledBefore || step.Kind == ProviderStep && step.Fence != 0
	}
}

// end admits no more steps, and tells what became of those there were.
func (s *steps) end() course {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	c := s.course
	c.unfinished = c.unfinished || s.busy
	c.leftOut = slices.ContainsFunc(s.recorded, func(r StepRecord) bool { return r.Seq >= s.next })
	return c
}

// rehearsed returns the steps of the attempt that a unit test stands for.
func rehearsed(inside *attemptctx.Attempt) *steps {
	r := inside.Rehearsal
	r.Lock()
	defer r.Unlock()
	if inside.Steps == nil {
		finished, _ := r.Finished.([]StepRecord)
		inside.Steps = &steps{recorded: slices.Clone(finished)}
	}
	return inside.Steps.(*steps)
}

// keep keeps a finished step for the next attempt of a unit test.
func (p place) keep(step StepRecord) {
	if r := p.rehearsal; r != nil {
		r.Lock()
		defer r.Unlock()
		finished, _ := r.Finished.([]StepRecord)
		r.Finished = append(slices.Clone(finished), step)
	}
}
