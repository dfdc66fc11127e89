package gormstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/auth19/idem/core"
)

// Find implements [core.Store].
func (s *Store) Find(ctx context.Context, id core.ID) (rec core.Record, err error) {
	err = s.onPool(ctx, func(q querier) error {
		var scan recordScan
		if rec, err = s.scan(ctx, q, id, &scan); err == nil && rec.Stored == core.Completed {
			err = s.confirm(ctx, &scan)
		}
		return err
	})
	return rec, err
}

func (s *Store) find(ctx context.Context, q querier, id core.ID) (core.Record, error) {
	return s.scan(ctx, q, id, &recordScan{})
}

// scan reads a record, and the backend that has read it.
func (s *Store) scan(ctx context.Context, q querier, id core.ID, scan *recordScan) (core.Record, error) {
	var now instant
	err := s.queryRow(ctx, q, find, id[:]).Scan(scan.targets(&now)...)
	if errors.Is(err, sql.ErrNoRows) {
		return core.Record{}, core.ErrNotFound
	}
	if err != nil {
		return core.Record{}, err
	}
	return scan.record(now.Time)
}

// List implements [core.Store].
func (s *Store) List(ctx context.Context, within []byte, after core.ID, limit int) ([]core.Record, error) {
	return s.list(ctx, "unknown", within, after, limit)
}

// Resumable implements [core.Stepper].
func (s *Store) Resumable(ctx context.Context, within []byte, after core.ID, limit int) ([]core.Record, error) {
	return s.list(ctx, "resumable", within, after, limit)
}

// HalfDone implements [core.Stepper].
func (s *Store) HalfDone(ctx context.Context, within []byte, after core.ID, limit int) ([]core.Record, error) {
	return s.list(ctx, "half done", within, after, limit)
}

// list reads a page of the records that the statement list calls which. On PostgreSQL it reads at read committed: it must
// not make claims fail to serialize.
func (s *Store) list(ctx context.Context, which string, within []byte, last core.ID, limit int) ([]core.Record, error) {
	opts := &sql.TxOptions{ReadOnly: true}
	if s.dialect == postgres {
		opts.Isolation = sql.LevelReadCommitted
	}
	tx, err := s.pool.BeginTx(ctx, opts)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }()
	var previous core.Record // the last one of the page before; all records come after the zero one
	if last != (core.ID{}) {
		if previous, err = s.find(ctx, tx, last); err != nil {
			return nil, err // an empty page would say that there are no more records
		}
	}
	var created any = previous.CreatedAt
	if s.dialect == sqlite {
		created = previous.CreatedAt.UnixMicro()
	}
	beat, err := s.readBeat(ctx, tx)
	if err != nil {
		return nil, err
	}
	realm := append([]byte{}, within...) // nil would be NULL
	rows, err := s.query(ctx, tx, list, limit, realm, created, previous.ID[:], which, beat.passed)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var records []core.Record
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

// CountOpen implements [core.Counter]. It reads at most limit entries of an index, and takes a slot as claims do.
func (s *Store) CountOpen(ctx context.Context, scope core.Scope, limit int) (n int, err error) {
	if err := s.enterClaim(ctx); err != nil {
		return 0, err
	}
	defer s.leaveClaim()
	err = s.onPool(ctx, func(q querier) error {
		return s.queryRow(ctx, q, countOpen, scope[:], limit).Scan(&n)
	})
	return n, err
}
