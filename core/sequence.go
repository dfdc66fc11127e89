package core

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/auth19/idem/core/internal/attemptctx"
	"github.com/auth19/idem/core/internal/text"
	"github.com/auth19/idem/core/store"
)

// steps are the steps of a Resume attempt, and how far the attempt has come.
type steps struct {
	segments store.Attempt // nil in a unit test

	mu       sync.Mutex
	recorded []store.StepRecord // by the attempts before
	read     time.Time          // when they were read
	names    map[string]bool    // of the steps that this attempt has taken
	pending  []store.StepRecord // finished, and not durable yet
	busy     store.StepKind     // of the step that is under way; 0 if none is
	optional bool               // the step under way, or the last one, is a call that the operation may end without
	closed   bool               // the attempt has ended
	opened   time.Time          // when the open segment was opened; zero if none is open

	progress
}

// progress is what the end of the attempt needs to know about its steps.
type progress struct {
	changed    bool  // a step differs from those of the attempts before
	leftOut    bool  // steps of the attempts before were not reached
	unknown    bool  // a step may not be called again
	unfinished bool  // a step that is not optional has failed, was refused, or is still under way
	committed  bool  // a segment has committed, in this attempt or in one before
	lost       error // why the open segment, or the one that was to be sealed last, cannot commit; nil if it can
	seal       error // how the last seal has failed; nil if it has not
}

// enter admits the next step, and returns it as it was recorded before: with its result, if it is finished.
func (s *steps) enter(name string, kind store.StepKind, optional bool) (store.StepRecord, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.mayEnter(name)
	var step store.StepRecord
	if err == nil {
		step, err = s.recordedAs(name, kind)
	}
	if err != nil {
		s.failed(kind, optional, err)
		return store.StepRecord{}, err
	}
	if s.names == nil {
		s.names = make(map[string]bool, 4)
	}
	s.names[name] = true
	s.busy, s.optional = kind, optional
	return step, nil
}

// mayEnter returns an error if a step of that name may not begin now.
func (s *steps) mayEnter(name string) error {
	switch {
	case name == "":
		return errors.New("idem: a step needs a name")
	case len(name) > maxStepName || !text.Storable(name):
		return fmt.Errorf("idem: step %.40q: a name is valid UTF-8 without NUL, of up to %d bytes", name, maxStepName)
	case s.closed:
		return fmt.Errorf("idem: step %q: %w", name, errAttemptOver)
	case s.busy != 0:
		return fmt.Errorf("idem: step %q begins while another step is under way; steps follow each other, in one goroutine",
			name)
	case s.names[name]:
		return fmt.Errorf("idem: two steps are called %q; give each its own name", name)
	case s.changed:
		return fmt.Errorf("step %q: %w", name, ErrStepsChanged)
	case s.unknown:
		return fmt.Errorf("step %q: %w", name, ErrStepUnknown)
	case s.lost != nil:
		return fmt.Errorf("step %q: %w: %w", name, ErrSegmentLost, s.lost)
	}
	return nil
}

// mayCheckpoint returns an error if no checkpoint may be made now.
func (s *steps) mayCheckpoint() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return fmt.Errorf("idem: Checkpoint: %w", errAttemptOver)
	case s.busy != 0:
		return errors.New("idem: Checkpoint: a step is under way; make the checkpoint between steps")
	case s.lost != nil:
		return fmt.Errorf("idem: Checkpoint: %w: %w", ErrSegmentLost, s.lost)
	}
	return nil
}

// recordedAs returns the step as the attempts before have recorded it, or a new one. A new step may not come before a
// recorded one: it could be the recorded step under a new name, and its effect would happen twice.
func (s *steps) recordedAs(name string, kind store.StepKind) (store.StepRecord, error) {
	for _, before := range s.recorded {
		switch {
		case before.Name != name:
		case before.Kind != kind:
			return store.StepRecord{}, fmt.Errorf("step %q was a %s before: %w", name, before.Kind, ErrStepsChanged)
		default:
			return before, nil
		}
	}
	if i := slices.IndexFunc(s.recorded, s.ahead); i >= 0 {
		return store.StepRecord{}, fmt.Errorf("step %q is new, and %q is still to come: %w", name, s.recorded[i].Name,
			ErrStepsChanged)
	}
	return store.StepRecord{Name: name, Kind: kind}, nil
}

// ahead reports whether a recorded step has not been reached in this attempt.
func (s *steps) ahead(before store.StepRecord) bool { return !s.names[before.Name] }

// exit notes how a step ended.
func (s *steps) exit(kind store.StepKind, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = 0
	if err != nil {
		s.failed(kind, s.optional, err)
	}
}

