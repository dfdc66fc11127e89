package memstore

import (
	"context"

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

// opened and closed are called where a row becomes running, and where it is neither running nor unknown any more.
func (s *Store) opened(e *entry) { s.open[e] = struct{}{} }
func (s *Store) closed(e *entry) { delete(s.open, e) }
