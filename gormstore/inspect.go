package gormstore

import (
	"context"
	"time"

	"github.com/auth19/idem/core"
)

// Unsettled implements [core.Inspectable].
func (s *Store) Unsettled(ctx context.Context, query core.UnsettledQuery) (recs []core.Record, err error) {
	p := page{within: query.Within, after: query.After, from: query.From, until: query.Until, limit: query.Limit}
	switch {
	case query.Unknown && query.HalfDone:
		p.which = "unsettled"
	case query.HalfDone:
		p.which = "half done"
	case query.Unknown:
		p.which = "unknown"
	default:
		return nil, nil
	}
	if query.Route != "" {
		p.route = query.Method + " " + query.Route
	}
	err = s.reading(ctx, func(q querier) (err error) {
		recs, err = s.page(ctx, q, p)
		return err
	})
	return recs, err
}

// CountUnsettled implements [core.Inspectable]. It reads entries of the indexes by which List finds records.
func (s *Store) CountUnsettled(ctx context.Context, within []byte, limit int) (counts []core.UnsettledCount, err error) {
	realm := append([]byte{}, within...) // nil would be NULL
	err = s.reading(ctx, func(q querier) error {
		beat, err := s.readBeat(ctx, q)
		if err != nil {
			return err
		}
		rows, err := s.query(ctx, q, countUnsettled, limit, realm, beat.passed)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var c core.UnsettledCount
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

// History implements [core.Inspectable]. It reads by the primary key of the history.
func (s *Store) History(ctx context.Context, id core.ID) (settlements []core.SettlementRecord, err error) {
	err = s.reading(ctx, func(q querier) error {
		rows, err := s.query(ctx, q, history, id[:])
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var r core.SettlementRecord
			var at instant
			if err := rows.Scan(&at, &r.Who, &r.Why, &r.Undone, &r.BeforeFence, &r.BeforeState, &r.AfterFence, &r.AfterState,
				&r.AfterStatus); err != nil {
				return err
			}
			r.At = at.In(time.UTC)
			settlements = append(settlements, r)
		}
		return rows.Err()
	})
	return settlements, err
}
