package store

import (
	"errors"
	"time"
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
