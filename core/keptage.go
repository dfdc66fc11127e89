package core

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"sync/atomic"
	"time"
)

// KeptAge is the age of a route's timed keys, as the store keeps it for all instances and releases. Its times are those of
// the later of both clocks: a key may have been refused by either.
type KeptAge struct {
	Age   time.Duration // of keys that were made at Since or later
	Since time.Time     // when Age became longer
	// Before is the age of keys that were made before Since: the earlier policy judges them, because a key that
	// was refused as too old must never run.
	Before time.Duration
	// Left is when the route left TimedKey. Zero while its keys are timed.
	Left time.Time
}

// Next returns what is to be kept for a module whose policy says age, at now by the later of both clocks. An age of 0 is
// that of a route whose keys are not timed.
//
// The zero KeptAge is that of a route that had no timed keys before: its records stay for 48 h at least, and of keys from
// before only those of the last 24 h are taken. The same holds for a route that has left TimedKey and comes back.
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
	if now.Before(k.Since.Add(MaxRetention)) { // keys from before that are still of interest
		before = min(before, k.Before)
	}
	return KeptAge{Age: age, Since: now, Before: before}
}

// of is the age for a key that was made at made.
func (k KeptAge) of(made time.Time) time.Duration {
	if made.Before(k.Since) {
		return min(k.Age, k.Before)
	}
	return k.Age
}

// Floor is the newest time of a key that was too old when the route left TimedKey: such keys stay refused. The zero time
// where the route has not left it.
func (k KeptAge) Floor() time.Time {
	if k.Left.IsZero() {
		return time.Time{}
	}
	inTime := k.Left.Add(-k.Age) // the oldest key that was not too old
	if inTime.Before(k.Since) {
		inTime = earlier(k.Since, k.Left.Add(-min(k.Age, k.Before)))
	}
	return inTime.Add(-time.Nanosecond)
}

// keptAges are what the store has said of the ages of routes, by method and pattern.
type keptAges struct {
	atomic.Pointer[map[routeKey]KeptAge]
}

// find returns the kept age of a route that the store was asked for.
func (k *keptAges) find(name routeKey) (kept KeptAge, ok bool) {
	if known := k.Load(); known != nil {
		kept, ok = (*known)[name]
	}
	return kept, ok
}

// add is called by one at a time.
func (k *keptAges) add(name routeKey, kept KeptAge) {
	all := map[routeKey]KeptAge{name: kept}
	if known := k.Load(); known != nil {
		maps.Copy(all, *known)
	}
	k.Store(&all)
}

// keptAge returns the kept age of the request's route. The module asks the store once for each route.
func (m *Module) keptAge(ctx context.Context, store KeyTimer, adm *admission) (KeptAge, error) {
	name := routeKey{adm.command.method, adm.pattern}
	if kept, ok := m.ages.find(name); ok {
		return kept, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.cfg.ClaimTimeout)
	defer cancel()
	select { // one asks, as in CheckScoping
	case m.asking <- struct{}{}:
		defer func() { <-m.asking }()
	case <-ctx.Done():
		return KeptAge{}, ctx.Err()
	}
	if kept, ok := m.ages.find(name); ok {
		return kept, nil
	}
	age := adm.route.KeyAge
	if !adm.route.timed() {
		age = 0
	}
	kept, err := store.KeepAge(ctx, m.service, name.method+" "+name.pattern, age, m.window())
	if err == nil {
		m.ages.add(name, kept)
	}
	return kept, err
}

// takeAge finds out whether the key of a request is too old. A route that has left TimedKey still refuses what was too old
// until then.
func (m *Module) takeAge(r *http.Request, adm *admission) *Problem {
	store, ok := m.cfg.Store.(KeyTimer) // New has refused any other store of timed keys
	if !ok || adm.keyMade.IsZero() {
		return nil
	}
	kept, err := m.keptAge(r.Context(), store, adm)
	switch {
	case errors.Is(err, ErrClock):
		m.tellClock(r.Context(), err)
		adm.unaged = true
	case err != nil:
		m.claimFailed(r, adm, err)
		return m.unavailable(err)
	case adm.route.timed():
		adm.keyAge = kept.of(adm.keyMade)
	default:
		adm.tooOld = !adm.keyMade.After(kept.Floor())
	}
	return nil
}
