package memstore

import (
	"context"
	"slices"
	"time"

	"github.com/auth19/idem/core/store"
)

// Settled is an entry of the history of settlements: who decided what, when and why, what undid the steps, and the
// record before and after it.
type Settled struct {
	Who, Why      string
	Undone        string
	At            time.Time
	Before, After store.Record
}

// Settle implements [store.Operations].
func (s *Store) Settle(ctx context.Context, d store.Settlement) (store.Record, error) {
	if err := alive(ctx); err != nil {
		return store.Record{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	e := s.records[d.ID]
	if e == nil {
		return store.Record{}, store.ErrNotFound
	}
	before := e.read(now)
	if err := settleable(before, d.Fence, d.Window); err != nil {
		return store.Record{}, err
	}
	if d.Proposal != ([16]byte{}) {
		p := s.proposal(d.ID, d.Proposal, d.Fence)
		if p == nil || p.Who == d.Who {
			return store.Record{}, store.ErrStale
		}
		p.Kind = store.CarriedOut
	}
	e.ended(before.EndsBefore())
	e.Fence++
	if d.Answer != nil {
		s.complete(e, *d.Answer, now)
	} else {
		s.free(e, now)
	}
	after := e.read(now)
	s.history[d.ID] = append(s.history[d.ID], Settled{
		Who: d.Who, Why: d.Why, Undone: d.Undone, At: now, Before: before, After: after,
	})
	return after, nil
}

// settleable says why a record cannot be settled.
func settleable(r store.Record, fence int64, w store.Window) error {
	switch {
	case !w.Has(r.Now):
		return store.ErrClock
	case r.State() != store.Unknown || !r.LeaseExpired() || r.Now.Before(r.Deadline):
		return store.ErrNotSettleable
	case r.Fence != fence:
		return store.ErrStale
	}
	return nil
}

// Intervene implements [store.Operations].
func (s *Store) Intervene(ctx context.Context, i store.Intervention) (store.Record, error) {
	if err := alive(ctx); err != nil {
		return store.Record{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	e := s.records[i.ID]
	if e == nil {
		return store.Record{}, store.ErrNotFound
	}
	before := e.read(now)
	switch {
	case !i.Window.Has(now):
		return store.Record{}, store.ErrClock
	case !before.HalfDone():
		return store.Record{}, store.ErrNotSettleable
	case before.Fence != i.Fence:
		return store.Record{}, store.ErrStale
	case i.GiveUp:
		e.Ends = before.EndsBefore()
		s.become(e, store.Unknown)
	default:
		e.Ends = before.EndsBefore()
		e.LeaseUntil = now.Add(before.LeaseUntil.Sub(before.NextAttempt(i.Pause)))
	}
	after := e.read(now)
	s.history[i.ID] = append(s.history[i.ID], Settled{Who: i.Who, Why: i.Why, At: now, Before: before, After: after})
	return after, nil
}

// Settlements returns the settlements of an operation, oldest first. They are never dropped, not even with the
// record. It never fails, and waits for nothing.
func (s *Store) Settlements(id store.ID) []Settled {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.history[id])
}
