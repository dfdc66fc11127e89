package gormstore

import (
	"context"
	"time"

	"github.com/auth19/idem/core/store"
)

// clockWithin reads the database's clock. The error is store.ErrClock if it is outside of w.
func (d *database) clockWithin(ctx context.Context, q querier, w store.Window) (time.Time, error) {
	var now instant
	err := d.queryRow(ctx, q, clock).Scan(&now)
	if err == nil && !w.Has(now.Time) {
		err = store.ErrClock
	}
	return now.Time, err
}

// micros is a point in time in microseconds since 1970; 0 for the zero time.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// latest is the end of a window in microseconds since 1970.
func latest(w store.Window) int64 {
	if w.To.IsZero() {
		return endOfTime.UnixMicro()
	}
	return w.To.UnixMicro()
}

// endOfTime is later than any clock.
var endOfTime = time.Date(9999, time.January, 1, 0, 0, 0, 0, time.UTC)
