package memstore

import (
	"context"
	"slices"

	"github.com/auth19/idem/core/store"
)

// Annotate implements [store.Operations].
func (s *Store) Annotate(ctx context.Context, n store.Note) error {
	if err := alive(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.records[n.ID]
	switch {
	case slices.ContainsFunc(s.notes[n.ID], func(o store.Note) bool { return o.Token == n.Token }):
		return nil
	case e == nil:
		return store.ErrNotFound
	case e.Stored != store.Running && e.Stored != store.Unknown:
		return store.ErrNotSettleable
	}
	n.At = s.now()
	s.notes[n.ID] = append(s.notes[n.ID], n)
	return nil
}

// Notes implements [store.Operations].
func (s *Store) Notes(ctx context.Context, ids []store.ID) (map[store.ID][]store.Note, error) {
	if err := alive(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	notes := map[store.ID][]store.Note{}
	for _, id := range ids {
		if of := s.notes[id]; len(of) > 0 {
			notes[id] = slices.Clone(of)
		}
	}
	return notes, nil
}

// blankNotes leaves of an operation's notes who and when. It reports whether there was a text.
func (s *Store) blankNotes(id store.ID) (found bool) {
	for i := range s.notes[id] {
		found = found || s.notes[id][i].Text != ""
		s.notes[id][i].Text = ""
	}
	return found
}
