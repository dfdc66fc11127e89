package core

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/auth19/idem/core/internal/attemptctx"
)

// Errors of steps, to be compared with [errors.Is]. A handler that gets one returns it, or a 5xx.
var (
	// ErrStepsChanged: the handler takes other steps than the attempts before it did. A step that they have not taken
	// comes after all that they have, one that they have taken must be taken again, and keeps its kind. No answer is
	// recorded; a handler that takes the old steps again goes on.
	ErrStepsChanged = errors.New("idem: the steps are not those of the attempt before; a handler takes all of them again, " +
		"and new ones after them, until its operations have ended")
	// ErrStepUnknown: a provider step was called before, its outcome is not known, and it may not be called again. The
	// operation is parked.
	ErrStepUnknown = errors.New("idem: a provider step has begun before and cannot be repeated; the operation is parked")
)

// Bounds of a step.
const (
	MaxStepResult = 64 << 10 // the largest recorded result, in bytes of JSON: 64 KiB
	MaxStepName   = 255      // the longest name, in bytes of UTF-8
	MaxStepKeys   = 1000     // the most calls and events of one step
)

// StepKind says where the effect of a step is.
type StepKind uint8

// The kinds of steps.
const (
	DatabaseStep StepKind = iota + 1 // rows, which commit together with the step
	ProviderStep                     // a call to somebody else
)

// String returns "database step" or "provider step".
func (k StepKind) String() string {
	switch k {
	case DatabaseStep:
		return "database step"
	case ProviderStep:
		return "provider step"
	}
	return "step of no kind"
}

// StepRecord is a step as a [Stepper] keeps it.
type StepRecord struct {
	Name     string // unique within the operation
	Kind     StepKind
	Finished bool
	Result   []byte // JSON; set once it is finished
	// Derived are the keys of the calls and events that the handler made while this step was under way, once it is
	// finished. A later attempt does not run the step again, and must not give the same keys to something else.
	Derived []DerivedKey

	Fence     int64     // of the attempt that started it first
	StartedAt time.Time // when that was
	Now       time.Time // the store's clock when this was read
}

// within reports whether the step was started less than d ago. A start that lies ahead says nothing of how long ago it was:
// the clock has jumped, then or now (T-5).
func (s StepRecord) within(d time.Duration) bool {
	age := s.Now.Sub(s.StartedAt)
	return age < d && age > -minClockSkew
}

// Stepper is a Store that keeps the steps of Resume attempts. Only on such a store can a policy ask for Resume.
type Stepper interface {
	Store

	// Steps returns the steps of a record as they were started, one after the other, and by name where that was at the
	// same time. Where the key was free in between, they are those since.
	Steps(ctx context.Context, id ID) ([]StepRecord, error)

	// StartStep records that a provider step is about to be called, or that a step has failed and the next one begins,
	// and returns it as it stands there with the store's clock: one of that name that was started before keeps its fence,
	// its start and its result. Of one that this call has started, StartedAt and Now may be left out. An expired lease is
	// no obstacle. ErrStale if t is not current; ErrStepsChanged where a step of that name has another kind.
	StartStep(ctx context.Context, t Ticket, s StepRecord) (StepRecord, error)

	// Resumable is [Store].List for Resume attempts whose lease has run out: the next repeat, or Run, goes on with them.
	Resumable(ctx context.Context, within []byte, after ID, limit int) ([]Record, error)

	// HalfDone is [Store].List for Resume operations that are half-done: see [Record.HalfDone].
	HalfDone(ctx context.Context, within []byte, after ID, limit int) ([]Record, error)

	// FinishStep records the result and the derived keys of a step that was started. Finishing again is nil, and what was
	// recorded first stands. An expired lease is no obstacle. ErrStale if t is not current; ErrNotFound where no step was started.
	FinishStep(ctx context.Context, t Ticket, s StepRecord) error
}

// CallOption changes how [Call] is repeated.
type CallOption func(*callOptions)

type callOptions struct{ dedup time.Duration }

// Dedup declares that the provider recognises a repeated call by the key it was given, for d after the first one.
// Within d an unfinished step is called again by the next attempt; after it, and without the declaration, the
// operation is parked. There is no default: it is the provider's promise, not ours. Take off what clocks and
// delays may cost, 23 h of a promised day for instance.
func Dedup(d time.Duration) CallOption { return func(o *callOptions) { o.dedup = d } }

