package gormstore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// Import implements [store.Operations]: all records are added in one transaction.
func (s *Store) Import(ctx context.Context, records []store.Record) (done store.Imported, err error) {
	// Sorted, so that two imports at once cannot wait for each other in a circle. Of two with one id the first one is taken.
	records = slices.SortedStableFunc(slices.Values(records), func(a, b store.Record) int {
		return bytes.Compare(a.ID[:], b.ID[:])
	})
	answers := make([]storedAnswer, len(records)) // sealed once, and outside of the transaction; two may have one id
	for i, rec := range records {
		if answers[i], err = s.toImport(ctx, rec); err != nil {
			return store.Imported{}, err
		}
	}
	err = s.db.InTx(ctx, func(q txn.Querier) error {
		done = store.Imported{}
		for i, rec := range records {
			if err := s.importOne(ctx, q, rec, answers[i], &done); err != nil {
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

// toImport is the answer of a record. Only a completed one has more than a status.
func (s *Store) toImport(ctx context.Context, rec store.Record) (storedAnswer, error) {
	if rec.Stored != store.Completed {
		return storedAnswer{status: rec.Answer.Status, partial: rec.Answer.Partial, encoding: plain}, nil
	}
	return s.sealer.answer(ctx, time.Time{}, rec.ID, rec.Answer)
}

func (s *Store) importOne(ctx context.Context, q txn.Querier, rec store.Record, a storedAnswer, done *store.Imported) error {
	if s.db.Process.IsRunning(rec.ID) {
		done.Running++
		return nil // the key of an attempt that has written nothing yet
	}
	args := importArgs(rec, a)
	var fence int64
	locked, _, err := s.db.TryLock(ctx, q, txn.LockKey(rec.ID))
	if err == nil && locked {
		err = s.db.QueryRow(ctx, q, importRecord, args...).Scan(&fence)
	}
	switch {
	case err == nil && !locked, errors.Is(err, sql.ErrNoRows): // the key is in use: it is left alone
		running, err := s.mayGiveBack(ctx, q, rec.ID)
		if running {
			done.Running++
		}
		return err
	case err != nil:
		return err
	case fence == rec.Fence:
		done.Added++
		return nil
	}
	done.Replaced++
	_, err = s.db.Exec(ctx, q, dropSteps, rec.ID[:])
	return err
}

// mayGiveBack reports whether a key that an import has left alone has an attempt that has not ended (F-4). One whose record
// is not there, or free, was held by an attempt that cannot be seen.
func (s *Store) mayGiveBack(ctx context.Context, q txn.Querier, id store.ID) (bool, error) {
	rec, err := s.find(ctx, q, id)
	if errors.Is(err, store.ErrNotFound) {
		return true, nil
	}
	return rec.Stored == store.Running || rec.State() == store.Free && !rec.Spent(), err
}

func importArgs(rec store.Record, a storedAnswer) []any {
	at := func(t time.Time) sql.NullInt64 { return sql.NullInt64{Int64: txn.Micros(t), Valid: !t.IsZero()} }
	return []any{rec.ID[:], rec.Scope[:], rec.Owner[:], rec.Fence, int64(rec.Stored), int64(rec.Recovery), rec.Method,
		rec.Route, int64(rec.Hash.Version), rec.Hash.Sum[:], at(rec.CreatedAt), at(rec.LeaseUntil), at(rec.Deadline),
		at(rec.ExpiresAt), at(rec.PurgeAt), int64(a.status), a.partial, a.headers, a.body,
		rec.Realm[:], rec.Timed, at(dueAt(rec)), a.encoding}
}

// dueAt is when a sweep looks at an imported record; the zero time for an open one.
func dueAt(rec store.Record) time.Time {
	switch rec.Stored {
	case store.Completed:
		return rec.ExpiresAt
	case store.Expired, store.Free:
		return rec.PurgeAt
	}
	return time.Time{}
}
