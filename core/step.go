package core

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/auth19/idem/core/internal/attemptctx"
)

// Errors of steps; compare them with [errors.Is]. A handler that gets one should return it, or answer with 5xx.
var (
	// ErrStepsChanged: the handler takes other steps than the attempts before. It must take all recorded steps again, with
	// the same kind, and new steps only after them. No answer is recorded. A handler that takes the old steps again can
	// continue.
	ErrStepsChanged = errors.New("idem: the steps are not those of the attempt before; a handler takes all of them again, " +
		"and new ones after them, until its operations have ended")
	// ErrStepUnknown: an earlier attempt has called the provider, the outcome is not known, and the call may not be
	// repeated. The operation is parked.
	ErrStepUnknown = errors.New("idem: a provider step has begun before and cannot be repeated; the operation is parked")
)

// Bounds of a step.
const (
	MaxStepResult = 64 << 10 // the largest recorded result, in bytes of JSON: 64 KiB
	MaxStepName   = 255      // the longest name, in bytes of UTF-8
	MaxStepKeys   = 1000     // the most calls and events of one step
)

// encodeResult encodes the result of a step. The error names the step. Errors: the result cannot be encoded as JSON, or
// is above [MaxStepResult].
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

// decodeResult keeps every digit of a number that has no type in Go. A float64 would change an amount or an id above
// 2^53.
func decodeResult(encoded []byte, result any) error {
	decoder := json.NewDecoder(bytes.NewReader(encoded))
	decoder.UseNumber()
	return decoder.Decode(result)
}

// Step is a step of a Resume attempt between [EnterStep] and [Step.Leave]. It is for packages of stores that offer a step
// whose rows commit with its record, such as gormstore.Step.
//
//	step, err := core.EnterStep(ctx, name)
//	if err != nil {
//		return result, err
//	}
//	defer step.Leave(&err)
//	if !step.Finished() {
//		// write the rows, make the record with step.Record, and commit both
//	}
//	err = step.Finish(&result)
type Step struct {
	place
	ctx      context.Context
	release  func()     // of ctx; nil if there is nothing to release
	before   int        // how many calls and events the attempt had made when the step began
	record   StepRecord // as the earlier attempts left it
	finished StepRecord // as it will be recorded
	through  bool       // Finish has returned the result
}

// EnterStep enters the database step of the given name. Defer [Step.Leave] after it.
//
// Errors: ErrStepsChanged; ErrStepUnknown; ErrStale; ErrLeaseLost, and the error of the deadline. It also fails if the
// name is empty, too long or taken, if another step is still running, and if ctx belongs to no Resume attempt. Any other
// error means that the store did not answer.
func EnterStep(ctx context.Context, name string) (*Step, error) {
	return enterStep(ctx, name, DatabaseStep, false)
}

func enterStep(ctx context.Context, name string, kind StepKind, optional bool) (*Step, error) {
	p, ok := placeOf(ctx)
	if !ok {
		return nil, fmt.Errorf("idem: step %q: this context belongs to no Resume attempt; pass the context of the handler's "+
			"request, on a route whose policy says core.Resume; in unit tests that of idemtest.Context", name)
	}
	record, err := p.steps.enter(name, kind, optional)
	if err != nil {
		return nil, err
	}
	err = errStepPanicked // unless mayRun returns
	defer func() {
		if err != nil {
			p.steps.leave(record, err)
		}
	}()
	if err = p.mayRun(record); err != nil {
		return nil, err
	}
	s := &Step{place: p, ctx: ctx, before: len(p.calls.Made(0)), record: record}
	switch {
	case kind == ProviderStep: // calls of idemclient inside it derive their keys from the key of the step
		s.ctx = context.WithValue(ctx, stepKey{}, p.operation.DeriveStep(name))
	case p.attempt != nil:
		s.ctx, s.release = p.attempt.endsWith(ctx)
	}
	return s, nil
}

// mayRun returns an error if a step that was entered may not run.
func (p place) mayRun(record StepRecord) error {
	if record.Finished {
		return p.enterAgain(record)
	}
	if over := p.over(); over != nil {
		return over
	}
	return p.leaveBehind()
}

