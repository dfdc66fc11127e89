package gormstore

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// Find implements [store.Store].
func (s *Store) Find(ctx context.Context, id store.ID, v store.Viewer) (store.Record, error) {
	if v.All {
		return s.findOnPool(ctx, v.Sees, find, id[:])
	}
	first, last := realms(v.Realm)
	if len(v.Realm) == 0 {
		first, last = last, first // none is in between
	}
	scope := v.Scope[:]
	if v.Scope == (store.Scope{}) {
		scope = []byte{} // that of a marked record is nobody's
	}
	return s.findOnPool(ctx, v.Sees, findFor, id[:], scope, first, last)
}

// findOnPool reads a record. What is told of an outcome must be on the standby.
func (s *Store) findOnPool(ctx context.Context, accept func(store.Record) bool, by txn.Statement, args ...any) (
	rec store.Record, err error) {
	err = s.db.OnPool(ctx, func(q txn.Querier) error {
		var scan recordScan
		if rec, err = s.scan(ctx, q, &scan, by, args...); err == nil && hasOutcome(rec) && accept(rec) {
			err = s.db.ConfirmRead(ctx, scan.Server)
		}
		return err
	})
	return rec, err
}

func (s *Store) find(ctx context.Context, q txn.Querier, id store.ID) (store.Record, error) {
	return s.scan(ctx, q, &recordScan{}, find, id[:])
}

// scan reads a record, and the backend that has read it.
func (s *Store) scan(ctx context.Context, q txn.Querier, scan *recordScan, by txn.Statement, args ...any) (
	store.Record, error) {
	var now pgtype.Int8
	err := s.db.QueryRow(ctx, q, by, args...).Scan(scan.targets(&now)...)
	if errors.Is(err, sql.ErrNoRows) {
		return store.Record{}, store.ErrNotFound
	}
	if err != nil {
		return store.Record{}, err
	}
	return scan.record(ctx, s.sealer, txn.Time(now))
}

// realms are the first and the last realm that begin with within.
func realms(within []byte) (first, last []byte) {
	var f, l store.Realm
	copy(f[:], within)
	for i := copy(l[:], within); i < len(l); i++ {
		l[i] = 0xff
	}
	return f[:], l[:]
}

// List implements [store.Operations]. It reads a page and no more from the index of open records.
func (s *Store) List(ctx context.Context, query store.Query) (recs []store.Record, err error) {
	name, first := txn.List, query.From
	if query.Newest {
		name, first = txn.ListNewest, untilOf(query)
	}
	after := query.After
	if after == (store.Cursor{}) {
		after.CreatedAt = first
	}
	err = s.reading(ctx, func(q txn.Querier) error {
		open, cancel := opening(ctx)
		defer cancel()
		recs = nil
		return s.db.Each(ctx, q, name, func(scan func(...any) error) error {
			var now pgtype.Int8
			var row recordScan
			if err := scan(row.targets(&now)...); err != nil {
				return err
			}
			rec, err := row.record(open, s.sealer, txn.Time(now))
			recs = append(recs, rec)
			return err
		}, append(append(selected(query), txn.Micros(after.CreatedAt), after.ID[:]), referring(query.Refs)...)...)
	})
	return recs, err
}

// selected are the parameters by which list and count select records.
func selected(query store.Query) []any {
	route, scope := "", []byte{} // any
	if query.Route != "" {
		route = query.Method + " " + query.Route
	}
	if query.Scope != (store.Scope{}) {
		scope = query.Scope[:]
	}
	_, last := realms(query.Within)
	return []any{query.Limit, notNull(query.Within), last, query.Unknown, query.Resumable, query.HalfDone, route,
		scope, txn.Micros(query.From), txn.Micros(untilOf(query))}
}

// untilOf is the end of the time of a query.
func untilOf(q store.Query) time.Time {
	if q.Until.IsZero() {
		return time.UnixMicro(math.MaxInt64)
	}
	return q.Until
}

// notNull is b as a parameter: nil would be NULL.
func notNull(b []byte) []byte { return append([]byte{}, b...) }

// reading runs fn in a transaction that reads. On PostgreSQL it reads at read committed: it must not make claims fail to
// serialize. Nothing is compiled.
func (s *Store) reading(ctx context.Context, fn func(q txn.Querier) error) error {
	return s.db.Reading(ctx, func(q txn.Querier) error {
		if _, err := s.db.Exec(ctx, q, withoutJIT); err != nil {
			return err
		}
		return fn(q)
	})
}

