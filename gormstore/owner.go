package gormstore

import (
	"context"
	"errors"
	"time"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// ownedBy are $1 to $3 of the statements that prove their ownership.
func ownedBy(t store.Ticket) []any { return []any{t.ID[:], t.Owner[:], t.Fence} }

// completionArgs are $4 to $10 of complete.
func completionArgs(a storedAnswer, c store.Completion) []any {
	return []any{int64(a.status), a.partial, a.headers, a.body, c.Retention.Microseconds(),
		(c.Retention + c.Tombstone).Microseconds(), a.encoding}
}

// owned runs a statement that changes a record only for its current owner. If the statement changes nothing, same reports
// whether an earlier try of the same statement has changed the record. If not, the error is ErrStale.
func (s *Store) owned(
	ctx context.Context, t store.Ticket, same func(store.Record) bool, name txn.Statement, args ...any,
) error {
	return s.db.Write(ctx, func(q txn.Querier) error {
		if changed, err := s.change(ctx, q, name, append(ownedBy(t), args...)); err != nil || changed {
			return err
		}
		var scan recordScan
		rec, err := s.scan(ctx, q, &scan, find, t.ID[:])
		switch {
		case errors.Is(err, store.ErrNotFound):
			rec = store.Record{}
		case err != nil:
			return err
		}
		if same(rec) {
			return s.db.Confirm(ctx, scan.Started.Int64) // the earlier try may not have waited for the standby
		}
		return store.ErrStale
	})
}

// change runs a statement that changes one record or none. The write of an answer also returns the server on PostgreSQL.
func (s *Store) change(ctx context.Context, q txn.Querier, name txn.Statement, args []any) (changed bool, err error) {
	if !s.db.Dialect.Returns || name != complete {
		n, err := s.db.Exec(ctx, q, name, args...)
		return n == 1, err
	}
	var by txn.Server
	if err := s.db.AskOn(ctx, q, name, &by, []any{&by.PID, &by.Started}, args...); err != nil || by.PID == 0 {
		return false, err
	}
	return true, s.db.ConfirmWritten(ctx, by)
}

// Renew implements [store.Store]. On PostgreSQL with a limited pool the renewals of this process share a connection.
func (s *Store) Renew(ctx context.Context, t store.Ticket, lease time.Duration) error {
	args := append(ownedBy(t), lease.Microseconds())
	if n, ok, err := s.db.Renew(ctx, t, renew, args...); ok {
		if err == nil && n == 0 {
			err = store.ErrStale
		}
		return err
	}
	return s.owned(ctx, t, func(store.Record) bool { return false }, renew, lease.Microseconds())
}

// End implements [store.Store]. If the connection of a release is broken, it goes over another one.
func (s *Store) End(ctx context.Context, t store.Ticket, e store.Ending) error {
	switch e.State {
	case store.Completed:
		answer, err := s.sealer.parked(t).get(ctx, s.sealer, t.ID, e.Answer.Answer)
		if err != nil {
			return err
		}
		err = s.complete(ctx, t, answer, e.Answer)
		if err == nil || errors.Is(err, store.ErrStale) {
			s.sealer.forget(t)
		}
		return err
	case store.Free:
		freed := func(r store.Record) bool { return r.ID != t.ID || r.Ticket == t && r.Stored == store.Free }
		return txn.OverAnother(ctx, func() error { return s.owned(ctx, t, freed, release, keepFree.Microseconds()) })
	case store.Running:
		return s.owned(ctx, t, func(store.Record) bool { return false }, yield, e.Ends, int64(0))
	}
	return s.owned(ctx, t, func(store.Record) bool { return false }, park, e.Ends)
}

func (s *Store) complete(ctx context.Context, t store.Ticket, a storedAnswer, c store.Completion) error {
	args := completionArgs(a, c)
	done := func(r store.Record) bool {
		return r.Ticket == t && (r.Stored == store.Completed || r.Stored == store.Expired)
	}
	send := func(ctx context.Context) error { return s.owned(ctx, t, done, complete, args...) }
	err := s.answers.Run(ctx, t, s.db.StallOf(0, t.ID), send)
	if err == nil {
		s.recent.add(t.ID, true)
	}
	return err
}

// fenceOff keeps out a message of t that may still be under way: see the statement.
func (s *Store) fenceOff(ctx context.Context, q txn.Querier, t store.Ticket, freeFence int64) error {
	_, err := s.db.Exec(ctx, q, fenceOff, t.ID[:], t.Owner[:], keepFree.Microseconds(), make([]byte, len(store.Scope{})),
		make([]byte, len(store.Realm{})), freeFence, t.Fence)
	return err
}
