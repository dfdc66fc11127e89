package memstore

import (
	"context"
	"math"

	"github.com/auth19/idem/core/store"
)

// Sweep implements [store.Store].
func (s *Store) Sweep(ctx context.Context, limit int, w store.Window) (store.Swept, error) {
	var swept store.Swept
	if !w.Has(s.now()) {
		return swept, store.ErrClock
	}
	for i := range s.shards {
		if err := alive(ctx); err != nil {
			return swept, err
		}
		s.sweep(&s.shards[i], limit, w, &swept)
	}
	swept.Sightings = s.sightings.sweep(s.now(), limit)
	return swept, nil
}

// sweep adds to swept what it did in one shard, up to limit of each.
func (s *Store) sweep(sh *shard, limit int, w store.Window, swept *store.Swept) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := s.now()
	if !w.Has(now) {
		return
	}
	for _, state := range [...]store.State{store.Completed, store.Expired, store.Free} {
		for e := sh.queues[state].due(now); e != nil; e = sh.queues[state].due(now) {
			if now.Before(e.PurgeAt) {
				if swept.Tombstones >= limit {
					break
				}
				sh.tombstone(e)
				swept.Tombstones++
				continue
			}
			if swept.Dropped >= limit {
				break
			}
			s.drop(sh, e)
			swept.Dropped++
		}
	}
}

// tombstone leaves of an answer what [store.Record] says is left: the status. Of steps and references nothing is left.
func (sh *shard) tombstone(e *entry) {
	sh.unqueue(e)
	e.steps, e.references = nil, nil
	e.answer(store.Answer{Status: e.Answer.Status})
	sh.become(e, store.Expired)
}

// makeRoom drops records that say nothing any more: those past their time, and failing that the longest freed key of
// some shard, which costs nothing but the memory of its fence. False if all records are needed (T-4).
func (s *Store) makeRoom(w store.Window) bool {
	for i := range s.shards {
		var swept store.Swept
		if s.sweep(&s.shards[i], math.MaxInt, w, &swept); swept.Dropped > 0 {
			return true
		}
	}
	for i := range s.shards {
		if s.dropFreed(&s.shards[i]) {
			return true
		}
	}
	return false
}

func (s *Store) dropFreed(sh *shard) bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := sh.queues[store.Free].first()
	if e == nil {
		return false
	}
	s.drop(sh, e)
	return true
}

// drop forgets a row. The floors of a timed key are raised before: a claim of the key waits for the shard's lock.
func (s *Store) drop(sh *shard, e *entry) {
	if e.Timed && e.Stored != store.Free {
		s.keyTimes.raise(e)
	}
	sh.unqueue(e)
	delete(sh.records, e.ID)
	if sh.running[e.ID] == nil { // else its place is that of the attempt which is running
		s.count.Add(-1)
	}
}
