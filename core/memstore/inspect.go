package memstore

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/auth19/idem/core/store"
)

var _ store.Operations = (*Store)(nil)

// Count implements [store.Operations]. It looks at all open records.
func (s *Store) Count(ctx context.Context, q store.Query) ([]store.Count, error) {
	found, err := s.openOnes(ctx, func(_ *entry, r store.Record) bool { return q.Selects(r) })
	var counts []store.Count
	for _, r := range found[:max(0, min(q.Limit, len(found)))] { // the oldest one of each line comes first
		halfDone := r.State() != store.Unknown
		i := slices.IndexFunc(counts, func(c store.Count) bool {
			return c.HalfDone == halfDone && c.Method == r.Method && c.Route == r.Route
		})
		if i < 0 {
			i = len(counts)
			counts = append(counts, store.Count{HalfDone: halfDone, Method: r.Method, Route: r.Route, Oldest: r.CreatedAt,
				Now: r.Now})
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

// Flow implements [store.Operations]. It looks at all open records, and all settlements.
func (s *Store) Flow(ctx context.Context, within []byte, hours int) ([]store.Hour, error) {
	needs := store.Query{Unknown: true, HalfDone: true, Within: within}
	open, err := s.openOnes(ctx, func(_ *entry, r store.Record) bool { return needs.Selects(r) })
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	flow, now := make([]store.Hour, hours), s.now()
	count := func(at time.Time, hour func(*store.Hour)) {
		if ago := int(now.Sub(at) / time.Hour); ago >= 0 && ago < hours {
			hour(&flow[ago])
		}
	}
	came := func(h *store.Hour) { h.Came++ }
	for _, r := range open {
		count(r.CreatedAt, came)
	}
	for id, history := range s.history {
		e := s.records[id]
		for _, h := range history {
			settled := h.After.Stored == store.Completed || h.After.Stored == store.Free
			if settled && e != nil && e.Realm.Within(within) && now.Sub(h.At) < time.Duration(hours)*time.Hour {
				count(h.At, func(h *store.Hour) { h.Settled++ })
				count(e.CreatedAt, came)
			}
		}
	}
	return flow, nil
}

// OpenSteps implements [store.Operations]. It looks at all open records.
func (s *Store) OpenSteps(ctx context.Context, within []byte, limit int) (steps []store.OpenStep, err error) {
	found, err := s.openOnes(ctx, func(_ *entry, r store.Record) bool { return r.Realm.Within(within) })
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
	if err := alive(ctx); err != nil {
		return store.Record{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var last store.Record // the zero record comes before all others
	now := s.now()
	for _, e := range s.records {
		r := e.read(now)
		if r.Realm.Within(within) && r.State() == store.Completed && r.Answer.Status < 300 && !r.Answer.Partial &&
			r.Method == method && r.Route == route && older(last, r) < 0 {
			last = r
		}
	}
	if last.ID == (store.ID{}) {
		return store.Record{}, store.ErrNotFound
	}
	return last, nil
}
