package core

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/auth19/idem/core/internal/attemptctx"
)

// steps are the steps of a Resume attempt, and how far the attempt has come.
type steps struct {
	mu       sync.Mutex
	recorded []StepRecord    // by the attempts before
	names    map[string]bool // of the steps that this attempt has taken
	behind   []StepRecord    // new steps that have failed, as long as no step came after them
	busy     bool            // a step is under way
	optional bool            // the step under way, or the last one, is a call that the operation may end without
	closed   bool            // the attempt has ended

	course
}

// course is what the end of the attempt needs to know about its steps.
type course struct {
	changed    bool // a step differs from those of the attempts before
	leftOut    bool // steps of the attempts before were not reached
	unknown    bool // a step may not be called again
	unfinished bool // a step that is not optional has failed, was refused, or is still under way
	// applied: something may have been applied, in this attempt or in one before. A provider step was started, or a database
	// step has finished or may have finished.
	applied bool
}

// enter admits the next step, and returns it as it was recorded before: with its result, if it is finished.
func (s *steps) enter(name string, kind StepKind, optional bool) (StepRecord, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.refuse(name); err != nil {
		s.unfinished = s.unfinished || !optional
		return StepRecord{}, err
	}
	step, err := s.find(name, kind)
	if err != nil {
		s.changed = true
		return StepRecord{}, err
	}
	if s.names == nil {
		s.names = make(map[string]bool, 4)
	}
	s.names[name] = true
	s.busy, s.optional = true, optional
	return step, nil
}

// refuse returns an error if a step of that name may not begin now.
func (s *steps) refuse(name string) error {
	switch {
	case name == "":
		return errors.New("idem: a step needs a name")
	case len(name) > MaxStepName || !isText(name):
		return fmt.Errorf("idem: step %.40q: a name is valid UTF-8 without NUL, of up to %d bytes", name, MaxStepName)
	case s.closed:
		return fmt.Errorf("idem: step %q: the attempt is over; do not keep the context of a handler beyond its return", name)
	case s.busy:
		return fmt.Errorf("idem: step %q begins while another step is under way; steps follow each other, in one goroutine",
			name)
	case s.names[name]:
		return fmt.Errorf("idem: two steps are called %q; give each its own name", name)
	case s.changed:
		return fmt.Errorf("step %q: %w", name, ErrStepsChanged)
	case s.unknown:
		return fmt.Errorf("step %q: %w", name, ErrStepUnknown)
	}
	return nil
}

// find returns the step as the attempts before have recorded it, or a new one. A new step may not come before a recorded
// one: it could be the recorded step under a new name, and its effect would happen twice.
func (s *steps) find(name string, kind StepKind) (StepRecord, error) {
	for _, before := range s.recorded {
		switch {
		case before.Name != name:
		case before.Kind != kind:
			return StepRecord{}, fmt.Errorf("step %q was a %s before: %w", name, before.Kind, ErrStepsChanged)
		default:
			return before, nil
		}
	}
	if i := slices.IndexFunc(s.recorded, s.ahead); i >= 0 {
		return StepRecord{}, fmt.Errorf("step %q is new, and %q is still to come: %w", name, s.recorded[i].Name, ErrStepsChanged)
	}
	return StepRecord{Name: name, Kind: kind}, nil
}

// ahead reports whether a recorded step has not been reached in this attempt.
func (s *steps) ahead(before StepRecord) bool { return !s.names[before.Name] }

// leave notes how a step ended.
func (s *steps) leave(step StepRecord, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = false
	if step.Kind == ProviderStep || step.Finished || errors.Is(err, ErrUnconfirmed) {
		s.applied = true
	}
	switch {
	case err == nil:
	case errors.Is(err, ErrStepsChanged):
		s.changed = true
	case errors.Is(err, ErrStepUnknown):
		s.unknown = s.unknown || !s.optional
	default:
		s.unfinished = s.unfinished || !s.optional
		if step.Fence == 0 {
			s.behind = append(s.behind, step)
		}
	}
}

// close admits no more steps, and returns what happened to the steps.
func (s *steps) close() course {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	c := s.course
	c.unfinished = c.unfinished || s.busy && !s.optional
	c.applied = c.applied || s.busy ||
		slices.ContainsFunc(s.recorded, func(r StepRecord) bool { return r.Kind == ProviderStep || r.Finished })
	c.leftOut = slices.ContainsFunc(s.recorded, s.ahead)
	return c
}

// rehearsed returns the steps of the attempt that a unit test simulates.
func rehearsed(inside *attemptctx.View) *steps {
	r := inside.Rehearsal
	r.Lock()
	defer r.Unlock()
	if inside.Steps == nil {
		kept, _ := r.Kept.([]StepRecord)
		inside.Steps = &steps{recorded: slices.Clone(kept)}
	}
	return inside.Steps.(*steps)
}

// keep keeps a step for the next attempt of a unit test.
func (p place) keep(step StepRecord) {
	if r := p.rehearsal; r != nil {
		r.Lock()
		defer r.Unlock()
		kept, _ := r.Kept.([]StepRecord)
		kept = slices.DeleteFunc(slices.Clone(kept), func(before StepRecord) bool { return before.Name == step.Name })
		kept = append(kept, step)
		r.Kept = kept
	}
}