// endsWith returns a context that ends with ctx and with the attempt, and a function that releases it.
func (a *Attempt) endsWith(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(&a.ctx, func() { cancel(context.Cause(&a.ctx)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// Finished reports whether the step has finished before. If so, do not run it: Finish returns the recorded result.
func (s *Step) Finished() bool { return s.record.Finished }

// Name is the name of the step.
func (s *Step) Name() string { return s.record.Name }

// Context is the context for the work of the step. It ends with ctx of EnterStep, and with the attempt.
func (s *Step) Context() context.Context { return s.ctx }

// Ticket proves that the attempt owns its operation. In a unit test with idemtest it has only the operation's id.
func (s *Step) Ticket() Ticket {
	if s.attempt == nil {
		return Ticket{ID: s.operation}
	}
	return s.attempt.ticket
}

// Store is the store of the module. It is nil in a unit test with idemtest, which has nothing to commit.
func (s *Step) Store() Store {
	if s.attempt == nil {
		return nil
	}
	return s.attempt.m.cfg.Store
}

// Record makes the record of the finished step. Commit it together with the step's rows. Errors, which name the step: the
// result cannot be encoded as JSON or is above [MaxStepResult], or the step made more than [MaxStepKeys] calls and
// events.
func (s *Step) Record(result any) (StepRecord, error) {
	encoded, err := encodeResult(s.record.Name, result)
	if err != nil {
		return StepRecord{}, err
	}
	made := s.calls.Made(s.before)
	if len(made) > MaxStepKeys {
		return StepRecord{}, fmt.Errorf("idem: step %q made %d calls and events, %d are allowed; make several steps of it",
			s.record.Name, len(made), MaxStepKeys)
	}
	s.finished = s.record
	s.finished.Finished, s.finished.Result, s.finished.Derived = true, encoded, nil
	for _, key := range made {
		s.finished.Derived = append(s.finished.Derived, key)
	}
	return s.finished, nil
}

// Finish decodes the recorded result into result, a pointer. Call it after the step's record was committed, now or by an
// earlier attempt.
func (s *Step) Finish(result any) error {
	if !s.record.Finished {
		s.record = s.finished
		s.keep(s.record)
	}
	if err := decodeResult(s.record.Result, result); err != nil {
		return fmt.Errorf("idem: step %q: its recorded result is no %T: %w", s.record.Name, result, err)
	}
	s.through = true
	return nil
}

// Leave ends the step. Defer it, with a pointer to the error that the step's function returns. If there is no error, and
// Finish was not called, the step has panicked.
func (s *Step) Leave(err *error) {
	cause := *err
	if cause == nil && !s.through {
		cause = errStepPanicked
	}
	if s.release != nil {
		s.release()
	}
	s.steps.leave(s.record, cause)
}

var errStepPanicked = errors.New("idem: the step panicked")

// place is where a step runs: in a Resume attempt, or in a unit test that simulates one.
type place struct {
	operation ID
	steps     *steps
	calls     *attemptctx.Calls     // of the attempt
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

// enterAgain marks the calls and events of a step that an earlier attempt has finished, as if this attempt had made them.
func (p place) enterAgain(s StepRecord) error {
	for _, key := range s.Derived {
		if !p.calls.Enter(key) {
			return fmt.Errorf("step %q made a call or an event that this attempt has made before it: %w", s.Name, ErrStepsChanged)
		}
	}
	return nil
}

// over returns an error if no step may begin any more: after the deadline, a lost lease, or the end of the attempt.
func (p place) over() error {
	if p.attempt == nil {
		return nil
	}
	return context.Cause(&p.attempt.ctx)
}

// leaveBehind records new steps that have failed, if the handler continues without them. The next attempt will take them
// again before the later steps, so they must be known then.
func (p place) leaveBehind() error {
	for ; len(p.steps.behind) > 0; p.steps.behind = p.steps.behind[1:] { // this step alone is under way
		step, a := p.steps.behind[0], p.attempt
		if a == nil {
			p.keep(step)
			continue
		}
		err := a.confirm(func(ctx context.Context) error {
			_, err := a.stepper().StartStep(ctx, a.ticket, step)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// stepper is the store of a Resume attempt: New has refused any other.
func (a *Attempt) stepper() Stepper { return a.m.cfg.Store.(Stepper) }
