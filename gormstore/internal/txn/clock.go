package txn

import (
	"context"
	"time"

	"github.com/auth19/idem/core/store"
)

// ClockWithin reads the database's clock. The error is store.ErrClock if it is outside of w.
func (d *Database) ClockWithin(ctx context.Context, q Querier, w store.Window) (time.Time, error) {
	var now Instant
	err := d.QueryRow(ctx, q, Clock).Scan(&now)
	if err == nil && !w.Has(now.Time) {
		err = store.ErrClock
	}
	return now.Time, err
}

// Micros is a point in time in microseconds since 1970; 0 for the zero time.
func Micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// Latest is the end of a window in microseconds since 1970.
func Latest(w store.Window) int64 {
	if w.To.IsZero() {
		return EndOfTime.UnixMicro()
	}
	return w.To.UnixMicro()
}

// EndOfTime is later than any clock.
var EndOfTime = time.Date(9999, time.January, 1, 0, 0, 0, 0, time.UTC)
