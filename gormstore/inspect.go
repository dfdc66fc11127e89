package gormstore

import (
	"context"
	"slices"
	"time"

	"github.com/auth19/idem/core/store"
)

// Count implements [store.Operations]. It reads entries of the indexes by which List finds records.
func (s *Store) Count(ctx context.Context, query store.Query) (counts []store.Count, err error) {
	err = s.reading(ctx, func(q querier) error {
		selected, err := s.selected(ctx, q, query)
		if err != nil {
			return err
		}
		rows, err := s.query(ctx, q, count, selected...)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var c store.Count
			var now, oldest instant
			var halfDone flag
			if err := rows.Scan(&now, &halfDone, &c.Method, &c.Route, &c.Count, &c.Hour, &c.Day, &oldest); err != nil {
				return err
			}
			c.HalfDone, c.Oldest, c.Now = bool(halfDone), oldest.Time, now.Time
			counts = append(counts, c)
		}
		return rows.Err()
	})
	return counts, err
}

// OpenSteps implements [store.Operations].
func (s *Store) OpenSteps(ctx context.Context, within []byte, limit int) (steps []store.OpenStep, err error) {
	err = s.reading(ctx, func(q querier) error {
		beat, err := s.readBeat(ctx, q)
		if err != nil {
			return err
		}
		rows, err := s.query(ctx, q, openSteps, limit, notNull(within), beat.passed)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var id []byte
			var step store.OpenStep
			if err := rows.Scan(&id, &step.Step); err != nil {
				return err
			}
			step.ID = store.ID(id)
			steps = append(steps, step)
		}
		return rows.Err()
	})
	return steps, err
}

// Near implements [store.Operations]. It reads by the primary key.
func (s *Store) Near(ctx context.Context, within []byte, n store.Near, limit int) ([]store.ID, error) {
	return s.ids(ctx, near, n.First[:], n.Last[:], notNull(n.End), notNull(within), limit)
}

// ids runs a statement that returns ids, each once.
func (s *Store) ids(ctx context.Context, name statement, args ...any) (ids []store.ID, err error) {
	err = s.reading(ctx, func(q querier) error {
		rows, err := s.query(ctx, q, name, args...)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var raw []byte
			if err := rows.Scan(&raw); err != nil {
				return err
			}
			if id := store.ID(raw); !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
		return rows.Err()
	})
	return ids, err
}

// History implements [store.Operations]. It reads by the primary key of the history.
func (s *Store) History(ctx context.Context, id store.ID) ([]store.SettlementRecord, error) {
	settlements, err := s.settlements(ctx, history, id[:])
	var of []store.SettlementRecord
	for _, r := range settlements {
		of = append(of, r.SettlementRecord)
	}
	return of, err
}

// LastSettled implements [store.Operations]. It reads the history in the order of time.
func (s *Store) LastSettled(ctx context.Context, within []byte, by string, limit int) ([]store.SettledOperation, error) {
	return s.settlements(ctx, lastSettled, notNull(within), by, limit)
}

// LastAnswered implements [store.Operations]. It reads the last entries of the index by which the sweep finds records.
func (s *Store) LastAnswered(ctx context.Context, within []byte, method, route string) (store.Record, error) {
	ids, err := s.ids(ctx, lastAnswered, notNull(within), method+" "+route)
	if err == nil && len(ids) == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		return store.Record{}, err
	}
	return s.Find(ctx, ids[0])
}

// settlements runs a statement that returns settlements.
func (s *Store) settlements(ctx context.Context, name statement, args ...any) (all []store.SettledOperation, err error) {
	err = s.reading(ctx, func(q querier) error {
		rows, err := s.query(ctx, q, name, args...)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var r store.SettledOperation
			var at instant
			var id []byte
			if err := rows.Scan(&at, &r.Who, &r.Why, &r.Undone, &r.BeforeFence, &r.BeforeStored, &r.AfterFence, &r.AfterState,
				&r.AfterStatus, &id, &r.Method, &r.Route); err != nil {
				return err
			}
			r.At, r.ID, r.BeforeState = at.In(time.UTC), store.ID(id), store.Unknown // nothing else can be settled
			all = append(all, r)
		}
		return rows.Err()
	})
	return all, err
}
