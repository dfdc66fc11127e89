package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
)

// sweeper counts what the sweeps of a module do.
type sweeper struct {
	store.Store
	tombstones, dropped atomic.Int64
}

// Sweep implements [store.Store]. A batch that has begun is carried through, so that it counts.
func (s *sweeper) Sweep(ctx context.Context, limit int, window store.Window) (store.Swept, error) {
	swept, err := s.Store.Sweep(context.WithoutCancel(ctx), limit, window)
	s.tombstones.Add(int64(swept.Tombstones))
	s.dropped.Add(int64(swept.Dropped))
	return swept, err
}

// sum is how many records have been swept.
func (s *sweeper) sum() int64 { return s.tombstones.Load() + s.dropped.Load() }

// sweeping lets the Run of a module sweep until stop is called: without a pause while there is something to do, and
// then every so often.
func (d *database) sweeping(ctx context.Context, every time.Duration) (s *sweeper, stop func() error, err error) {
	s = &sweeper{Store: d.store}
	failed := make(chan error, 1)
	m, err := core.New(core.Config{
		Store: s, Policy: core.Policy{Recovery: store.Park}, SweepEvery: every,
		Observer: core.ObserverFunc(func(_ context.Context, e core.Event) {
			if e.Kind == core.EventFailed {
				select {
				case failed <- e.Err:
				default: // the first one is enough
				}
			}
		}),
	})
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	return s, func() error {
		cancel()
		err := <-ended
		select {
		case failure := <-failed:
			err = errors.Join(err, failure)
		default:
		}
		return err
	}, nil
}
