package memstore

import (
	"context"

	"github.com/auth19/idem/core/store"
)

// Import implements [store.Operations]. The error is store.ErrFull if there is no room for all of them.
func (s *Store) Import(ctx context.Context, records []store.Record) (done store.Imported, err error) {
	for _, rec := range records {
		if err := alive(ctx); err != nil {
			return done, err
		}
		if !s.add(rec, &done) {
			return done, store.ErrFull
		}
	}
	return done, nil
}

// add returns false if the store would grow beyond its limit.
func (s *Store) add(rec store.Record, done *store.Imported) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addLocked(rec, done)
}

func (s *Store) addLocked(rec store.Record, done *store.Imported) bool {
	there := s.records[rec.ID]
	switch {
	case s.running[rec.ID] != nil, there != nil && there.Stored == store.Running:
		done.Running++
		return true
	case there != nil && (there.state(s.now()) != store.Free || there.spent(s.now())):
		return true
	case there != nil:
		s.unqueue(there)
		rec.Fence, rec.Timed = there.Fence+1, rec.Timed || there.Timed
		done.Replaced++
	case s.count >= s.max:
		return false
	default:
		s.count++
		done.Added++
	}
	rec.Traceparent = ""
	e := &entry{Record: rec}
	e.answer(rec.Answer)
	s.records[rec.ID] = e
	s.become(e, rec.Stored)
	if rec.Stored == store.Running || rec.Stored == store.Unknown {
		s.opened(e)
	}
	return true
}
