package memstore

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/auth19/idem/core/store"
)

// Sweep implements [store.Store].
func (s *Store) Sweep(ctx context.Context, limit int, w store.Window) (store.Swept, error) {
	return get(ctx, s, func(now time.Time) (store.Swept, error) {
		if !w.Has(now) {
			return store.Swept{}, store.ErrClock
		}
		swept := s.sweep(now, limit)
		// One that is behind another one that is kept longer waits for it.
		for swept.CommandLog < min(limit, len(s.commands)) && !now.Before(s.commands[swept.CommandLog].until) {
			swept.CommandLog++
		}
		s.commands = s.commands[swept.CommandLog:]
		return swept, nil
	})
}

// sweep sweeps up to limit records of each kind: an answer is kept for its retention, what is left of it until its tombstone
// ends, the row of a freed key for as long as its fence is remembered. Running and unknown rows stay (T-3).
func (s *Store) sweep(now time.Time, limit int) (swept store.Swept) {
	for _, e := range s.records {
		switch {
		case e.isOpen():
		case !now.Before(e.PurgeAt):
			if swept.Dropped < limit {
				s.drop(e)
				swept.Dropped++
			}
		case e.Stored == store.Completed && !now.Before(e.ExpiresAt) && swept.Tombstones < limit:
			s.tombstone(e)
			swept.Tombstones++
		}
	}
	return swept
}

// tombstone leaves of an answer what [store.Record] says is left: the status. Of steps and references nothing is left.
func (s *Store) tombstone(e *entry) {
	e.steps, e.references = nil, nil
	s.blankNotes(e.ID)
	e.answer(store.Answer{Status: e.Answer.Status})
	e.Stored = store.Expired
}

// drop forgets a row. The floors of a timed key are raised before.
func (s *Store) drop(e *entry) {
	if e.Timed && e.Stored != store.Free {
		ofService, ofRoute := floorNames(e.Realm, e.Method, e.Route)
		s.raiseTo(ofService, e.KeyMade())
		s.raiseTo(ofRoute, e.KeyMade())
	}
	s.blankNotes(e.ID)
	delete(s.records, e.ID)
	if s.running[e.ID] == nil { // else its place is that of the attempt which is running
		s.count--
	}
}

// Erase implements [store.Operations]. It looks at every record in one batch, whatever the limit.
func (s *Store) Erase(ctx context.Context, scope store.Scope, _ store.ID, _ int) (store.ErasedPage, error) {
	return get(ctx, s, func(now time.Time) (page store.ErasedPage, err error) {
		for _, e := range s.records {
			switch {
			case e.Scope != scope:
			case e.isOpen():
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
	})
}

// eraseHistory leaves of the answers in the history of settlements what a tombstone leaves of them.
func (s *Store) eraseHistory(id store.ID) {
	for i := range s.history[id] {
		entry := &s.history[id][i]
		entry.Before.Answer = store.Answer{Status: entry.Before.Answer.Status}
		entry.After.Answer = store.Answer{Status: entry.After.Answer.Status}
	}
}
