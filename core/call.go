package core

import (
	"context"
	"fmt"
	"time"
)

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
) (result T, err error) {
	var options callOptions
	for _, opt := range opts {
		opt(&options)
	}
	step, err := enterStep(ctx, name, ProviderStep)
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
