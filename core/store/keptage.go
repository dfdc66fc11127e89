package store

import (
	"time"
)

// KeptAge is the age limit of a route's timed keys. The store keeps it for all instances and releases. Its times are
// those of the later of both clocks, the store's and the process's, because each of them may have refused a key.
type KeptAge struct {
	Age   time.Duration // for keys that were made at Since or later
	Since time.Time     // when Age became longer
	// Before is the age limit for keys that were made before Since. The earlier policy judges them, because a key that was
	// refused as too old must never run.
	Before time.Duration
	// Left is when the route left TimedKey. Zero while its keys are timed.
	Left time.Time
}

// Next returns the KeptAge that the store must keep from now on, for a module whose policy says age. now is the later of
// both clocks. age is 0 if the keys of the route are not timed.
//
// The zero KeptAge belongs to a route that had no timed keys before. Of the keys from before, only those of the last 24 h
// are accepted: the records of the route have stayed for 48 h at least (Retention and Tombstone). The same holds for a
// route that has left TimedKey and comes back.
func (k KeptAge) Next(age time.Duration, now time.Time) KeptAge {
	never, left := k == (KeptAge{}), !k.Left.IsZero()
	switch {
	case age == 0 && (never || left):
		return k
	case age == 0:
		k.Left = now
		return k
	case never:
		return KeptAge{Age: age, Since: now, Before: min(age, MinRetention)}
	case left:
		return KeptAge{Age: age, Since: now, Before: min(age, MinRetention, k.Age, k.Before)}
	case age <= k.Age:
		return KeptAge{Age: age, Since: k.Since, Before: min(age, k.Before)}
	}
	before := k.Age
	if now.Before(k.Since.Add(MaxRetention)) { // keys from before Since may still be sent
		before = min(before, k.Before)
	}
	return KeptAge{Age: age, Since: now, Before: before}
}

// Of is the age limit for a key that was made at made.
func (k KeptAge) Of(made time.Time) time.Duration {
	if made.Before(k.Since) {
		return min(k.Age, k.Before)
	}
	return k.Age
}

// Floor is the newest time of a key that was too old when the route left TimedKey: such keys stay refused. It is the zero
// time if the route has not left TimedKey.
func (k KeptAge) Floor() time.Time {
	if k.Left.IsZero() {
		return time.Time{}
	}
	inTime := k.Left.Add(-k.Age) // the time of the oldest key that was accepted
	if inTime.Before(k.Since) {
		inTime = k.Left.Add(-min(k.Age, k.Before))
		if k.Since.Before(inTime) {
			inTime = k.Since
		}
	}
	return inTime.Add(-time.Nanosecond)
}