// failed notes the error of a step. A database step that fails loses the open segment; s.mu is held.
func (s *steps) failed(kind store.StepKind, optional bool, err error) {
	switch {
	case errors.Is(err, ErrStepsChanged):
		s.changed = true
	case errors.Is(err, ErrStepUnknown):
		s.unknown = s.unknown || !optional
	case errors.Is(err, ErrSegmentLost): // s.lost says why
	case kind == store.DatabaseStep:
		s.segmentLost(err)
	case s.seal != nil: // the call has not begun, and s.lost says why
	default:
		s.unfinished = s.unfinished || !optional
	}
}

// segmentLost notes why nothing of the open segment may commit; s.mu is held.
func (s *steps) segmentLost(err error) {
	if s.lost == nil {
		s.lost = err
	}
}

// cutShort notes that the handler has got less than it asked for.
func (s *steps) cutShort(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.segmentLost(err)
}

// finished notes a step that has finished. Its record becomes durable with the next seal.
func (s *steps) finished(step store.StepRecord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = append(s.pending, step)
}

// unsealed returns the steps that are not durable yet.
func (s *steps) unsealed() []store.StepRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.pending)
}

// sealed notes how a seal ended. If it has failed, the rows of the segment are undone. The results of calls stay, and are
// recorded alone.
func (s *steps) sealed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.pending, s.committed, s.opened = nil, true, time.Time{}
		return
	}
	s.segmentLost(err)
	s.seal = err
	s.dropRows()
}

// now returns the store's clock: what it was when the recorded steps were read, and the time since then by this process.
func (s *steps) now(recorded store.StepRecord) time.Time { return recorded.Now.Add(time.Since(s.read)) }

// mustSeal reports whether something must become durable before the next byte of the answer: the record, or a step that has
// finished or is under way.
func (s *steps) mustSeal() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.committed || len(s.pending) > 0 || s.busy == store.DatabaseStep
}

// hasCommitted reports whether a segment has committed, in this attempt or in one before.
func (s *steps) hasCommitted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.committed
}

// isOpen reports whether a segment is open, or a step is not durable yet.
func (s *steps) isOpen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.opened.IsZero() || len(s.pending) > 0
}

// hasRows reports whether the open segment has rows of steps.
func (s *steps) hasRows() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.pending, func(step store.StepRecord) bool { return step.Kind == store.DatabaseStep })
}

// open notes that a segment opens. It fails while a call runs, and when the attempt is over.
func (s *steps) open() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return errAttemptOver
	case s.busy == store.ProviderStep:
		return errInsideCall
	}
	s.opened = time.Now()
	return nil
}

var errAttemptOver = errors.New("the attempt is over; do not keep the context of a handler beyond its return")

var errInsideCall = errors.New("idem: no transaction is open while a core.Call runs; read and write before the call, or " +
	"behind it")

// openFor is how long the open segment has been open; 0 if none is.
func (s *steps) openFor() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened.IsZero() {
		return 0
	}
	return time.Since(s.opened)
}

// dropRows forgets the database steps of an undone segment.
func (s *steps) dropRows() {
	s.pending = slices.DeleteFunc(s.pending, func(step store.StepRecord) bool { return step.Kind == store.DatabaseStep })
	s.opened = time.Time{}
}

// saved notes that the results of calls are durable.
func (s *steps) saved() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = nil
}

// results returns the results of calls that are not durable yet. The other steps of the open segment are undone.
func (s *steps) results() []store.StepRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropRows()
	return slices.Clone(s.pending)
}

// finish admits no more steps, and returns what happened to the steps.
func (s *steps) finish() progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.busy != 0 {
		s.failed(s.busy, s.optional, errStepUnderWay)
	}
	c := s.progress
	c.leftOut = slices.ContainsFunc(s.recorded, s.ahead)
	return c
}

var errStepUnderWay = errors.New("idem: the handler has returned while a step was under way")

// rehearsed returns the steps of the attempt that a unit test simulates.
func rehearsed(inside *attemptctx.View) *steps {
	r := inside.Rehearsal
	r.Lock()
	defer r.Unlock()
	if inside.Steps == nil {
		kept, _ := r.Recorded.([]store.StepRecord)
		inside.Steps = &steps{recorded: slices.Clone(kept)}
	}
	return inside.Steps.(*steps)
}

// keep keeps steps for the next attempt of a unit test.
func (p stepContext) keep(steps ...store.StepRecord) {
	r := p.rehearsal
	r.Lock()
	defer r.Unlock()
	kept, _ := r.Recorded.([]store.StepRecord)
	kept = slices.DeleteFunc(slices.Clone(kept), func(before store.StepRecord) bool {
		return slices.ContainsFunc(steps, func(step store.StepRecord) bool { return step.Name == before.Name })
	})
	kept = append(kept, steps...)
	r.Recorded = kept
}