// Call calls a provider as a step of a Resume attempt, once: the result is recorded, and later attempts get it without
// running fn. fn sends key along: it is derived from the operation and the step's name, so that it is the same in every
// attempt. See [DerivedKey]. For rows of the app's own database there is gormstore.Step.
//
// The result goes through JSON in the first attempt too, so that the first test finds a result that does not survive it.
// In a T that does not say what its numbers are, map[string]any for instance, they come back as [json.Number], with every
// digit.
//
// An error of fn means that the step is unfinished: nobody knows whether the call took effect. A refusal of the provider
// is a result, not an error.
//
// A later attempt finds the step by its name, whatever its place. Names are unique within an attempt, and steps follow
// each other. Call returns an error before anything runs where a step has the name of an earlier one, where another step
// is still running in another goroutine, and where the step is new although a recorded one is still to come. Errors:
// those of fn; ErrStepsChanged; ErrStepUnknown; ErrStale after a takeover; ErrLeaseLost and the deadline, after which no
// step begins; any other means that the store did not answer.
func Call[T any](ctx context.Context, name string, fn func(ctx context.Context, key DerivedKey) (T, error),
	opts ...CallOption,
) (T, error) {
	var options callOptions
	for _, opt := range opts {
		opt(&options)
	}
	var result T
	err := runStep(ctx, name, ProviderStep, &result, func(p place, s StepRecord) (StepRecord, error) {
		return p.callProvider(ctx, s, options, func(ctx context.Context, key DerivedKey) (any, error) { return fn(ctx, key) })
	})
	return result, err
}

// CallDo is [Call] for a call without a result.
func CallDo(ctx context.Context, name string, fn func(ctx context.Context, key DerivedKey) error, opts ...CallOption) error {
	_, err := Call(ctx, name, func(ctx context.Context, key DerivedKey) (struct{}, error) {
		return struct{}{}, fn(ctx, key)
	}, opts...)
	return err
}

// encodeResult encodes the result of a step. The error names the step where the result is no JSON, or above
// [MaxStepResult].
func encodeResult(name string, value any) ([]byte, error) {
	encoded, err := json.Marshal(value)
	switch {
	case err != nil:
		return nil, fmt.Errorf("idem: step %q: its result cannot be recorded: %w", name, err)
	case len(encoded) > MaxStepResult:
		return nil, fmt.Errorf("idem: step %q: its result has %d bytes of JSON, %d are allowed", name, len(encoded),
			MaxStepResult)
	}
	return encoded, nil
}

// decodeResult keeps every digit of a number that has no type of its own: as a float64, an amount or an id above 2^53
// would be another.
func decodeResult(encoded []byte, result any) error {
	decoder := json.NewDecoder(bytes.NewReader(encoded))
	decoder.UseNumber()
	return decoder.Decode(result)
}

// FinishFunc makes the record of a finished database step from its result. The error names the step where the result is
// no JSON or above [MaxStepResult], or where the step made more than [MaxStepKeys] calls and events.
type FinishFunc func(result any) (StepRecord, error)

// RunDatabaseStep is for packages of stores, which bring a step whose rows commit with its record: gormstore.Step. run
// is called where the step has to be taken; it commits the rows together with the record that finish returns, and
// returns that record. Its context ends with the attempt as well. In a unit test with idemtest its store is nil: there is nothing to commit. The recorded result is
// decoded into result, a pointer.
func RunDatabaseStep(ctx context.Context, name string, result any,
	run func(ctx context.Context, store Store, t Ticket, finish FinishFunc) (StepRecord, error),
) error {
	return runStep(ctx, name, DatabaseStep, result, func(p place, s StepRecord) (StepRecord, error) {
		a := p.attempt
		finish := func(value any) (StepRecord, error) { return p.finished(s, value) }
		if a == nil {
			return run(ctx, nil, Ticket{ID: p.operation}, finish)
		}
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(&a.ctx, func() { cancel(context.Cause(&a.ctx)) })()
		return run(ctx, a.m.cfg.Store, a.ticket, finish)
	})
}

// place is where a step is taken: in a Resume attempt, or in a unit test that stands for one.
type place struct {
	operation ID
	steps     *steps
	calls     *attemptctx.Calls     // of the attempt
	before    int                   // how many of them there were when the step began
	attempt   *Attempt              // nil in a unit test
	rehearsal *attemptctx.Rehearsal // in a unit test only
}

func placeOf(ctx context.Context) (place, bool) {
	inside := attemptctx.From(ctx)
	switch a := attemptFrom(ctx); {
	case a != nil:
		return place{operation: a.ticket.ID, steps: a.steps, calls: &inside.Calls, attempt: a}, a.steps != nil
	case inside != nil && inside.Rehearsal != nil:
		return place{
			operation: inside.Operation, steps: rehearsed(inside), calls: &inside.Calls, rehearsal: inside.Rehearsal,
		}, true
	}
	return place{}, false
}