// CountOpen implements [store.Operations]. It reads at most limit entries of an index, and takes a slot as claims do.
func (s *Store) CountOpen(ctx context.Context, scope store.Scope, limit int) (n int, err error) {
	if err := s.db.EnterClaim(ctx); err != nil {
		return 0, err
	}
	defer s.db.LeaveClaim()
	err = s.db.OnPool(ctx, func(q txn.Querier) error {
		return s.db.QueryRow(ctx, q, countOpen, scope[:], limit).Scan(&n)
	})
	return n, err
}

// Count implements [store.Operations]. It reads entries of the index by which List finds records.
func (s *Store) Count(ctx context.Context, query store.Query) (counts []store.Count, err error) {
	err = s.reading(ctx, func(q txn.Querier) error {
		counts = nil
		return s.db.Each(ctx, q, count, func(scan func(...any) error) error {
			var c store.Count
			var now, oldest int64
			var halfDone txn.Flag
			err := scan(&now, &halfDone, &c.Method, &c.Route, &c.Count, &c.Hour, &c.Day, &oldest)
			c.HalfDone, c.Oldest, c.Now = bool(halfDone), time.UnixMicro(oldest), time.UnixMicro(now)
			counts = append(counts, c)
			return err
		}, selected(query)...)
	})
	return counts, err
}

// Flow implements [store.Operations]. It reads the indexes by which List and LastSettled find records.
func (s *Store) Flow(ctx context.Context, within []byte, hours int) (all []store.Hour, err error) {
	first, last := realms(within)
	err = s.reading(ctx, func(q txn.Querier) error {
		all = make([]store.Hour, hours)
		return s.db.Each(ctx, q, flow, func(scan func(...any) error) error {
			var ago int
			var h store.Hour
			if err := scan(&ago, &h.Came, &h.Settled); err != nil {
				return err
			}
			if ago >= 0 && ago < hours {
				all[ago] = h
			}
			return nil
		}, first, last, hours)
	})
	return all, err
}

// OpenSteps implements [store.Operations].
func (s *Store) OpenSteps(ctx context.Context, within []byte, limit int) (steps []store.OpenStep, err error) {
	err = s.reading(ctx, func(q txn.Querier) error {
		steps = nil
		return s.db.Each(ctx, q, openSteps, func(scan func(...any) error) error {
			var id []byte
			var step store.OpenStep
			if err := scan(&id, &step.Step); err != nil {
				return err
			}
			step.ID = store.ID(id)
			steps = append(steps, step)
			return nil
		}, limit, notNull(within))
	})
	return steps, err
}

// Near implements [store.Operations]. It reads by the primary key.
func (s *Store) Near(ctx context.Context, within []byte, n store.Near, limit int) ([]store.ID, error) {
	return s.ids(ctx, near, n.First[:], n.Last[:], notNull(n.End), notNull(within), limit)
}

// ids runs a statement that returns ids, each once.
func (s *Store) ids(ctx context.Context, name txn.Statement, args ...any) (ids []store.ID, err error) {
	err = s.reading(ctx, func(q txn.Querier) error {
		ids = nil
		return s.db.Each(ctx, q, name, func(scan func(...any) error) error {
			var raw []byte
			if err := scan(&raw); err != nil {
				return err
			}
			if id := store.ID(raw); !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
			return nil
		}, args...)
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
	return s.Find(ctx, ids[0], store.Viewer{All: true})
}

// settlements runs a statement that returns settlements.
func (s *Store) settlements(ctx context.Context, name txn.Statement, args ...any) (all []store.SettledOperation, err error) {
	err = s.reading(ctx, func(q txn.Querier) error {
		all = nil
		return s.db.Each(ctx, q, name, func(scan func(...any) error) error {
			var r store.SettledOperation
			var at int64
			var id []byte
			if err := scan(&at, &r.Who, &r.Why, &r.Undone, &r.BeforeFence, &r.BeforeStored, &r.AfterFence, &r.AfterState,
				&r.AfterStatus, &id, &r.Method, &r.Route); err != nil {
				return err
			}
			r.At, r.ID, r.BeforeState = time.UnixMicro(at).UTC(), store.ID(id), store.Unknown // nothing else can be settled
			if r.Marked() || r.BeforeStored == 0 {
				r.BeforeState = r.BeforeStored
			}
			all = append(all, r)
			return nil
		}, args...)
	})
	return all, err
}
