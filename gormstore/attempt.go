package gormstore

import (
	"context"
	"errors"
	"time"

	"github.com/auth19/idem/core"
)

// ownedBy are $1 to $3 of the statements that prove their ownership.
func ownedBy(t core.Ticket) []any { return []any{t.ID[:], t.Owner[:], t.Fence} }

// completionArgs are $4 to $9 of complete.
func completionArgs(c core.Completion) ([]any, error) {
	headers, err := encodeHeaders(c.Answer.Header)
	if err != nil {
		return nil, err
	}
	return []any{int64(c.Answer.Status), c.Answer.Partial, headers, c.Answer.Body, c.Retention.Microseconds(),
		(c.Retention + c.Tombstone).Microseconds()}, nil
}

// owned runs a statement that only the current owner may: ErrStale where it changed nothing. same says of the record
// as it is then whether an earlier try of the same statement has done it already.
func (s *Store) owned(ctx context.Context, t core.Ticket, same func(core.Record) bool, statement string, args ...any) error {
	return s.write(ctx, func(q querier) error {
		n, err := s.exec(ctx, q, statement, append(ownedBy(t), args...)...)
		if err != nil || n == 1 {
			return err
		}
		rec, err := s.find(ctx, q, t.ID)
		switch {
		case errors.Is(err, core.ErrNotFound):
			rec = core.Record{}
		case err != nil:
			return err
		}
		if same(rec) {
			_, err = s.exec(ctx, q, touch, t.ID[:]) // that try may have been cut off from waiting for the standby
			return err
		}
		return core.ErrStale
	})
}

// Renew implements [core.Store].
func (s *Store) Renew(ctx context.Context, t core.Ticket, lease time.Duration) error {
	return s.owned(ctx, t, func(core.Record) bool { return false }, renew, lease.Microseconds())
}

// Complete implements [core.Store].
func (s *Store) Complete(ctx context.Context, t core.Ticket, c core.Completion) error {
	args, err := completionArgs(c)
	if err != nil {
		return err
	}
	done := func(r core.Record) bool {
		return r.Ticket == t && (r.Stored == core.Completed || r.Stored == core.Expired)
	}
	watch := unwatched // SQLite: it waits for the one writer
	if s.dialect == postgres {
		watch = s.stalling(t)
	}
	return s.uncut.run(ctx, t, watch, func(ctx context.Context) error { return s.owned(ctx, t, done, complete, args...) })
}

// Park implements [core.Store].
func (s *Store) Park(ctx context.Context, t core.Ticket) error {
	return s.owned(ctx, t, func(core.Record) bool { return false }, park)
}

// keepFree is how long the row of a free key stays: its fence goes on rising for the next attempt until then.
const keepFree = core.DefaultRetention

// Release implements [core.Store].
func (s *Store) Release(ctx context.Context, t core.Ticket) error {
	if t.Fence != 0 {
		freed := func(r core.Record) bool { return r.ID != t.ID || r.Ticket == t && r.Stored == core.Free }
		return s.owned(ctx, t, freed, release, keepFree.Microseconds())
	}
	// The claim whose owner got an error may still be on its way in the server: it holds the record's lock then.
	return s.inTx(ctx, func(q querier) error {
		if s.dialect == postgres {
			if _, err := q.ExecContext(ctx, waitLock, lockKey(t.ID)); err != nil {
				return err
			}
		}
		n, err := s.exec(ctx, q, releaseOwner, t.ID[:], t.Owner[:], keepFree.Microseconds())
		if err != nil || n == 1 {
			return err
		}
		rec, err := s.find(ctx, q, t.ID)
		switch {
		case err == nil && rec.Owner == t.Owner && rec.Stored == core.Free:
			return nil
		case errors.Is(err, core.ErrNotFound), err == nil && rec.State() == core.Free:
			_, err = s.exec(ctx, q, keepOut, t.ID[:], t.Owner[:], keepFree.Microseconds(), make([]byte, len(rec.Scope)),
				make([]byte, len(rec.Realm)))
			return err
		case err == nil:
			return core.ErrStale
		}
		return err
	})
}

