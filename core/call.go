package core

import (
	"context"
	"fmt"
	"time"
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
// answer is recorded all the same, and nobody calls again. Never declare it for a call that moves money. If an earlier
// attempt has begun the call, and it may not be repeated, Call returns ErrStepUnknown, and the operation is not parked.
func Optional() CallOption { return func(o *callOptions) { o.optional = true } }

// Call calls a provider as a step of a Resume attempt. Its result is recorded, and later attempts get the recorded result
// without running fn. fn sends key to the provider. The key is derived from the operation and the step's name, so it is
// the same in every attempt: see [DerivedKey]. For rows of the app's own database there is gormstore.Step.
//
// The result is encoded as JSON and decoded again, in the first attempt too. So the first test finds a result that JSON
// changes. If T does not give a number its type, as in map[string]any, the number comes back as [json.Number] with all
// its digits.
//
// An error of fn means that the step is unfinished: nobody knows whether the call took effect. No answer of the handler is
// recorded then, and a success does not leave: the client gets 500 [CodeCallUnfinished], and the next attempt calls again
// . [Optional] calls are the exception. A refusal of the provider is a result, not an error.
//
// A later attempt finds the step by its name; its place may change. Names are unique within an attempt, and steps run one
// after the other.
//
// Errors: those of fn; ErrStepsChanged, also for a new step that comes before a recorded one; ErrStepUnknown; ErrStale after
// a takeover; ErrLeaseLost, and the error of the deadline, after which no step begins. A step also fails if its name is
// empty, too long or taken, if another step is still running, if ctx belongs to no Resume attempt, if its result cannot be
// encoded or is above [MaxStepResult], and if it makes more than [MaxStepKeys] calls and events. Any other error means that
// the store did not answer.
func Call[T any](ctx context.Context, name string, fn func(ctx context.Context, key DerivedKey) (T, error),
	opts ...CallOption,
) (result T, err error) {
	var options callOptions
	for _, opt := range opts {
		opt(&options)
	}
	step, err := enterStep(ctx, name, ProviderStep, options.optional)
	if err != nil {
		return result, err
	}
	defer step.Leave(&err)
	if err = step.start(options); err != nil {
		return result, err
	}
	if !step.Finished() {
		value, err := fn(step.ctx, step.operation.DeriveStep(name))
		if err == nil {
			err = step.finishCall(value)
		}
		if err != nil {
			return result, err
		}
	}
	err = step.Finish(&result)
	return result, err
}

// CallDo is [Call] for a call without a result.
func CallDo(ctx context.Context, name string, fn func(ctx context.Context, key DerivedKey) error, opts ...CallOption) error {
	_, err := Call(ctx, name, func(ctx context.Context, key DerivedKey) (struct{}, error) {
		return struct{}{}, fn(ctx, key)
	}, opts...)
	return err
}

// start records that the provider is about to be called. It returns an error where the call was started before and may
// not be repeated.
func (s *Step) start(options callOptions) error {
	a := s.attempt
	if s.Finished() {
		return nil
	}
	if a == nil {
		s.keep(s.record)
		return nil
	}
	var started StepRecord
	err := a.confirm(func(ctx context.Context) (err error) {
		started, err = a.stepper().StartStep(ctx, a.ticket, s.record)
		return err
	})
	if err == nil {
		err = s.over() // the store may have taken its time
	}
	switch {
	case err != nil:
		return err
	case started.Finished:
		s.record = started
		return s.enterAgain(started)
	case started.Fence != a.ticket.Fence && !started.within(options.dedup):
		return fmt.Errorf("step %q: %w", s.record.Name, ErrStepUnknown)
	}
	return nil
}

// finishCall records the result of the call.
func (s *Step) finishCall(value any) error {
	finished, err := s.Record(value)
	if a := s.attempt; err == nil && a != nil {
		err = a.confirm(func(ctx context.Context) error { return a.stepper().FinishStep(ctx, a.ticket, finished) })
	}
	return err
}
