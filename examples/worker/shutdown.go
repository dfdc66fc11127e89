package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"
)

// run handles messages until ctx ends. Then it waits for those that are being handled.
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

// toTheEnd lets the current message end although the worker is stopped. The inbox's deadline limits it. If the message
// cannot be acknowledged any more, it comes again and is skipped.
func toTheEnd(next message.HandlerFunc) message.HandlerFunc {
	return func(m *message.Message) ([]*message.Message, error) {
		m.SetContext(context.WithoutCancel(m.Context()))
		return next(m)
	}
}

// untilClosed lets a subscription end by the Close of its subscriber, and not by its context. Close still records what was
// acknowledged, but the end of the context would cancel these statements. When the router stops it does both.
func untilClosed(s message.Subscriber) (message.Subscriber, error) {
	return &subscriber{Subscriber: s}, nil
}

type subscriber struct {
	message.Subscriber
	received sync.Mutex // held for a moment after each message
}

// Subscribe implements [message.Subscriber].
func (s *subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	context.AfterFunc(ctx, func() { _ = s.Close() })
	from, err := s.Subscriber.Subscribe(context.WithoutCancel(ctx), topic)
	if err != nil {
		return nil, err
	}
	to := make(chan *message.Message)
	go func() {
		defer close(to)
		for m := range from {
			s.received.Lock()
			s.received.Unlock() //nolint:staticcheck // see Close
			to <- m
		}
	}()
	return to, nil
}

// Close implements [message.Subscriber]. It comes behind the messages that were received: the subscriber of NATS closes its
// channel without waiting for what it sends, and the race detector takes that for a race.
func (s *subscriber) Close() error {
	s.received.Lock()
	s.received.Unlock() //nolint:staticcheck // nothing is guarded, only ordered
	return s.Subscriber.Close()
}
