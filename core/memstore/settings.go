package memstore

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/auth19/idem/core/store"
)

// KeepScoping implements [store.Settings].
func (s *Store) KeepScoping(ctx context.Context, namespace, fingerprint string) (string, error) {
	return get(ctx, s, func(time.Time) (string, error) {
		if len(s.scopings) == 0 {
			s.scopings[namespace] = fingerprint
		}
		return s.scopings[namespace], nil
	})
}

// AdoptScoping implements [store.Settings].
func (s *Store) AdoptScoping(ctx context.Context, namespace, fingerprint string) error {
	return s.do(ctx, func(time.Time) error { s.scopings[namespace] = fingerprint; return nil })
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
	if e != nil && e.at(now).Spent() {
		return false
	}
	name, ofRoute := floorNames(c.Realm, c.Method, c.Route)
	if !c.Key.Timed {
		name = ofRoute
	}
	return c.Key.Allows(now, s.floors[name])
}

// raiseTo raises a floor of timed keys. Floors are by service, and by service and route.
func (s *Store) raiseTo(name string, t time.Time) {
	if t.After(s.floors[name]) {
		s.floors[name] = t
	}
}

// RefuseKeysBefore implements [store.Settings].
func (s *Store) RefuseKeysBefore(ctx context.Context, service []byte, r store.Refusal) error {
	return s.do(ctx, func(now time.Time) error {
		if !r.Window.Has(now) {
			return store.ErrClock
		}
		if id := store.RefusalsID(service); r.Who != "" {
			s.history[id] = append(s.history[id], Settled{Who: r.Who, Why: r.Why, At: now,
				After: store.Record{Ticket: store.Ticket{ID: id, Fence: r.Before.UnixMicro()}}})
		}
		t := r.Before.Add(-time.Nanosecond) // a key that was made then is not before it
		s.raiseTo(string(service), t)
		for _, name := range slices.Concat(slices.Collect(maps.Keys(s.floors)), slices.Collect(maps.Keys(s.ages))) {
			if strings.HasPrefix(name, string(service)) {
				s.raiseTo(name, t)
			}
		}
		return nil
	})
}

// KeepAge implements [store.Settings].
func (s *Store) KeepAge(ctx context.Context, service []byte, route string, age time.Duration, w store.Window,
) (store.AgeLimit, error) {
	return get(ctx, s, func(now time.Time) (store.AgeLimit, error) {
		name := string(service) + route // as in floorNames
		kept := s.ages[name]
		next := kept.Next(age, w.Later(now))
		if next == kept {
			return kept, nil
		}
		if !w.Has(now) {
			return store.AgeLimit{}, store.ErrClock
		}
		s.ages[name] = next
		if !next.Left.IsZero() { // what was refused on the route until now, stays so
			s.raiseTo(name, next.Floor())
			s.raiseTo(name, s.floors[string(service)])
		}
		return next, nil
	})
}
