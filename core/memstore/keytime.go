package memstore

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/auth19/idem/core/store"
)

// keyTimes are what timed keys are judged by.
type keyTimes struct {
	floors map[string]time.Time // by service, and by service and route
	ages   map[string]store.AgeLimit
}

// serviceLen is how much of a realm stands for the service.
const serviceLen = 8

// floorNames are the names of the floors of a service and of one of its routes.
func floorNames(realm store.Realm, method, route string) (ofService, ofRoute string) {
	ofService = string(realm[:serviceLen])
	return ofService, ofService + method + " " + route
}

// allows reports whether a claim may have a key that has no record, or is free.
func (s *Store) allows(c *store.Claim, e *entry, now time.Time) bool {
	if e != nil && e.spent(now) {
		return false
	}
	name, ofRoute := floorNames(c.Realm, c.Method, c.Route)
	if !c.Key.Timed {
		name = ofRoute
	}
	return c.Key.Allows(now, s.keyTimes.floors[name])
}

// spent is [store.Record.Spent] at now.
func (e *entry) spent(now time.Time) bool {
	e.Now = now
	return e.Spent()
}

// raise raises both floors of a record's key to its time.
func (k *keyTimes) raise(e *entry) {
	ofService, ofRoute := floorNames(e.Realm, e.Method, e.Route)
	k.raiseTo(ofService, e.KeyMade())
	k.raiseTo(ofRoute, e.KeyMade())
}

func (k *keyTimes) raiseTo(name string, t time.Time) {
	if t.After(k.floors[name]) {
		k.floors[name] = t
	}
}

// RefuseKeysBefore implements [store.Settings].
func (s *Store) RefuseKeysBefore(ctx context.Context, service []byte, r store.Refusal) error {
	if err := alive(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if !r.Window.Has(now) {
		return store.ErrClock
	}
	if id := store.RefusalsID(service); r.Who != "" {
		s.history[id] = append(s.history[id], Settled{Who: r.Who, Why: r.Why, At: now,
			After: store.Record{Ticket: store.Ticket{ID: id, Fence: r.Before.UnixMicro()}}})
	}
	k := &s.keyTimes
	t := r.Before.Add(-time.Nanosecond) // a key that was made then is not before it
	k.raiseTo(string(service), t)
	for _, name := range slices.Concat(slices.Collect(maps.Keys(k.floors)), slices.Collect(maps.Keys(k.ages))) {
		if strings.HasPrefix(name, string(service)) {
			k.raiseTo(name, t)
		}
	}
	return nil
}

// KeepAge implements [store.Settings].
func (s *Store) KeepAge(ctx context.Context, service []byte, route string, age time.Duration, w store.Window,
) (store.AgeLimit, error) {
	if err := alive(ctx); err != nil {
		return store.AgeLimit{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, k := s.now(), &s.keyTimes
	name := string(service) + route // as in floorNames
	kept := k.ages[name]
	next := kept.Next(age, w.Later(now))
	if next == kept {
		return kept, nil
	}
	if !w.Has(now) {
		return store.AgeLimit{}, store.ErrClock
	}
	k.ages[name] = next
	if !next.Left.IsZero() { // what was refused on the route until now, stays so
		k.raiseTo(name, next.Floor())
		k.raiseTo(name, k.floors[string(service)])
	}
	return next, nil
}
