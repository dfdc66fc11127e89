package storetest

import (
	"sync/atomic"
	"testing"
	"time"
)

// Clock is a clock that stands still until it is moved, for stores that take one. The zero value is ready and stands
// at the first of January 2026.
type Clock struct{ moved atomic.Int64 }

// Now returns the time on the clock.
func (c *Clock) Now() time.Time {
	return time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(c.moved.Load()))
}

// Advance moves the clock on by d; it fits [Subject].Advance.
func (c *Clock) Advance(_ *testing.T, d time.Duration) { c.moved.Add(int64(d)) }
