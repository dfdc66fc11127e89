package memstore

import (
	"bytes"
	"context"
	"math"
	"slices"
	"time"

	"github.com/auth19/idem/core/store"
)

var _ store.Operations = (*Store)(nil)

// Unsettled implements [store.Operations]. It looks at all open records.
func (s *Store) Unsettled(ctx context.Context, q store.UnsettledQuery) ([]store.Record, error) {
	after := store.Record{Ticket: store.Ticket{ID: q.After.ID}, CreatedAt: q.After.CreatedAt}
	found, err := s.unsettled(ctx, q.Within, func(r store.Record) bool {
		behind := older(after, r) < 0
		if q.Newest {
			behind = q.After == (store.Place{}) || older(r, after) < 0
		}
		return behind && selects(q, r)
	})
	if q.Newest {
		slices.Reverse(found)
	}
	return found[:max(0, min(q.Limit, len(found)))], err
}

// selects reports whether a record belongs to a query, wherever its page begins.
func selects(q store.UnsettledQuery, r store.Record) bool {
	return (q.Unknown && r.State() == store.Unknown || q.HalfDone && r.HalfDone()) &&
		(q.Route == "" || r.Method == q.Method && r.Route == q.Route) && (q.Scope == store.Scope{} || r.Scope == q.Scope) &&
		!r.CreatedAt.Before(q.From) && (q.Until.IsZero() || r.CreatedAt.Before(q.Until))
}

// CountUnsettled implements [store.Operations]. It looks at all open records.
func (s *Store) CountUnsettled(ctx context.Context, q store.UnsettledQuery) ([]store.UnsettledCount, error) {
	found, err := s.unsettled(ctx, q.Within, func(r store.Record) bool { return selects(q, r) })
	var counts []store.UnsettledCount
	for _, r := range found[:max(0, min(q.Limit, len(found)))] { // the oldest one of each line comes first
		i := slices.IndexFunc(counts, func(c store.UnsettledCount) bool {
			return c.HalfDone == r.HalfDone() && c.Method == r.Method && c.Route == r.Route
		})
		if i < 0 {
			i = len(counts)
			counts = append(counts, store.UnsettledCount{HalfDone: r.HalfDone(), Method: r.Method, Route: r.Route,
				Oldest: r.CreatedAt, Now: r.Now})
		}
		counts[i].Count++
		if age := counts[i].Now.Sub(r.CreatedAt); age >= 24*time.Hour {
			counts[i].Hour, counts[i].Day = counts[i].Hour+1, counts[i].Day+1
		} else if age >= time.Hour {
			counts[i].Hour++
		}
	}
	return counts, err
}

// OpenSteps implements [store.Operations]. It looks at all open records.
func (s *Store) OpenSteps(ctx context.Context, within []byte, limit int) (steps []store.OpenStep, err error) {
	found, err := s.unsettled(ctx, within, func(store.Record) bool { return true })
	for _, r := range found[:max(0, min(limit, len(found)))] {
		none := true
		all, err := s.Steps(ctx, r.ID)
		if err != nil {
			return nil, err
		}
		for _, step := range all {
			if step.Kind == store.ProviderStep {
				none = false
				steps = append(steps, store.OpenStep{ID: r.ID, Step: step.Name})
			}
		}
		if none {
			steps = append(steps, store.OpenStep{ID: r.ID})
		}
	}
	return steps, err
}

// Near implements [store.Operations]. It looks at every record.
func (s *Store) Near(ctx context.Context, within []byte, n store.Near, limit int) (ids []store.ID, err error) {
	if err := alive(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, e := range s.records {
		if bytes.Compare(id[:], n.First[:]) >= 0 && bytes.Compare(id[:], n.Last[:]) <= 0 && bytes.HasSuffix(id[:], n.End) &&
			bytes.HasPrefix(e.Realm[:], within) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b store.ID) int { return bytes.Compare(a[:], b[:]) })
	return ids[:max(0, min(limit, len(ids)))], nil
}

// unsettled returns the wanted ones of the open records of a realm, oldest first.
func (s *Store) unsettled(ctx context.Context, within []byte, wanted func(store.Record) bool) ([]store.Record, error) {
	if err := alive(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []store.Record
	now := s.now()
	for e := range s.open {
		if r := e.read(now); bytes.HasPrefix(r.Realm[:], within) && wanted(r) {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, older)
	return found, nil
}

// History implements [store.Operations].
func (s *Store) History(ctx context.Context, id store.ID) ([]store.SettlementRecord, error) {
	if err := alive(ctx); err != nil {
		return nil, err
	}
	var history []store.SettlementRecord
	for _, h := range s.Settlements(id) {
		history = append(history, h.record())
	}
	return history, nil
}

func (h Settled) record() store.SettlementRecord {
	return store.SettlementRecord{
		At: h.At, Who: h.Who, Why: h.Why, Undone: h.Undone, BeforeFence: h.Before.Fence, BeforeState: h.Before.State(),
		BeforeStored: h.Before.Stored,
		AfterFence:   h.After.Fence, AfterState: h.After.Stored, AfterStatus: h.After.Answer.Status,
	}
}

// LastSettled implements [store.Operations]. It looks at all settlements.
func (s *Store) LastSettled(ctx context.Context, within []byte, by string, limit int) ([]store.SettledOperation, error) {
	if err := alive(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []store.SettledOperation
	for id, history := range s.history {
		for _, h := range history {
			if bytes.HasPrefix(h.After.Realm[:], within) && (by == "" || h.Who == by) {
				found = append(found, store.SettledOperation{SettlementRecord: h.record(), ID: id, Method: h.After.Method,
					Route: h.After.Route})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b store.SettledOperation) int { return b.At.Compare(a.At) })
	return found[:max(0, min(limit, len(found)))], nil
}

// LastAnswered implements [store.Operations]. It looks at every record.
func (s *Store) LastAnswered(ctx context.Context, within []byte, method, route string) (store.Record, error) {
	all, err := s.list(ctx, within, store.ID{}, math.MaxInt, func(r store.Record) bool {
		return r.State() == store.Completed && r.Answer.Status < 300 && !r.Answer.Partial && r.Method == method && r.Route == route
	})
	if err == nil && len(all) == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		return store.Record{}, err
	}
	return all[len(all)-1], nil
}
