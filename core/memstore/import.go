package memstore

import (
	"context"
	"time"

	"github.com/auth19/idem/core/store"
)

// Import implements [store.Operations]. The error is store.ErrFull if there is no room for all of them.
func (s *Store) Import(ctx context.Context, records []store.Record) (done store.Imported, err error) {
	for _, rec := range records {
		err := s.do(ctx, func(now time.Time) error { return s.add(rec, &done, now) })
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// add adds a record, unless its key is taken. The error is store.ErrFull if the store would grow beyond its limit.
func (s *Store) add(rec store.Record, done *store.Imported, now time.Time) error {
	there := s.records[rec.ID]
	switch {
	case s.running[rec.ID] != nil, there != nil && there.Stored == store.Running:
		done.Running++
		return nil
	case there != nil && (there.at(now).State() != store.Free || there.at(now).Spent()):
		return nil
	case there != nil:
		rec.Fence, rec.Timed = there.Fence+1, rec.Timed || there.Timed
		done.Replaced++
	case s.count >= s.max:
		return store.ErrFull
	default:
		s.count++
		done.Added++
	}
	rec.Traceparent = ""
	e := &entry{Record: rec}
	e.answer(rec.Answer)
	s.records[rec.ID] = e
	return nil
}

// Mark implements [store.Operations]. The error is store.ErrFull if there is no room for all of them.
func (s *Store) Mark(ctx context.Context, m store.Marking) (done store.Imported, err error) {
	err = s.do(ctx, func(now time.Time) error {
		if !m.Window.Has(now) {
			return store.ErrClock
		}
		for _, id := range m.IDs {
			before := done.Added + done.Replaced
			if err := s.add(m.Record(id, now), &done, now); err != nil {
				return err
			}
			if done.Added+done.Replaced == before {
				continue
			}
			after := s.records[id].read(now)
			was := after
			was.Stored, was.Fence = store.Free, after.Fence-1
			s.settled(Settled{Who: m.Who, Why: m.Why, At: now, Before: was, After: after})
		}
		return nil
	})
	return done, err
}

// Adopt implements [store.Operations].
func (s *Store) Adopt(ctx context.Context, c store.Claim) error {
	return s.do(ctx, func(time.Time) error {
		if e := s.records[c.ID]; e != nil && e.Ownerless() {
			e.Scope, e.Realm, e.Method, e.Route, e.Timed = c.Scope, c.Realm, c.Method, c.Route, e.Timed || c.Key.Timed
		}
		return nil
	})
}
