package memstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/auth19/idem/core/store"
)

// CountOpen implements [store.Operations]. It looks at all open records.
func (s *Store) CountOpen(ctx context.Context, scope store.Scope, limit int) (n int, err error) {
	if err := alive(ctx); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for e := range s.open {
		if e.Now = now; e.Scope == scope && !e.HalfDone() {
			n++
		}
	}
	return min(n, limit), nil
}

// Survey implements [store.Operations]. It looks at all open records.
func (s *Store) Survey(ctx context.Context, within []byte, limit int) ([]store.Backlog, error) {
	found, err := s.unsettled(ctx, within, func(r store.Record) bool { return r.State() == store.Unknown || r.HalfDone() })
	if err != nil {
		return nil, err
	}
	var all []store.Backlog
	for _, r := range found[:max(0, min(limit, len(found)))] {
		b := store.Backlog{HalfDone: r.State() != store.Unknown, Method: r.Method, Route: r.Route, Count: 1, Oldest: r.CreatedAt}
		at, known := slices.BinarySearchFunc(all, b, byRoute)
		if known {
			all[at].Count++ // the first one was the oldest
			continue
		}
		all = slices.Insert(all, at, b)
	}
	return all, nil
}

func byRoute(a, b store.Backlog) int {
	if a.HalfDone != b.HalfDone {
		if a.HalfDone {
			return 1
		}
		return -1
	}
	return cmp.Or(cmp.Compare(a.Route, b.Route), cmp.Compare(a.Method, b.Method))
}

// opened and closed are called where a row becomes running, and where it is neither running nor unknown any more.
func (s *Store) opened(e *entry) { s.open[e] = struct{}{} }
func (s *Store) closed(e *entry) { delete(s.open, e) }
