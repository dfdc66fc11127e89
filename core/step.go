package core

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/auth19/idem/core/internal/attemptctx"
	"github.com/auth19/idem/core/internal/names"
	"github.com/auth19/idem/core/store"
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
	// ErrSegmentLost: a step in the segment has failed, or its commit has. Nothing of the segment stays, and no step, call or
	// checkpoint begins any more in this attempt. The next attempt goes on behind the last call or checkpoint.
	ErrSegmentLost = errors.New("idem: what was written since the last call or checkpoint is undone; the next attempt " +
		"writes it again")
)

// Bounds of a step.
const (
	maxStepName = names.MaxLength
	maxStepKeys = 1000 // the most calls and events of one step
)

// Step runs fn as a database step of a Resume attempt. In the context of fn handlers may write, through the store's
// functions: with gormstore use gormstore.Step, which hands the transaction to fn.
//
// The step's rows and its result become durable together, with the next [Call], [Checkpoint] or answer, and not before
// . Later attempts get the recorded result without running fn. The result is encoded as JSON and decoded again, in the
// first attempt too; a number without a Go type comes back as a json.Number. Names are unique within an attempt, and steps
// run one after the other.
//
// If fn fails, or a statement in it, everything since the last call or checkpoint is undone: later steps fail with
// [ErrSegmentLost], and a success of the handler does not leave. A refusal for business reasons is a result, not an error.
//
// Errors: those of fn; ErrStepsChanged; ErrSegmentLost; ErrStale after a takeover; ErrLeaseLost, and the error of the
// deadline, after which no step begins; ErrRetryable and ErrAborted of a statement that fn has not returned the error of. It
// also fails if the name is empty, too long or taken, if another step is still running, if ctx belongs to no Resume attempt,
// and if the result cannot be encoded or is above [store.MaxStepResult] (64 KiB). Any other error means that the store did
// not answer.
func Step[T any](ctx context.Context, name string, fn func(ctx context.Context) (T, error)) (result T, err error) {
	step, err := enterStep(ctx, name, store.DatabaseStep, false)
	if err != nil {
		return result, err
	}
	defer step.exit(&err)
	again := step.record.Finished
	if !again {
		err = step.runWork(func(ctx context.Context) error {
			value, err := fn(ctx)
			if err == nil {
				err = step.finish(value)
			}
			return err
		})
	}
	if err == nil {
		err = step.result(&result)
	}
	if err == nil && !again {
		step.steps.finished(step.record)
	}
	return result, err
}

// Checkpoint makes durable what a Resume handler has written so far, without a call: rows and steps. The next attempt goes
// on behind it. It is for long work without calls, in pages for instance, and costs a commit. Where nothing was written
// since the last call or checkpoint it does nothing.
//
// Errors: ErrSegmentLost if a step since the last call or checkpoint has failed; ErrRetryable and ErrAborted if the database
// refused the commit; ErrUnconfirmed if its outcome is not known; ErrStale after a takeover. After each of them the segment
// is lost. It also fails inside a step, a call or a message that has joined the transaction, and where ctx belongs to no
// Resume attempt.
func Checkpoint(ctx context.Context) error {
	p, ok := stepContextOf(ctx)
	if !ok {
		return errors.New("idem: Checkpoint: this context belongs to no Resume attempt; pass the context of the handler's " +
			"request, on a route whose policy says core.Resume; in unit tests that of idemtest.Context")
	}
	if attemptctx.CallsFrom(ctx) != p.calls {
		return errors.New("idem: Checkpoint: a message is being processed; its marker commits with all of its rows")
	}
	if err := p.steps.mayCheckpoint(); err != nil {
		return err
	}
	if err := p.over(); err != nil {
		return err
	}
	if len(p.steps.unsealed()) == 0 {
		return nil
	}
	_, err := p.seal(nil)
	return err
}

// step is a step of an attempt that was entered.
type step struct {
	stepContext
	ctx     context.Context
	before  int              // how many calls and events the attempt had made when the step began
	record  store.StepRecord // as the earlier attempts left it; later with the result
	call    *attemptctx.Step // what the context of a provider step says of it
	through bool             // result has returned the result
}

func enterStep(ctx context.Context, name string, kind store.StepKind, optional bool) (*step, error) {
	p, ok := stepContextOf(ctx)
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
			p.steps.exit(kind, err)
		}
	}()
	if err = p.mayRun(record); err != nil {
		return nil, err
	}
	s := &step{stepContext: p, ctx: ctx, before: len(p.calls.Made(0)), record: record}
	if kind == store.ProviderStep { // calls of idemclient inside it derive their keys from the key of the step
		s.call = &attemptctx.Step{Key: p.operation.DeriveStep(name)}
		s.ctx = attemptctx.WithStep(ctx, s.call)
	}
	return s, nil
}

// mayRun returns an error if a step that was entered may not run.
func (p stepContext) mayRun(record store.StepRecord) error {
	if record.Finished {
		return p.enterAgain(record)
	}
	return p.over()
}

