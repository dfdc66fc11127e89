package core

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/auth19/idem/core/store"
)

// ErrLeaseLost is the cause of the handler's cancelled context if its attempt could not renew its lease, or another
// attempt took the operation over. The handler should stop: another attempt may run at the same time.
var ErrLeaseLost = errors.New("idem: the attempt lost its lease")

// lease keeps a Park or Resume attempt alive. It renews at every third of its length until the attempt's context ends. It
// gives the attempt up if no renewal was confirmed within two thirds of the length, by the process's monotonic clock
// . While a segment of a Resume attempt is open, the lease is paused: the transaction holds the key.
type lease struct {
	attempt *Attempt
	length  time.Duration

	mu       sync.Mutex
	renewed  time.Time     // when the last renewal that the store confirmed was sent
	failed   error         // of the last renewal
	renewal  *time.Timer   // sends the next one
	loss     *time.Timer   // fires two thirds of the lease after renewed; nil before the first renewal
	renewing chan struct{} // closed when the last renewal has ended; nil before the first
	paused   bool          // a segment is open
	stopped  bool
}

// init sets up the lease of a. It is paused until resume.
func (l *lease) init(a *Attempt) { l.attempt, l.length, l.paused = a, a.route.Lease, true }

// pause ends the renewals until resume. It first waits for a renewal that was sent: that one would later wait for the
// segment's lock of the record.
func (l *lease) pause() {
	l.mu.Lock()
	l.paused = true
	l.stopTimers()
	renewing := l.renewing
	l.mu.Unlock()
	if renewing != nil {
		<-renewing
	}
}

// resume begins the renewals. sent is when the write was sent with which the lease began.
func (l *lease) resume(sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return
	}
	l.stopTimers()
	l.paused, l.renewed, l.failed, l.loss = false, sent, nil, nil
	if l.left() <= 0 {
		l.lose() // the store took its time
		return
	}
	l.renewal = time.AfterFunc(time.Until(sent.Add(l.length/3)), l.renewDue)
}

// stopTimers is called with l.mu held.
func (l *lease) stopTimers() {
	for _, timer := range []*time.Timer{l.renewal, l.loss} {
		if timer != nil {
			timer.Stop()
		}
	}
}

// stop ends the renewals. A renewal that was sent may still arrive; it does not disturb the recording of the answer.
func (l *lease) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	l.stopTimers()
}

func (l *lease) renewDue() {
	ended, ok := l.startRenewal()
	if !ok {
		return
	}
	defer close(ended)
	a, sent := l.attempt, time.Now()
	ctx := new(lazyContext).until(&a.inside, sent.Add(min(l.left(), a.m.cfg.ClaimTimeout)))
	err := a.m.cfg.Store.Renew(ctx, a.ticket, l.length)
	ctx.cancel(context.Canceled)

	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = err
	switch {
	case l.stopped || l.paused:
	case err == nil:
		l.renewed = sent
		l.renewal.Reset(l.length / 3)
	case errors.Is(err, ErrStale):
		l.lose()
	default:
		l.renewal.Reset(l.length / 30) // the store did not answer: try again soon, until two thirds are over
	}
}

// startRenewal returns false if the lease is not renewed any more: it is stopped, or the deadline has passed.
func (l *lease) startRenewal() (chan struct{}, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over() {
		return nil, false
	}
	if l.loss == nil {
		l.loss = time.AfterFunc(l.left(), l.check)
	}
	l.renewing = make(chan struct{})
	return l.renewing, true
}

// check gives the lease up if it was not confirmed in time, even while a renewal still waits for the store.
func (l *lease) check() {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch left := l.left(); {
	case l.over():
	case left > 0:
		l.loss.Reset(left)
	default:
		l.lose()
	}
}

// over, left and lose are called with l.mu held.
func (l *lease) over() bool { return l.stopped || l.paused || l.attempt.ctx.Err() != nil }

// left is how long the lease still counts.
func (l *lease) left() time.Duration { return time.Until(l.renewed.Add(l.length * 2 / 3)) }

func (l *lease) lose() {
	l.stopped = true
	err := l.failed
	if err == nil {
		err = context.DeadlineExceeded // the store does not answer, or this process was paused
	}
	l.attempt.ctx.cancel(ErrLeaseLost)
	l.attempt.observe(Event{Kind: EventLeaseLost, Err: err})
}

// ranOut returns an error if the lease may have run out before the attempt has ended.
func (l *lease) ranOut() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.renewed) < l.length {
		return nil
	}
	return errRanOut
}

var errRanOut = errors.New("idem: the lease had run out, and a repeat may have been told outcome_unknown; the attempt has " +
	"proven that nothing was applied")

// yield ends the lease. It first waits for a renewal that was sent, because that would prolong the lease again.
func (l *lease) yield(ends []byte) error {
	l.stop()
	l.mu.Lock()
	renewing := l.renewing
	l.mu.Unlock()
	if renewing != nil {
		<-renewing
	}
	return l.attempt.conclude(new(lazyContext), store.Ending{State: store.Running, Ends: ends})
}
