package core

import (
	"context"
	"fmt"
	"time"

	"github.com/auth19/idem/core/store"
)

// The default and the bounds of Config.MaxClockSkew.
const (
	defaultMaxClockSkew = time.Hour
	minClockSkew        = time.Minute
	maxClockSkew        = 12 * time.Hour // half of the shortest retention
)

// window is what the store's clock may show now.
func (m *Module) window() store.Window {
	now := m.cfg.Now()
	return store.Window{From: now.Add(-m.cfg.MaxClockSkew), To: now.Add(m.cfg.MaxClockSkew)}
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
