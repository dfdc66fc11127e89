package core

import (
	"context"
	"math/rand/v2"
	"time"
)

// waiter lets a repeat wait for the running attempt: the repeat claims again after each pause. Between the claims it
// holds nothing, not even a database connection (M-2).
type waiter struct {
	m       *Module
	limit   time.Duration
	until   time.Time
	pause   time.Duration
	waiting bool
}

// next waits until the next claim, and adds the time to waited. It returns false if the wait is over, or was never
// allowed.
func (w *waiter) next(ctx context.Context, waited *time.Duration) bool {
	if w.limit == 0 {
		return false
	}
	if !w.waiting {
		if w.m.waiters.Add(1) > int64(w.m.cfg.MaxWaiters) {
			w.m.waiters.Add(-1)
			return false
		}
		w.waiting, w.until, w.pause = true, time.Now().Add(w.limit), 25*time.Millisecond
	}
	begun := time.Now()
	left := w.until.Sub(begun)
	if left <= 0 {
		return false
	}
	defer func() { *waited += time.Since(begun) }()
	timer := time.NewTimer(min(left, w.pause+rand.N(w.pause/4)))
	defer timer.Stop()
	w.pause = min(2*w.pause, 500*time.Millisecond)
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// stop releases the place of the waiter, which MaxWaiters counts.
func (w *waiter) stop() {
	if w.waiting {
		w.m.waiters.Add(-1)
	}
}
