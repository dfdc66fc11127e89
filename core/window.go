package core

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// The default and the bounds of Config.MaxClockSkew.
const (
	defaultMaxClockSkew = time.Hour
	minClockSkew        = time.Minute
	maxClockSkew        = 12 * time.Hour // half of the shortest retention
)

// ErrClock means that the store's clock and the app's are too far apart to tell what has expired. Nothing was changed
// (T-5).
var ErrClock = errors.New("idem: the clocks of the store and of this process are too far apart")

// Window is the time that a store's clock may show: the app's time, plus or minus Config.MaxClockSkew (T-5). The store's
// clock decides what has expired (T-1), but only while it is inside the window. The zero Window allows any time.
type Window struct{ From, To time.Time }

// Has reports whether now is in the window.
func (w Window) Has(now time.Time) bool { return w.Reached(now) && (w.To.IsZero() || !now.After(w.To)) }

// Reached reports whether now is in the window or after it. A record that is made before the window would expire too
// early.
func (w Window) Reached(now time.Time) bool { return !now.Before(w.From) }

// Later returns the later of two times: now, which is the store's, and the middle of the window, which is this process's.
// If the window has no bounds, it returns now.
func (w Window) Later(now time.Time) time.Time {
	if w.From.IsZero() || w.To.IsZero() {
		return now
	}
	if own := w.From.Add(w.To.Sub(w.From) / 2); own.After(now) {
		return own
	}
	return now
}

func (m *Module) window() Window {
	now := m.cfg.Now()
	return Window{now.Add(-m.cfg.MaxClockSkew), now.Add(m.cfg.MaxClockSkew)}
}

// judged returns a record from which a repeat or a question is answered. If the clocks are too far apart, the clock that
// is behind decides: it is better to replay an answer than to forget it.
func (m *Module) judged(ctx context.Context, rec Record) Record {
	if m.noticeClock(ctx, rec.Now) {
		rec.Now = earlier(rec.Now, m.cfg.Now())
	}
	return rec
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// skewEvery is the shortest time between two events about the clocks. Without it, each request would send one.
const skewEvery = time.Minute

// noticeClock reports whether the store's clock, which has just shown now, is outside of the window. If so, it sends the
// event.
func (m *Module) noticeClock(ctx context.Context, now time.Time) bool {
	if now.IsZero() || m.window().Has(now) {
		return false
	}
	ahead := now.Sub(m.cfg.Now()).Round(time.Second)
	m.tellClock(ctx, fmt.Errorf("%w: the store's is ahead by %v (behind, if negative)", ErrClock, ahead))
	return true
}

// tellClock sends the event of clocks that are too far apart, at most once in skewEvery.
func (m *Module) tellClock(ctx context.Context, err error) {
	last, now := m.skewed.Load(), time.Now().UnixNano()
	if (last == 0 || now-last >= int64(skewEvery)) && m.skewed.CompareAndSwap(last, now) {
		m.observe(ctx, Event{Kind: EventClockSkew, Err: err})
	}
}
