package txn

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/auth19/idem/core/store"
)

// How far the database's clock and this process's may be apart, as core.Config.MaxClockSkew (T-5).
const (
	DefaultClockSkew = time.Hour
	minClockSkew     = time.Minute
	maxClockSkew     = 12 * time.Hour
)

// CheckClockSkew returns an error that names MaxClockSkew if skew is outside of the bounds.
func CheckClockSkew(skew time.Duration) error {
	if skew < minClockSkew || skew > maxClockSkew {
		return fmt.Errorf("MaxClockSkew is %s: use %s to %s", skew, minClockSkew, maxClockSkew)
	}
	return nil
}

// Around is what the database's clock may show while this process's shows now.
func Around(now time.Time, skew time.Duration) store.Window {
	return store.Window{From: now.Add(-skew), To: now.Add(skew)}
}

// ClockWithin reads the database's clock. The error is store.ErrClock if it is outside of w.
func (d *Database) ClockWithin(ctx context.Context, q Querier, w store.Window) (time.Time, error) {
	var us int64
	err := d.QueryRow(ctx, q, Clock).Scan(&us)
	now := time.UnixMicro(us)
	if err == nil && !w.Has(now) {
		err = store.ErrClock
	}
	return now, err
}

// Micros is a point in time in microseconds since 1970; 0 for the zero time.
func Micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// Moment is a point in time as statements return it, in microseconds since 1970; NULL where there is none.
type Moment = pgtype.Int8

// Time is a point in time that was read; the zero time for NULL.
func Time(us Moment) time.Time {
	if !us.Valid {
		return time.Time{}
	}
	return time.UnixMicro(us.Int64)
}

// Latest is the end of a window in microseconds since 1970.
func Latest(w store.Window) int64 {
	if w.To.IsZero() {
		return math.MaxInt64
	}
	return w.To.UnixMicro()
}