// runWork runs the work of a database step in the open segment. The context ends with that of the step, and with the
// attempt.
func (s *step) runWork(work func(ctx context.Context) error) error {
	a := s.attempt
	if a == nil {
		return work(s.ctx)
	}
	ctx, cancel := context.WithCancelCause(s.ctx)
	defer cancel(nil)
	if s.ctx.Done() != a.ctx.Done() { // the handler has given it an end of its own
		stop := context.AfterFunc(&a.ctx, func() { cancel(context.Cause(&a.ctx)) })
		defer stop()
	}
	err := s.steps.segments.Step(ctx, work)
	if errors.Is(err, store.ErrStatement) { // its segment could not be opened: as a seal that was refused
		s.steps.sealed(err)
	}
	return err
}

// finish makes the record of the finished step, which becomes durable with the next seal. The errors name the step.
func (s *step) finish(value any) error {
	name := s.record.Name
	encoded, err := json.Marshal(value)
	made := s.calls.Made(s.before)
	switch {
	case err != nil:
		return fmt.Errorf("idem: step %q: its result cannot be recorded: %w", name, err)
	case len(encoded) > store.MaxStepResult:
		return fmt.Errorf("idem: step %q: its result has %d bytes of JSON, %d are allowed", name, len(encoded),
			store.MaxStepResult)
	case len(made) > maxStepKeys:
		return fmt.Errorf("idem: step %q made %d calls and events, %d are allowed; make several steps of it", name, len(made),
			maxStepKeys)
	}
	s.record.Finished, s.record.Result, s.record.Derived = true, encoded, nil
	for _, key := range made {
		s.record.Derived = append(s.record.Derived, key)
	}
	return nil
}

// result decodes the recorded result into a pointer. Every digit of a number that has no type in Go is kept: a float64 would
// change an amount or an id above 2^53.
func (s *step) result(result any) error {
	decoder := json.NewDecoder(bytes.NewReader(s.record.Result))
	decoder.UseNumber()
	if err := decoder.Decode(result); err != nil {
		return fmt.Errorf("idem: step %q: its recorded result is no %T: %w", s.record.Name, result, err)
	}
	s.through = true
	return nil
}

// exit ends the step, with the error that the step's function returns. Without an error and a result it has panicked.
func (s *step) exit(err *error) {
	cause := *err
	if cause == nil && !s.through {
		cause = errStepPanicked
	}
	s.steps.exit(s.record.Kind, cause)
}

var errStepPanicked = errors.New("idem: the step panicked")

// stepContext is where a step runs: in a Resume attempt, or in a unit test that simulates one.
type stepContext struct {
	operation ID
	steps     *steps
	calls     *attemptctx.Calls     // of the attempt
	attempt   *Attempt              // nil in a unit test
	rehearsal *attemptctx.Rehearsal // in a unit test only
}

func stepContextOf(ctx context.Context) (stepContext, bool) {
	inside := attemptctx.From(ctx)
	switch a := attemptFrom(ctx); {
	case a != nil:
		return stepContext{operation: a.ticket.ID, steps: a.steps, calls: &inside.Calls, attempt: a}, a.steps != nil
	case inside != nil && inside.Rehearsal != nil:
		return stepContext{
			operation: inside.Operation, steps: rehearsed(inside), calls: &inside.Calls, rehearsal: inside.Rehearsal,
		}, true
	}
	return stepContext{}, false
}

// enterAgain marks the calls and events of a step that an earlier attempt has finished, as if this attempt had made them.
func (p stepContext) enterAgain(s store.StepRecord) error {
	for _, key := range s.Derived {
		if !p.calls.Enter(key) {
			return fmt.Errorf("step %q made a call or an event that this attempt has made before it: %w", s.Name, ErrStepsChanged)
		}
	}
	return nil
}

// seal commits the open segment, with the steps that have finished and the start of the next call. It returns the store's
// clock.
func (p stepContext) seal(start *store.StepRecord) (now time.Time, err error) {
	steps := p.steps.unsealed()
	a := p.attempt
	if a == nil {
		if start != nil {
			steps = append(steps, *start)
		}
		p.keep(steps...)
	} else {
		now, err = a.seal(&a.ctx, store.Seal{Steps: steps, Start: start})
	}
	p.steps.sealed(err)
	return now, err
}

// seal seals a segment behind which the attempt continues. The lease begins anew.
func (a *Attempt) seal(ctx context.Context, s store.Seal) (time.Time, error) {
	a.lease.pause()
	s.Window = a.m.window()
	sent := time.Now()
	now, err := a.steps.segments.Seal(ctx, s)
	a.watchSegment()
	if err == nil {
		a.lease.resume(sent)
	}
	return now, err
}

// over returns an error if no step may begin any more: after the deadline, a lost lease, or the end of the attempt.
func (p stepContext) over() error {
	if p.attempt == nil {
		return nil
	}
	return context.Cause(&p.attempt.ctx)
}
