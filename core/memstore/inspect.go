package memstore

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/auth19/idem/core/store"
)

// Find implements [store.Store]. The record of a key that is free again is returned until a sweep drops it.
func (s *Store) Find(ctx context.Context, id store.ID, v store.Viewer) (store.Record, error) {
	return get(ctx, s, func(now time.Time) (store.Record, error) {
		e := s.records[id]
		if e == nil {
			return store.Record{}, store.ErrNotFound
		}
		rec := e.read(now)
		if !v.Sees(rec) {
			rec.Answer.Header, rec.Answer.Body = nil, nil
		}
		return rec, nil
	})
}

// List implements [store.Operations].
func (s *Store) List(ctx context.Context, q store.Query) ([]store.Record, error) {
	after := store.Record{Ticket: store.Ticket{ID: q.After.ID}, CreatedAt: q.After.CreatedAt}
	found, err := s.openOnes(ctx, func(e *entry, r store.Record) bool {
		behind := older(after, r) < 0
		if q.Newest {
			behind = q.After == (store.Cursor{}) || older(r, after) < 0
		}
		return behind && q.Selects(r) && e.refersTo(q.Refs)
	})
	if q.Newest {
		slices.Reverse(found)
	}
	return first(found, q.Limit), err
}

// openOnes returns the wanted ones of the open records, oldest first.
func (s *Store) openOnes(ctx context.Context, wanted func(*entry, store.Record) bool) (found []store.Record, err error) {
	err = s.do(ctx, func(now time.Time) error {
		for _, e := range s.records {
			if !e.isOpen() {
				continue
			}
			if r := e.read(now); wanted(e, r) {
				found = append(found, r)
			}
		}
		slices.SortFunc(found, older)
		return nil
	})
	return found, err
}

// older orders records by age; the id decides between equals.
func older(a, b store.Record) int {
	return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), bytes.Compare(a.ID[:], b.ID[:]))
}

// first returns the first ones of a list, up to limit.
func first[T any](list []T, limit int) []T { return list[:max(0, min(limit, len(list)))] }

// CountOpen implements [store.Operations].
func (s *Store) CountOpen(ctx context.Context, scope store.Scope, limit int) (n int, err error) {
	found, err := s.openOnes(ctx, func(_ *entry, r store.Record) bool { return r.Scope == scope && !r.HalfDone() })
	return min(len(found), limit), err
}

// Count implements [store.Operations].
func (s *Store) Count(ctx context.Context, q store.Query) ([]store.Count, error) {
	found, err := s.openOnes(ctx, func(_ *entry, r store.Record) bool { return q.Selects(r) })
	var counts []store.Count
	for _, r := range first(found, q.Limit) { // the oldest one of each line comes first
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

// Flow implements [store.Operations].
func (s *Store) Flow(ctx context.Context, within []byte, hours int) ([]store.Hour, error) {
	needs := store.Query{Unknown: true, HalfDone: true, Within: within}
	return get(ctx, s, func(now time.Time) ([]store.Hour, error) {
		flow := make([]store.Hour, hours)
		count := func(at time.Time, hour func(*store.Hour)) {
			if ago := int(now.Sub(at) / time.Hour); ago >= 0 && ago < hours {
				hour(&flow[ago])
			}
		}
		came := func(h *store.Hour) { h.Came++ }
		for _, e := range s.records {
			if e.isOpen() && needs.Selects(e.read(now)) {
				count(e.CreatedAt, came)
			}
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
	})
}

// OpenSteps implements [store.Operations].
func (s *Store) OpenSteps(ctx context.Context, within []byte, limit int) (steps []store.OpenStep, err error) {
	found, err := s.openOnes(ctx, func(_ *entry, r store.Record) bool { return r.Realm.Within(within) })
	for _, r := range first(found, limit) {
		before := len(steps)
		all, err := s.Steps(ctx, r.ID)
		if err != nil {
			return nil, err
		}
		for _, step := range all {
			if step.Kind == store.ProviderStep {
				steps = append(steps, store.OpenStep{ID: r.ID, Step: step.Name})
			}
		}
		if len(steps) == before {
			steps = append(steps, store.OpenStep{ID: r.ID})
		}
	}
	return steps, err
}

// Near implements [store.Operations].
func (s *Store) Near(ctx context.Context, within []byte, n store.Near, limit int) ([]store.ID, error) {
	return get(ctx, s, func(time.Time) (ids []store.ID, err error) {
		for id, e := range s.records {
			if bytes.Compare(id[:], n.First[:]) >= 0 && bytes.Compare(id[:], n.Last[:]) <= 0 &&
				bytes.HasSuffix(id[:], n.End) && bytes.HasPrefix(e.Realm[:], within) {
				ids = append(ids, id)
			}
		}
		slices.SortFunc(ids, func(a, b store.ID) int { return bytes.Compare(a[:], b[:]) })
		return first(ids, limit), nil
	})
}

// LastAnswered implements [store.Operations].
func (s *Store) LastAnswered(ctx context.Context, within []byte, method, route string) (store.Record, error) {
	return get(ctx, s, func(now time.Time) (last store.Record, err error) { // the zero record comes before all others
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
	})
}
