package memstore

import (
	"bytes"
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

// settled appends to the history of an operation.
func (s *Store) settled(h Settled) {
	s.history[h.After.ID] = append(s.history[h.After.ID], h)
}

// Settle implements [store.Operations].
func (s *Store) Settle(ctx context.Context, d store.Settlement) (store.Record, error) {
	return get(ctx, s, func(now time.Time) (store.Record, error) {
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
			e.complete(*d.Answer, now)
		} else {
			e.free(now)
		}
		after := e.read(now)
		s.settled(Settled{Who: d.Who, Why: d.Why, Undone: d.Undone, At: now, Before: before, After: after})
		return after, nil
	})
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
	return get(ctx, s, func(now time.Time) (store.Record, error) {
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
		}
		e.Ends = before.EndsBefore()
		if i.GiveUp {
			e.Stored = store.Unknown
		} else {
			e.LeaseUntil = now.Add(before.LeaseUntil.Sub(before.NextAttempt(i.Pause)))
		}
		after := e.read(now)
		s.settled(Settled{Who: i.Who, Why: i.Why, At: now, Before: before, After: after})
		return after, nil
	})
}

// Settlements returns the settlements of an operation, oldest first. They are never dropped, not even with the
// record. It never fails, and waits for nothing.
func (s *Store) Settlements(id store.ID) []Settled {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.history[id])
}

// History implements [store.Operations].
func (s *Store) History(ctx context.Context, id store.ID) ([]store.SettlementRecord, error) {
	return get(ctx, s, func(time.Time) (history []store.SettlementRecord, err error) {
		for _, h := range s.history[id] {
			history = append(history, h.record())
		}
		return history, nil
	})
}

func (h Settled) record() store.SettlementRecord {
	return store.SettlementRecord{
		At: h.At, Who: h.Who, Why: h.Why, Undone: h.Undone, BeforeFence: h.Before.Fence, BeforeState: h.Before.State(),
		BeforeStored: h.Before.Stored,
		AfterFence:   h.After.Fence, AfterState: h.After.Stored, AfterStatus: h.After.Answer.Status,
	}
}

// LastSettled implements [store.Operations].
func (s *Store) LastSettled(ctx context.Context, within []byte, by string, limit int) ([]store.SettledOperation, error) {
	return get(ctx, s, func(time.Time) (found []store.SettledOperation, err error) {
		for id, history := range s.history {
			for _, h := range history {
				if bytes.HasPrefix(h.After.Realm[:], within) && (by == "" || h.Who == by) {
					found = append(found, store.SettledOperation{SettlementRecord: h.record(), ID: id, Method: h.After.Method,
						Route: h.After.Route})
				}
			}
		}
		slices.SortStableFunc(found, func(a, b store.SettledOperation) int { return b.At.Compare(a.At) })
		return first(found, limit), nil
	})
}
