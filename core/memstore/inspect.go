package memstore

import (
	"bytes"
	"context"
	"math"
	"slices"
	"time"

	"github.com/auth19/idem/core"
)

var _ core.Inspectable = (*Store)(nil)

// Unsettled implements [core.Inspectable]. It looks at all open records.
func (s *Store) Unsettled(ctx context.Context, q core.UnsettledQuery) ([]core.Record, error) {
	after := core.Record{Ticket: core.Ticket{ID: q.After.ID}, CreatedAt: q.After.CreatedAt}
	found, err := s.unsettled(ctx, q.Within, func(r core.Record) bool {
		behind := older(after, r) < 0
		if q.Newest {
			behind = q.After == (core.Place{}) || older(r, after) < 0
		}
		return behind && selects(q, r)
	})
	if q.Newest {
		slices.Reverse(found)
	}
	return found[:max(0, min(q.Limit, len(found)))], err
}

// selects reports whether a record belongs to a query, wherever its page begins.
func selects(q core.UnsettledQuery, r core.Record) bool {
	return (q.Unknown && r.State() == core.Unknown || q.HalfDone && r.HalfDone()) &&
		(q.Route == "" || r.Method == q.Method && r.Route == q.Route) && (q.Scope == core.Scope{} || r.Scope == q.Scope) &&
		!r.CreatedAt.Before(q.From) && (q.Until.IsZero() || r.CreatedAt.Before(q.Until))
}

// CountUnsettled implements [core.Inspectable]. It looks at all open records.
func (s *Store) CountUnsettled(ctx context.Context, q core.UnsettledQuery) ([]core.UnsettledCount, error) {
	found, err := s.unsettled(ctx, q.Within, func(r core.Record) bool { return selects(q, r) })
	var counts []core.UnsettledCount
	for _, r := range found[:max(0, min(q.Limit, len(found)))] { // the oldest one of each line comes first
		i := slices.IndexFunc(counts, func(c core.UnsettledCount) bool {
			return c.HalfDone == r.HalfDone() && c.Method == r.Method && c.Route == r.Route
		})
		if i < 0 {
			i = len(counts)
			counts = append(counts, core.UnsettledCount{HalfDone: r.HalfDone(), Method: r.Method, Route: r.Route,
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

// OpenSteps implements [core.Inspectable]. It looks at all open records.
func (s *Store) OpenSteps(ctx context.Context, within []byte, limit int) (steps []core.OpenStep, err error) {
	found, err := s.unsettled(ctx, within, func(core.Record) bool { return true })
	for _, r := range found[:max(0, min(limit, len(found)))] {
		none := true
		all, err := s.Steps(ctx, r.ID)
		if err != nil {
			return nil, err
		}
		for _, step := range all {
			if step.Kind == core.ProviderStep {
				none = false
				steps = append(steps, core.OpenStep{ID: r.ID, Step: step.Name})
			}
		}
		if none {
			steps = append(steps, core.OpenStep{ID: r.ID})
		}
	}
	return steps, err
}

// Near implements [core.Inspectable]. It looks at every record.
func (s *Store) Near(ctx context.Context, within []byte, n core.Near, limit int) (ids []core.ID, err error) {
	for i := range s.shards {
		if err := alive(ctx); err != nil {
			return nil, err
		}
		ids = s.shards[i].near(ids, within, n)
	}
	slices.SortFunc(ids, func(a, b core.ID) int { return bytes.Compare(a[:], b[:]) })
	return ids[:max(0, min(limit, len(ids)))], nil
}

func (sh *shard) near(ids []core.ID, within []byte, n core.Near) []core.ID {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for id, e := range sh.records {
		if bytes.Compare(id[:], n.First[:]) >= 0 && bytes.Compare(id[:], n.Last[:]) <= 0 && bytes.HasSuffix(id[:], n.End) &&
			bytes.HasPrefix(e.Realm[:], within) {
			ids = append(ids, id)
		}
	}
	return ids
}

// unsettled returns the wanted ones of the open records of a realm, oldest first.
func (s *Store) unsettled(ctx context.Context, within []byte, wanted func(core.Record) bool) ([]core.Record, error) {
	var found []core.Record
	for i := range s.shards {
		if err := alive(ctx); err != nil {
			return nil, err
		}
		found = s.shards[i].unsettled(found, s.now, within, wanted)
	}
	slices.SortFunc(found, older)
	return found, nil
}

func (sh *shard) unsettled(found []core.Record, now func() time.Time, within []byte,
	wanted func(core.Record) bool,
) []core.Record {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	read := now()
	for e := range sh.open {
		if r := e.read(read); bytes.HasPrefix(r.Realm[:], within) && wanted(r) {
			found = append(found, r)
		}
	}
	return found
}

// History implements [core.Inspectable].
func (s *Store) History(ctx context.Context, id core.ID) ([]core.SettlementRecord, error) {
	if err := alive(ctx); err != nil {
		return nil, err
	}
	var history []core.SettlementRecord
	for _, h := range s.Settlements(id) {
		history = append(history, h.record())
	}
	return history, nil
}

func (h Settled) record() core.SettlementRecord {
	return core.SettlementRecord{
		At: h.At, Who: h.Who, Why: h.Why, Undone: h.Undone, BeforeFence: h.Before.Fence, BeforeState: h.Before.State(),
		BeforeStored: h.Before.Stored,
		AfterFence:   h.After.Fence, AfterState: h.After.Stored, AfterStatus: h.After.Answer.Status,
	}
}

// LastSettled implements [core.Inspectable]. It looks at all settlements.
func (s *Store) LastSettled(ctx context.Context, within []byte, by string, limit int) ([]core.SettledOperation, error) {
	var found []core.SettledOperation
	for i := range s.shards {
		if err := alive(ctx); err != nil {
			return nil, err
		}
		found = s.shards[i].settled(found, within, by)
	}
	slices.SortStableFunc(found, func(a, b core.SettledOperation) int { return b.At.Compare(a.At) })
	return found[:max(0, min(limit, len(found)))], nil
}

func (sh *shard) settled(found []core.SettledOperation, within []byte, by string) []core.SettledOperation {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for id, history := range sh.history {
		for _, h := range history {
			if bytes.HasPrefix(h.After.Realm[:], within) && (by == "" || h.Who == by) {
				found = append(found, core.SettledOperation{SettlementRecord: h.record(), ID: id, Method: h.After.Method,
					Route: h.After.Route})
			}
		}
	}
	return found
}

// LastAnswered implements [core.Inspectable]. It looks at every record.
func (s *Store) LastAnswered(ctx context.Context, within []byte, method, route string) (core.Record, error) {
	all, err := s.list(ctx, within, core.ID{}, math.MaxInt, func(r core.Record) bool {
		return r.State() == core.Completed && r.Answer.Status < 300 && !r.Answer.Partial && r.Method == method && r.Route == route
	})
	if err == nil && len(all) == 0 {
		err = core.ErrNotFound
	}
	if err != nil {
		return core.Record{}, err
	}
	return all[len(all)-1], nil
}
