package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"
)

// run handles messages until ctx ends; then it lets those in flight end.
func (w *worker) run(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { ended <- w.router.Run(context.WithoutCancel(ctx)) }()
	select {
	case <-w.router.Running(): // a router that is still starting cannot be closed
	case err := <-ended:
		return fmt.Errorf("start the worker: %w", err)
	}
	select {
	case <-ctx.Done():
		return errors.Join(w.router.Close(), <-ended)
	case err := <-ended:
		return errors.Join(errors.New("the worker has stopped by itself"), err)
	}
}

// toTheEnd lets the message that is being handled end although the worker is stopped; the inbox's deadline bounds it.
// If it could not be acknowledged any more, it comes again and is skipped.
func toTheEnd(next message.HandlerFunc) message.HandlerFunc {
	return func(m *message.Message) ([]*message.Message, error) {
		m.SetContext(context.WithoutCancel(m.Context()))
		return next(m)
	}
}

// untilClosed lets a subscription end by the Close of its subscriber, which still notes what was acknowledged, and not
// by its context, which would take those statements with it. When the router stops it does either.
func untilClosed(s message.Subscriber) (message.Subscriber, error) { return subscriber{s}, nil }

type subscriber struct{ message.Subscriber }

// Subscribe implements [message.Subscriber].
func (s subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	context.AfterFunc(ctx, func() { _ = s.Close() })
	return s.Subscriber.Subscribe(context.WithoutCancel(ctx), topic)
}
