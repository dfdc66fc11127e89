package memstore

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/auth19/idem/core/store"
)

// Find implements [store.Store]. The record of a key that is free again is returned until a sweep drops it.
func (s *Store) Find(ctx context.Context, id store.ID, v store.Viewer) (store.Record, error) {
	if err := alive(ctx); err != nil {
		return store.Record{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.records[id]
	if e == nil {
		return store.Record{}, store.ErrNotFound
	}
	rec := e.read(s.now())
	if !v.Sees(rec) {
		rec.Answer.Header, rec.Answer.Body = nil, nil
	}
	return rec, nil
}

// List implements [store.Operations]. It looks at all open records.
func (s *Store) List(ctx context.Context, q store.Query) ([]store.Record, error) {
	after := store.Record{Ticket: store.Ticket{ID: q.After.ID}, CreatedAt: q.After.CreatedAt}
	found, err := s.openOnes(ctx, func(e *entry, r store.Record) bool {
		behind := older(after, r) < 0
		if q.Newest {
			behind = q.After == (store.Cursor{}) || older(r, after) < 0
		}
		return behind && q.Selects(r) && e.refersTo(q.Refs)
	})
	if q.Newest {
		slices.Reverse(found)
	}
	return found[:max(0, min(q.Limit, len(found)))], err
}

// openOnes returns the wanted ones of the open records, oldest first.
func (s *Store) openOnes(ctx context.Context, wanted func(*entry, store.Record) bool) ([]store.Record, error) {
	if err := alive(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []store.Record
	now := s.now()
	for e := range s.open {
		if r := e.read(now); wanted(e, r) {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, older)
	return found, nil
}

// older orders records by age; the id decides between equals.
func older(a, b store.Record) int {
	return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), bytes.Compare(a.ID[:], b.ID[:]))
}
