package gormstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/auth19/idem/core/store"
)

// Find implements [store.Store].
func (s *Store) Find(ctx context.Context, id store.ID) (rec store.Record, err error) {
	err = s.onPool(ctx, func(q querier) error {
		var scan recordScan
		if rec, err = s.scan(ctx, q, id, &scan); err == nil && hasOutcome(rec) {
			err = s.confirm(ctx, &scan)
		}
		return err
	})
	return rec, err
}

func (s *Store) find(ctx context.Context, q querier, id store.ID) (store.Record, error) {
	return s.scan(ctx, q, id, &recordScan{})
}

// scan reads a record, and the backend that has read it.
func (s *Store) scan(ctx context.Context, q querier, id store.ID, scan *recordScan) (store.Record, error) {
	var now instant
	err := s.queryRow(ctx, q, find, id[:]).Scan(scan.targets(&now)...)
	if errors.Is(err, sql.ErrNoRows) {
		return store.Record{}, store.ErrNotFound
	}
	if err != nil {
		return store.Record{}, err
	}
	return scan.record(now.Time)
}

// List implements [store.Store].
func (s *Store) List(ctx context.Context, within []byte, after store.ID, limit int) ([]store.Record, error) {
	return s.list(ctx, "unknown", within, after, limit)
}

// Resumable implements [store.Stepper].
func (s *Store) Resumable(ctx context.Context, within []byte, after store.ID, limit int) ([]store.Record, error) {
	return s.list(ctx, "resumable", within, after, limit)
}

// HalfDone implements [store.Stepper].
func (s *Store) HalfDone(ctx context.Context, within []byte, after store.ID, limit int) ([]store.Record, error) {
	return s.list(ctx, "half done", within, after, limit)
}

// list reads a page of the records that the statement list calls which, behind the record last.
func (s *Store) list(ctx context.Context, which string, within []byte, last store.ID, limit int,
) (recs []store.Record, err error) {
	err = s.reading(ctx, func(q querier) error {
		page := page{which: which, within: within, limit: limit}
		if last != (store.ID{}) {
			previous, err := s.find(ctx, q, last)
			if err != nil {
				return err // an empty page would say that there are no more records
			}
			page.after = store.Place{CreatedAt: previous.CreatedAt, ID: last}
		}
		recs, err = s.page(ctx, q, page)
		return err
	})
	return recs, err
}

// reading runs fn in a transaction that reads. On PostgreSQL it reads at read committed: it must not make claims fail to
// serialize. Nothing is compiled.
func (s *Store) reading(ctx context.Context, fn func(q querier) error) error {
	opts := &sql.TxOptions{ReadOnly: true}
	if s.dialect == postgres {
		opts.Isolation = sql.LevelReadCommitted
	}
	tx, err := s.pool.BeginTx(ctx, opts)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if s.dialect == postgres {
		if _, err := s.exec(ctx, tx, withoutJIT); err != nil {
			return err
		}
	}
	return fn(tx)
}

// page says what the statement list returns. The zero after comes before all records.
type page struct {
	which       string
	within      []byte
	after       store.Place
	route       string // "POST /v1/payouts"; "": any
	scope       store.Scope
	from, until time.Time
	newest      bool // first
	limit       int
}

// principal is the scope as the statements take it: empty for any.
func (p page) principal() []byte {
	if p.scope == (store.Scope{}) {
		return []byte{}
	}
	return p.scope[:]
}

// notNull is b as a parameter: nil would be NULL.
func notNull(b []byte) []byte { return append([]byte{}, b...) }

// page reads a page.
func (s *Store) page(ctx context.Context, q querier, p page) ([]store.Record, error) {
	beat, err := s.readBeat(ctx, q)
	if err != nil {
		return nil, err
	}
	if p.until.IsZero() {
		p.until = endOfTime
	}
	name := list
	if p.newest {
		if name = listNewest; p.after == (store.Place{}) {
			p.after.CreatedAt = endOfTime
		}
	}
	at := s.dialect.instant
	rows, err := s.query(ctx, q, name, p.limit, notNull(p.within), at(p.after.CreatedAt), p.after.ID[:], p.which, beat.passed,
		p.route, at(p.from), at(p.until), p.principal())
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var records []store.Record
	for rows.Next() {
		var now instant
		var scan recordScan
		if err := rows.Scan(scan.targets(&now)...); err != nil {
			return nil, err
		}
		rec, err := scan.record(now.Time)
		if err != nil {
			return nil, err
		}
		records = append(records, rec)
	}
	return records, rows.Err()
}

// Survey implements [store.Operations]. It reads the index of the open operations, which the sweep keeps.
func (s *Store) Survey(ctx context.Context, within []byte, limit int) (all []store.Backlog, err error) {
	realm := append([]byte{}, within...) // nil would be NULL
	err = s.reading(ctx, func(q querier) error {
		rows, err := s.query(ctx, q, survey, limit, realm)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var b store.Backlog
			var oldest instant
			if err := rows.Scan(&b.HalfDone, &b.Method, &b.Route, &b.Count, &oldest); err != nil {
				return err
			}
			b.Oldest = oldest.Time
			all = append(all, b)
		}
		return rows.Err()
	})
	return all, err
}

// CountOpen implements [store.Operations]. It reads at most limit entries of an index, and takes a slot as claims do.
func (s *Store) CountOpen(ctx context.Context, scope store.Scope, limit int) (n int, err error) {
	if err := s.enterClaim(ctx); err != nil {
		return 0, err
	}
	defer s.leaveClaim()
	err = s.onPool(ctx, func(q querier) error {
		return s.queryRow(ctx, q, countOpen, scope[:], limit).Scan(&n)
	})
	return n, err
}