var errStepPanicked = errors.New("idem: the step panicked")

func runStep(ctx context.Context, name string, kind StepKind, result any,
	run func(p place, s StepRecord) (StepRecord, error),
) (err error) {
	p, ok := placeOf(ctx)
	if !ok {
		return fmt.Errorf("idem: step %q: this context belongs to no Resume attempt; pass the context of the handler's "+
			"request, on a route whose policy says core.Resume; in unit tests that of idemtest.Context", name)
	}
	step, err := p.steps.enter(name, kind)
	if err != nil {
		return err
	}
	err = errStepPanicked // unless it returns
	defer func() { p.steps.leave(step, err) }()
	if step.Finished {
		if again := p.enterAgain(step); again != nil {
			return again
		}
	} else {
		if over := p.over(); over != nil {
			return over
		}
		if failed := p.leaveBehind(); failed != nil {
			return failed
		}
		p.before = len(p.calls.Made(0))
		finished, failed := run(p, step)
		if failed != nil {
			return failed
		}
		step = finished
		p.keep(step)
	}
	if wrong := decodeResult(step.Result, result); wrong != nil {
		return fmt.Errorf("idem: step %q: its recorded result is no %T: %w", name, result, wrong)
	}
	return nil
}

// finished returns the record of a step that is through.
func (p place) finished(s StepRecord, value any) (StepRecord, error) {
	result, err := encodeResult(s.Name, value)
	if err != nil {
		return s, err
	}
	made := p.calls.Made(p.before)
	if len(made) > MaxStepKeys {
		return StepRecord{}, fmt.Errorf("idem: step %q made %d calls and events, %d are allowed; make several steps of it",
			s.Name, len(made), MaxStepKeys)
	}
	s.Finished, s.Result, s.Derived = true, result, nil
	for _, key := range made {
		s.Derived = append(s.Derived, key)
	}
	return s, nil
}

// enterAgain notes the calls and events of a step that an attempt before has finished, as if this one had made them.
func (p place) enterAgain(s StepRecord) error {
	for _, key := range s.Derived {
		if !p.calls.Enter(key) {
			return fmt.Errorf("step %q made a call or an event that this attempt has made before it: %w", s.Name, ErrStepsChanged)
		}
	}
	return nil
}

// over returns why no step begins any more: the deadline, a lost lease, the end of the attempt.
func (p place) over() error {
	if p.attempt == nil {
		return nil
	}
	return context.Cause(&p.attempt.ctx)
}

// leaveBehind records the steps that have failed and that the handler goes on without: the next attempt will take them
// again, before those that come now, and they must not be new to it.
func (p place) leaveBehind() error {
	for ; len(p.steps.behind) > 0; p.steps.behind = p.steps.behind[1:] { // this step alone is under way
		step, a := p.steps.behind[0], p.attempt
		if a == nil {
			p.keep(step)
			continue
		}
		err := a.confirm(func(ctx context.Context) error {
			_, err := a.m.cfg.Store.(Stepper).StartStep(ctx, a.ticket, step) // New has refused any other store
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// callProvider records the start, calls, and records the result.
func (p place) callProvider(ctx context.Context, s StepRecord, o callOptions,
	call func(ctx context.Context, key DerivedKey) (any, error),
) (StepRecord, error) {
	a := p.attempt
	key := p.operation.DeriveStep(s.Name)
	ctx = context.WithValue(ctx, stepKey{}, key) // the calls that idemclient makes in it derive theirs from it
	if a == nil {
		p.keep(s)
		value, err := call(ctx, key)
		if err != nil {
			return s, err
		}
		return p.finished(s, value)
	}
	store := a.m.cfg.Store.(Stepper) // New has refused any other store
	var started StepRecord
	err := a.confirm(func(ctx context.Context) (err error) {
		started, err = store.StartStep(ctx, a.ticket, s)
		return err
	})
	if err == nil {
		err = p.over() // the store may have taken its time
	}
	switch {
	case err != nil:
		return s, err
	case started.Finished:
		return started, p.enterAgain(started)
	case started.Fence != a.ticket.Fence && !started.within(o.dedup):
		return s, fmt.Errorf("step %q: %w", s.Name, ErrStepUnknown)
	}
	value, err := call(ctx, key)
	if err != nil {
		return s, err
	}
	finished, err := p.finished(s, value)
	if err == nil {
		err = a.confirm(func(ctx context.Context) error { return store.FinishStep(ctx, a.ticket, finished) })
	}
	return finished, err
}
