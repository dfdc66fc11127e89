package core

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/auth19/idem/core/store"
)

// CallOption says what a call needs: how it is repeated ([Dedup]), and whether the operation may end without it
// ([Optional]).
type CallOption func(*callOptions)

type callOptions struct {
	dedup    time.Duration
	optional bool
}

// Dedup declares that the provider recognises a repeated call by its key, for d after the first call. Within d, the next
// attempt calls an unfinished step again. After d, and without Dedup, the operation is parked. There is no default,
// because the promise is the provider's. Subtract a margin for clocks and delays: 23 h if the provider promises a day.
func Dedup(d time.Duration) CallOption { return func(o *callOptions) { o.dedup = d } }

// Optional declares that the operation may end without the call: a mail, a score. If the call has failed, the handler's
// answer is recorded all the same, and the call is not repeated. Never declare it for a call that moves money. If an earlier
// attempt has begun the call, and it may not be repeated, Call returns ErrStepUnknown, and the operation is not parked.
func Optional() CallOption { return func(o *callOptions) { o.optional = true } }

// Call calls a provider as a step of a Resume attempt. Its result is recorded, and later attempts get the recorded result
// without running fn. fn sends key to the provider. The key is derived from the operation and the step's name, so it is
// the same in every attempt: see [DerivedKey]. For rows of the app's own database there is gormstore.Step.
//
// Before fn runs, everything that stands before the call is made durable, in one commit with the call's start: rows, steps
// and results. From then on a failure goes back to this call, and not to the beginning. The result becomes durable
// with the next call, [Checkpoint] or answer, or alone if that does not commit; without [Dedup] at once, in a commit of its
// own.
//
// The result is encoded as JSON and decoded again, in the first attempt too. So the first test finds a result that JSON
// changes. If T does not give a number its type, as in map[string]any, the number comes back as [json.Number] with all
// its digits.
//
// An error of fn means that the step is unfinished: it is not known whether the call took effect. No answer of the handler
// is recorded then, and a success does not leave: the client gets 500 [CodeCallUnfinished], and the next attempt calls again
// . [Optional] calls are the exception. A refusal of the provider is a result, not an error.
//
// A later attempt finds the step by its name; its place may change. Names are unique within an attempt, and steps run one
// after the other.
//
// Errors: those of fn; ErrStepsChanged, also for a new step that comes before a recorded one; ErrStepUnknown;
// ErrSegmentLost; those of [Checkpoint], after which the call is not made; ErrStale after
// a takeover; ErrLeaseLost, and the error of the deadline, after which no step begins. A step also fails if its name is
// empty, too long or taken, if another step is still running, if ctx belongs to no Resume attempt, if its result cannot be
// encoded or is above [store.MaxStepResult], and if it makes more than 1000 calls and events. Any other error means that
// the store did not answer.
func Call[T any](ctx context.Context, name string, fn func(ctx context.Context, key DerivedKey) (T, error),
	opts ...CallOption,
) (result T, err error) {
	var options callOptions
	for _, opt := range opts {
		opt(&options)
	}
	step, err := enterStep(ctx, name, store.ProviderStep, options.optional)
	if err != nil {
		return result, err
	}
	defer step.exit(&err)
	if !step.record.Finished {
		if err = step.start(options); err != nil {
			return result, err
		}
		value, err := fn(step.ctx, step.operation.DeriveStep(name))
		if err == nil {
			err = step.finishCall(value, options)
		}
		if err != nil {
			return result, err
		}
	}
	err = step.result(&result)
	return result, err
}

// CallDo is [Call] for a call without a result.
func CallDo(ctx context.Context, name string, fn func(ctx context.Context, key DerivedKey) error, opts ...CallOption) error {
	_, err := Call(ctx, name, func(ctx context.Context, key DerivedKey) (struct{}, error) {
		return struct{}{}, fn(ctx, key)
	}, opts...)
	return err
}

// start seals what stands before the call together with its start. It returns an error where the call was started
// before and may not be repeated.
func (s *step) start(options callOptions) error {
	again := s.record.Fence != 0 // never in a unit test
	if again && !startedWithin(s.record, options.dedup, s.steps.now(s.record)) {
		return fmt.Errorf("step %q: %w", s.record.Name, ErrStepUnknown)
	}
	if !again || s.steps.isOpen() { // else nothing is to be made durable: the start is, and the takeover
		now, err := s.seal(&s.record)
		switch {
		case err != nil:
			return err
		case s.over() != nil: // the store may have taken its time
			return s.over()
		case again && !startedWithin(s.record, options.dedup, now):
			return fmt.Errorf("step %q: %w", s.record.Name, ErrStepUnknown)
		}
	}
	s.call.First = !again
	return nil
}

// finishCall keeps the result of the call, which becomes durable with the next seal. Without Dedup the call must not be
// repeated, so its result is recorded before the handler goes on.
func (s *step) finishCall(value any, options callOptions) error {
	if err := s.finish(value); err != nil {
		return err
	}
	s.steps.finished(s.record)
	a := s.attempt
	if a == nil {
		s.keep(s.record)
		return nil
	}
	if options.dedup > 0 {
		return nil
	}
	err := a.saveResults()
	if errors.Is(err, store.ErrStatement) { // as that of a seal
		s.steps.sealed(err)
	}
	return err
}

// startedWithin reports whether the step was started less than d before now. If the start is in the future, the clock has
// jumped, and how long ago it was is not known: the result is false (T-5).
func startedWithin(s store.StepRecord, d time.Duration, now time.Time) bool {
	age := now.Sub(s.StartedAt)
	return age < d && age > -minClockSkew
}
