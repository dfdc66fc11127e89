package memstore

import (
	"context"
	"slices"
	"time"

	"github.com/auth19/idem/core"
)

// Settled is an entry of the history of settlements: who decided what, when and why, what undid the steps, and the
// record before and after it.
type Settled struct {
	Who, Why      string
	Undone        string
	At            time.Time
	Before, After core.Record
}

// Settle implements [core.Store].
func (s *Store) Settle(ctx context.Context, d core.Settlement) (core.Record, error) {
	if err := alive(ctx); err != nil {
		return core.Record{}, err
	}
	sh := s.shard(d.ID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := s.now()
	e := sh.records[d.ID]
	if e == nil {
		return core.Record{}, core.ErrNotFound
	}
	before := e.read(now)
	switch {
	case !d.Window.Has(now):
		return core.Record{}, core.ErrClock
	case before.State() != core.Unknown || !before.LeaseExpired() || now.Before(before.Deadline):
		return core.Record{}, core.ErrNotSettleable
	case before.Fence != d.Fence:
		return core.Record{}, core.ErrStale
	}
	e.Fence++
	if d.Answer != nil {
		sh.complete(e, *d.Answer, now)
	} else {
		sh.free(e, now)
	}
	after := e.read(now)
	if sh.history == nil {
		sh.history = map[core.ID][]Settled{}
	}
	sh.history[d.ID] = append(sh.history[d.ID], Settled{
		Who: d.Who, Why: d.Why, Undone: d.Undone, At: now, Before: before, After: after,
	})
	return after, nil
}

// Settlements returns the settlements of an operation, oldest first. They are never dropped, not even with the
// record. It never fails, and waits for nothing.
func (s *Store) Settlements(id core.ID) []Settled {
	sh := s.shard(id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return slices.Clone(sh.history[id])
}
