package memstore

import (
	"bytes"
	"context"
	"slices"

	"github.com/auth19/idem/core/store"
)

// Erase implements [store.Operations]. It looks at every record in one batch, whatever the limit.
func (s *Store) Erase(ctx context.Context, scope store.Scope, _ store.ID, _ int) (page store.ErasedPage, err error) {
	if err := alive(ctx); err != nil {
		return page, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for _, e := range s.records {
		if e.Scope != scope {
			continue
		}
		switch {
		case e.Stored == store.Running, e.Stored == store.Unknown:
			page.Open = append(page.Open, e.ID)
		case e.Stored == store.Completed:
			s.tombstone(e)
			if now.Before(e.ExpiresAt) {
				e.ExpiresAt = now
			}
			s.eraseHistory(e.ID)
			page.Records++
		case e.Stored == store.Free && (s.blankNotes(e.ID) || len(e.steps)+len(e.references) > 0):
			e.steps, e.references = nil, nil
			page.Records++
		}
	}
	slices.SortFunc(page.Open, func(a, b store.ID) int { return bytes.Compare(a[:], b[:]) })
	return page, nil
}

// eraseHistory leaves of the answers in the history of settlements what a tombstone leaves of them.
func (s *Store) eraseHistory(id store.ID) {
	for i := range s.history[id] {
		entry := &s.history[id][i]
		entry.Before.Answer = store.Answer{Status: entry.Before.Answer.Status}
		entry.After.Answer = store.Answer{Status: entry.After.Answer.Status}
	}
}
