package memstore

import (
	"context"

	"github.com/auth19/idem/core/store"
)

// Mark implements [store.Operations]. The error is store.ErrFull if there is no room for all of them.
func (s *Store) Mark(ctx context.Context, m store.Marking) (done store.Imported, err error) {
	if err := alive(ctx); err != nil {
		return done, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if !m.Window.Has(now) {
		return done, store.ErrClock
	}
	for _, id := range m.IDs {
		before := done.Added + done.Replaced
		if !s.addLocked(m.Record(id, now), &done) {
			return done, store.ErrFull
		}
		if done.Added+done.Replaced == before {
			continue
		}
		after := s.records[id].read(now)
		was := after
		was.Stored, was.Fence = store.Free, after.Fence-1
		s.history[id] = append(s.history[id], Settled{Who: m.Who, Why: m.Why, At: now, Before: was, After: after})
	}
	return done, nil
}

// Adopt implements [store.Operations].
func (s *Store) Adopt(ctx context.Context, c store.Claim) error {
	if err := alive(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.records[c.ID]; e != nil && e.Ownerless() {
		e.Scope, e.Realm, e.Method, e.Route, e.Timed = c.Scope, c.Realm, c.Method, c.Route, e.Timed || c.Key.Timed
	}
	return nil
}
