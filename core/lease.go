package core

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrLeaseLost is the cause of a handler's cancelled context when its attempt could not renew its lease, or was taken
// over. The handler should stop; it can no longer be sure to be the only one.
var ErrLeaseLost = errors.New("idem: the attempt lost its lease")

// lease keeps a Park or Resume attempt alive: it renews at every third of its length until the attempt's context
// ends, and gives it up when a renewal was not confirmed within two thirds, on the process's monotonic clock.
type lease struct {
	attempt *Attempt
	length  time.Duration

	mu        sync.Mutex
	confirmed time.Time // when the last confirmed renewal was sent
	timer     *time.Timer
	stopped   bool
	beating   chan struct{} // closed when the last renewal has ended; nil before the first
}

func (l *lease) start(a *Attempt, claimedAt time.Time) {
	l.attempt, l.length, l.confirmed = a, a.route.Lease, claimedAt
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer = time.AfterFunc(time.Until(claimedAt.Add(l.length/3)), l.beat)
}

// stop ends the renewals. One that is under way may still arrive: it changes nothing that a completion cares for.
func (l *lease) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	if l.timer != nil {
		l.timer.Stop()
	}
}

func (l *lease) beat() {
	a := l.attempt
	ended, ok := l.begin()
	if !ok {
		return
	}
	defer close(ended)
	sent := time.Now()
	left := l.confirmed.Add(l.length * 2 / 3).Sub(sent)
	if left <= 0 {
		l.lose(context.DeadlineExceeded)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), min(left, a.m.cfg.ClaimTimeout))
	err := a.m.cfg.Store.Renew(ctx, a.ticket, l.length)
	cancel()

	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return
	}
	next := l.length / 3
	switch {
	case err == nil:
		l.confirmed = sent
	case errors.Is(err, ErrStale):
		l.loseLocked(err)
		return
	default:
		next = l.length / 30 // the store is away: try again soon, until two thirds are over
		if left = time.Until(l.confirmed.Add(l.length * 2 / 3)); left <= 0 {
			l.loseLocked(err)
			return
		}
		next = min(next, left)
	}
	l.timer.Reset(next)
}

// begin is false where the lease is not renewed any more: it is stopped, or the deadline has passed.
func (l *lease) begin() (chan struct{}, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped || l.attempt.ctx.Err() != nil {
		return nil, false
	}
	l.beating = make(chan struct{})
	return l.beating, true
}

// yield gives the lease back, after a renewal that is under way: it would take the lease again.
func (l *lease) yield() error {
	l.stop()
	l.mu.Lock()
	beating := l.beating
	l.mu.Unlock()
	if beating != nil {
		<-beating
	}
	a := l.attempt
	return a.confirm(func(ctx context.Context) error { return a.m.cfg.Store.Renew(ctx, a.ticket, 0) })
}

func (l *lease) lose(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.stopped {
		l.loseLocked(err)
	}
}

func (l *lease) loseLocked(err error) {
	l.stopped = true
	l.attempt.cancel(ErrLeaseLost)
	l.attempt.observe(Event{Kind: EventLeaseLost, Err: err})
}
