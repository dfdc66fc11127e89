package memstore

import (
	"context"
	"math"
	"time"

	"github.com/auth19/idem/core/store"
)

// Sweep implements [store.Store].
func (s *Store) Sweep(ctx context.Context, limit int, w store.Window) (store.Swept, error) {
	if err := alive(ctx); err != nil {
		return store.Swept{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if !w.Has(now) {
		return store.Swept{}, store.ErrClock
	}
	swept := s.sweep(now, limit)
	swept.CommandLog = s.commands.sweep(now, limit)
	return swept, nil
}

// sweep sweeps up to limit records of each kind.
func (s *Store) sweep(now time.Time, limit int) (swept store.Swept) {
	for _, state := range [...]store.State{store.Completed, store.Expired, store.Free} {
		for e := s.queues[state].due(now); e != nil; e = s.queues[state].due(now) {
			if now.Before(e.PurgeAt) {
				if swept.Tombstones >= limit {
					break
				}
				s.tombstone(e)
				swept.Tombstones++
				continue
			}
			if swept.Dropped >= limit {
				break
			}
			s.drop(e)
			swept.Dropped++
		}
	}
	return swept
}

// tombstone leaves of an answer what [store.Record] says is left: the status. Of steps and references nothing is left.
func (s *Store) tombstone(e *entry) {
	s.unqueue(e)
	e.steps, e.references = nil, nil
	s.blankNotes(e.ID)
	e.answer(store.Answer{Status: e.Answer.Status})
	s.become(e, store.Expired)
}

// makeRoom drops records that say nothing any more: those past their time, and failing that the longest freed key, which
// costs nothing but the memory of its fence. False if all records are needed (T-4).
func (s *Store) makeRoom(w store.Window) bool {
	if now := s.now(); w.Has(now) {
		s.sweep(now, math.MaxInt)
	}
	for e := s.queues[store.Free].first(); e != nil && s.count >= s.max; e = s.queues[store.Free].first() {
		s.drop(e)
	}
	return s.count < s.max
}

// drop forgets a row. The floors of a timed key are raised before.
func (s *Store) drop(e *entry) {
	if e.Timed && e.Stored != store.Free {
		s.keyTimes.raise(e)
	}
	s.unqueue(e)
	s.blankNotes(e.ID)
	delete(s.records, e.ID)
	if s.running[e.ID] == nil { // else its place is that of the attempt which is running
		s.count--
	}
}
