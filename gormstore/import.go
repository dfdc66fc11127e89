package gormstore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/auth19/idem/core/store"
)

// Import implements [store.Operations]: all records are added in one transaction.
func (s *Store) Import(ctx context.Context, records []store.Record) (done store.Imported, err error) {
	// Sorted, so that two imports at once cannot wait for each other in a circle.
	records = slices.SortedFunc(slices.Values(records), func(a, b store.Record) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	err = s.inTx(ctx, func(q querier) error {
		done = store.Imported{}
		for _, rec := range records {
			if err := s.importOne(ctx, q, rec, &done); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return store.Imported{}, err
	}
	return done, nil
}

func (s *Store) importOne(ctx context.Context, q querier, rec store.Record, done *store.Imported) error {
	if s.file.isRunning(rec.ID) {
		return nil // the key of an attempt that has written nothing yet
	}
	args, err := s.importArgs(rec)
	if err != nil {
		return err
	}
	var fence int64
	err = s.queryRow(ctx, q, importRecord, args...).Scan(&fence)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil // the key is in use: it is left alone
	case err != nil:
		return err
	case fence == rec.Fence:
		done.Added++
		return nil
	}
	done.Replaced++
	_, err = s.exec(ctx, q, dropSteps, rec.ID[:])
	return err
}

func (s *Store) importArgs(rec store.Record) ([]any, error) {
	headers, err := encodeHeaders(rec.Answer.Header)
	if err != nil {
		return nil, err
	}
	after, from := sweepImported(rec)
	args := []any{rec.ID[:], rec.Scope[:], rec.Owner[:], rec.Fence, int64(rec.Stored), int64(rec.Recovery), rec.Method,
		rec.Route, int64(rec.Hash.Version), rec.Hash.Sum[:], s.dialect.time(rec.CreatedAt), s.dialect.time(rec.LeaseUntil),
		s.dialect.time(rec.Deadline), s.dialect.time(rec.ExpiresAt), s.dialect.time(rec.PurgeAt), int64(rec.Answer.Status),
		rec.Answer.Partial, headers, rec.Answer.Body, rec.Realm[:], rec.Timed, after, s.dialect.time(from)}
	if s.dialect == postgres {
		args = append(args, lockKey(rec.ID))
	}
	return args, nil
}

// sweepImported are sweep_after and sweep_from of an imported record: what it needs is known.
func sweepImported(rec store.Record) (after sql.NullInt32, from time.Time) {
	switch rec.Stored {
	case store.Completed:
		return sql.NullInt32{Valid: true}, rec.ExpiresAt
	case store.Expired, store.Free:
		return sql.NullInt32{Valid: true}, rec.PurgeAt
	}
	return sql.NullInt32{}, rec.CreatedAt
}

// time is a point in time as an argument; the zero time is NULL.
func (d *dialect) time(t time.Time) any {
	switch {
	case t.IsZero():
		return nil
	case d == postgres:
		return t
	default:
		return t.UnixMicro()
	}
}
