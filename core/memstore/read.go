package memstore

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/auth19/idem/core/store"
)

// Find implements [store.Store]. The record of a key that is free again is returned until a sweep drops it.
func (s *Store) Find(ctx context.Context, id store.ID) (store.Record, error) {
	if err := alive(ctx); err != nil {
		return store.Record{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.records[id]
	if e == nil {
		return store.Record{}, store.ErrNotFound
	}
	return e.read(s.now()), nil
}

// List implements [store.Store]. It looks at every record: it is for operators and the reconciler.
func (s *Store) List(ctx context.Context, within []byte, after store.ID, limit int) ([]store.Record, error) {
	return s.list(ctx, within, after, limit, func(r store.Record) bool { return r.State() == store.Unknown })
}

// Resumable implements [store.Stepper]. It looks at every record.
func (s *Store) Resumable(ctx context.Context, within []byte, after store.ID, limit int) ([]store.Record, error) {
	return s.list(ctx, within, after, limit, func(r store.Record) bool {
		return r.Stored == store.Running && r.Recovery == store.Resume && r.LeaseExpired()
	})
}

// HalfDone implements [store.Stepper]. It looks at every record.
func (s *Store) HalfDone(ctx context.Context, within []byte, after store.ID, limit int) ([]store.Record, error) {
	return s.list(ctx, within, after, limit, store.Record.HalfDone)
}

func (s *Store) list(ctx context.Context, within []byte, after store.ID, limit int,
	wanted func(store.Record) bool,
) ([]store.Record, error) {
	var from store.Record // the zero record comes before all others
	if after != (store.ID{}) {
		var err error
		if from, err = s.Find(ctx, after); err != nil {
			return nil, err
		}
	}
	if err := alive(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []store.Record
	now := s.now()
	for _, e := range s.records {
		if r := e.read(now); older(from, r) < 0 && bytes.HasPrefix(r.Realm[:], within) && wanted(r) {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, older)
	return found[:max(0, min(limit, len(found)))], nil
}

// older orders records by age; the id decides between equals.
func older(a, b store.Record) int {
	return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), bytes.Compare(a.ID[:], b.ID[:]))
}