// Settle implements [core.Store].
func (s *Store) Settle(ctx context.Context, st core.Settlement) (core.Record, error) {
	var settled core.Record
	work := func(q querier) error {
		before, err := s.find(ctx, q, st.ID)
		if err != nil {
			return err
		}
		state, c := core.Free, core.Completion{Retention: core.DefaultTombstone}
		if st.Answer != nil {
			state, c = core.Completed, *st.Answer
		}
		headers, err := encodeHeaders(c.Answer.Header)
		if err != nil {
			return err
		}
		n, err := s.exec(ctx, q, settle, st.ID[:], st.Fence, int64(state), int64(c.Answer.Status), headers, c.Answer.Body,
			c.Retention.Microseconds(), (c.Retention + c.Tombstone).Microseconds(), micros(st.Window.From), latest(st.Window))
		if err != nil {
			return err
		}
		if settled, err = s.find(ctx, q, st.ID); err != nil {
			return err
		}
		if n == 0 {
			if !st.Window.Has(settled.Now) {
				return core.ErrClock
			}
			if settled.State() == core.Unknown && settled.Fence != st.Fence {
				return core.ErrStale
			}
			return core.ErrNotSettleable
		}
		_, err = s.exec(ctx, q, appendSettlement, st.ID[:], st.Who, st.Why, before.Fence, int64(before.State()),
			settled.Fence, int64(settled.Stored), int64(settled.Answer.Status), st.Undone)
		return err
	}
	var err error
	if t := txFrom(ctx); t != nil && t.store == s {
		t.asked.Store(true)
		err = work(t.conn)
	} else {
		err = s.inTx(ctx, work)
	}
	if err != nil {
		return core.Record{}, err
	}
	return settled, nil
}

// Sweep implements [core.Store]. Each statement has a transaction of its own at read committed: it looks at many
// records, and no claim shall fail to serialize for it.
func (s *Store) Sweep(ctx context.Context, limit int, w core.Window) (core.Swept, error) {
	var now instant
	if err := s.queryRow(ctx, s.pool, `SELECT {now}`).Scan(&now); err != nil {
		return core.Swept{}, err
	}
	if !w.Has(now.Time) {
		return core.Swept{}, core.ErrClock
	}
	tombstones, err := s.sweep(ctx, bury, limit, w)
	if err != nil {
		return core.Swept{}, err
	}
	dropped, err := s.sweep(ctx, drop, limit, w)
	if err != nil {
		return core.Swept{Tombstones: tombstones, Dropped: dropped}, err
	}
	swept := core.Swept{Tombstones: tombstones, Dropped: dropped}
	if swept.Sightings, err = s.forget(ctx, forgetSightings, limit, w); err != nil {
		return swept, err
	}
	swept.Messages, err = s.forgetMessages(ctx, limit, w)
	return swept, err
}

// forget runs a statement of Sweep that only deletes, and returns how many rows.
func (s *Store) forget(ctx context.Context, statement string, limit int, w core.Window) (n int, err error) {
	err = s.inTx(ctx, func(q querier) error {
		forgotten, err := s.exec(ctx, q, statement, limit, micros(w.From), latest(w))
		n = int(forgotten)
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// sweep runs one statement of Sweep, and takes the steps of its records away. It returns how many records there were.
func (s *Store) sweep(ctx context.Context, statement string, limit int, w core.Window) (n int, err error) {
	err = s.inTx(ctx, func(q querier) error {
		n = 0
		rows, err := s.query(ctx, q, statement, limit, micros(w.From), latest(w))
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		var stepped [][]byte
		for rows.Next() {
			var id []byte
			var resume flag
			if err := rows.Scan(&id, &resume); err != nil {
				return err
			}
			n++
			if resume {
				stepped = append(stepped, id)
			}
		}
		if err := rows.Err(); err != nil {
			return err
		}
		for _, id := range stepped {
			if _, err := s.exec(ctx, q, dropSteps, id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}
