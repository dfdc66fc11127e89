package store

import (
	"context"
	"time"
)

// Settings is a Store that keeps what all instances and releases have to agree about: the Scoping of its records (S-4), the
// ages of timed keys, and floors of keys that are refused. A policy can ask for TimedKey only on such a store.
//
// Floors are times that only rise (T-6). A key that has no record, or a freed one, is refused if it was made at its floor
// or before: the claim is KeyRefused. There is one floor for all timed keys of a service. Each route has a floor, too:
// after the route has left TimedKey, it applies to UUIDv7 keys without KeyTime.Timed. service is the first 8 bytes of a
// [Realm]. If the store drops the record of a timed key, it raises both floors to the key's time in the same step, unless
// the record was freed. So at each moment there is either the record or the floor.
type Settings interface {
	Store

	// KeepScoping returns the fingerprint that the store has for a namespace. If the store has no fingerprint at all,
	// because its database is new, it stores this one. It returns "" if the store has fingerprints, but none for this
	// namespace.
	KeepScoping(ctx context.Context, namespace, fingerprint string) (kept string, err error)
	// AdoptScoping stores a fingerprint for a namespace, and replaces an earlier one.
	AdoptScoping(ctx context.Context, namespace, fingerprint string) error

	// KeepAge stores the age limit of a route's timed keys, 0 if its keys are not timed, and returns the stored value. It
	// computes this with [AgeLimit.Next], at the later of both clocks ([Window.Later]). If the route leaves TimedKey, its
	// floor rises to [AgeLimit.Floor] in the same step. ErrClock if something must be written and the store's clock is
	// outside of w.
	KeepAge(ctx context.Context, service []byte, route string, age time.Duration, w Window) (AgeLimit, error)
	// RefuseKeysBefore raises all floors of a service so that keys made before r.Before are refused. Where r.Who is set, it
	// adds a SettlementRecord to the history of [RefusalsID]. ErrClock if the store's clock is outside of r.Window. If ctx
	// has a transaction of this store, it commits with it.
	RefuseKeysBefore(ctx context.Context, service []byte, r Refusal) error
}

// Refusal is the argument of Settings.RefuseKeysBefore.
type Refusal struct {
	Before   time.Time
	Window   Window // what the store's clock may show (T-5)
	Who, Why string // who decided, and the reason; kept
}

// RefusalsID is the id by which the history has the refusals of a service. No record has it.
func RefusalsID(service []byte) (id ID) {
	copy(id[:], service)
	return id
}

// KeyTime is the time in a claim's key, and what that allows. The zero KeyTime is for a key that has no time: it is never
// judged.
type KeyTime struct {
	// Made is the time in the key, in whole milliseconds of the client's clock. It is zero if the key is not judged.
	Made time.Time
	// Timed: the route takes only timed keys. It is kept with the record. While the store's clock is outside of
	// Claim.Window, no such key can be claimed.
	Timed bool
	// Valid is when a key without a record may be claimed: while the store's clock is inside this window. The zero Window
	// allows any time.
	Valid Window
}

// Allows reports whether a key without a record may be claimed at now, by the store's clock. floor is the newest time
// that is refused; the zero time if there is none.
func (k KeyTime) Allows(now, floor time.Time) bool {
	return k.Made.IsZero() || k.Valid.Has(now) && k.Made.After(floor)
}

// AgeLimit is the age limit of a route's timed keys. The store keeps it for all instances and releases. Its times are
// those of the later of both clocks, the store's and the process's, because each of them may have refused a key.
type AgeLimit struct {
	Age   time.Duration // for keys that were made at Since or later
	Since time.Time     // when Age became longer
	// Before is the age limit for keys that were made before Since. The earlier policy judges them, because a key that was
	// refused as too old must never run.
	Before time.Duration
	// Left is when the route left TimedKey. Zero while its keys are timed.
	Left time.Time
}

// Next returns the AgeLimit that the store must keep from now on, for a module whose policy says age. now is the later of
// both clocks. age is 0 if the keys of the route are not timed.
//
// The zero AgeLimit belongs to a route that had no timed keys before. Of the keys from before, only those of the last 24 h
// are accepted: the records of the route have stayed for 48 h at least (Retention and Tombstone). The same holds for a
// route that has left TimedKey and comes back.
func (k AgeLimit) Next(age time.Duration, now time.Time) AgeLimit {
	never, left := k == (AgeLimit{}), !k.Left.IsZero()
	switch {
	case age == 0 && (never || left):
		return k
	case age == 0:
		k.Left = now
		return k
	case never:
		return AgeLimit{Age: age, Since: now, Before: min(age, MinRetention)}
	case left:
		return AgeLimit{Age: age, Since: now, Before: min(age, MinRetention, k.Age, k.Before)}
	case age <= k.Age:
		return AgeLimit{Age: age, Since: k.Since, Before: min(age, k.Before)}
	}
	before := k.Age
	if now.Before(k.Since.Add(MaxRetention)) { // keys from before Since may still be sent
		before = min(before, k.Before)
	}
	return AgeLimit{Age: age, Since: now, Before: before}
}

// Of is the age limit for a key that was made at made.
func (k AgeLimit) Of(made time.Time) time.Duration {
	if made.Before(k.Since) {
		return min(k.Age, k.Before)
	}
	return k.Age
}

// Floor is the newest time of a key that was too old when the route left TimedKey: such keys stay refused. It is the zero
// time if the route has not left TimedKey.
func (k AgeLimit) Floor() time.Time {
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
