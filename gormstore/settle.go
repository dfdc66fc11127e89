package gormstore

import (
	"context"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// Settle implements [store.Operations].
func (s *Store) Settle(ctx context.Context, st store.Settlement) (store.Record, error) {
	var settled store.Record
	work := func(q txn.Querier) error {
		before, err := s.find(ctx, q, st.ID)
		if err != nil {
			return err
		}
		state, c := store.Free, store.Completion{Retention: store.DefaultTombstone}
		if st.Answer != nil {
			state, c = store.Completed, *st.Answer
		}
		headers, err := encodeHeaders(c.Answer.Header)
		if err != nil {
			return err
		}
		n, err := s.db.Exec(ctx, q, settle, st.ID[:], st.Fence, int64(state), int64(c.Answer.Status), headers, c.Answer.Body,
			c.Retention.Microseconds(), (c.Retention + c.Tombstone).Microseconds(), txn.Micros(st.Window.From), txn.Latest(st.Window),
			before.EndsBefore())
		if err != nil {
			return err
		}
		if settled, err = s.find(ctx, q, st.ID); err != nil {
			return err
		}
		if n == 0 {
			if !st.Window.Has(settled.Now) {
				return store.ErrClock
			}
			if settled.State() == store.Unknown && settled.Fence != st.Fence {
				return store.ErrStale
			}
			return store.ErrNotSettleable
		}
		_, err = s.db.Exec(ctx, q, appendSettlement, st.ID[:], st.Who, st.Why, before.Fence, int64(before.Stored),
			settled.Fence, int64(settled.Stored), int64(settled.Answer.Status), st.Undone)
		return err
	}
	if err := s.joined(ctx, work); err != nil {
		return store.Record{}, err
	}
	return settled, nil
}

// joined runs work in the transaction of the attempt that ctx is of, or in one of its own.
func (s *Store) joined(ctx context.Context, work func(q txn.Querier) error) error {
	if t := txn.TxFrom(ctx); t != nil && t.DB == s.db {
		t.MarkWrote()
		return work(t.Use())
	}
	return s.db.InTx(ctx, work)
}

// Intervene implements [store.Operations]. Its statements are those of the owner: they compare owner and fence.
func (s *Store) Intervene(ctx context.Context, i store.Intervention) (after store.Record, err error) {
	err = s.joined(ctx, func(q txn.Querier) error {
		before, err := s.find(ctx, q, i.ID)
		switch {
		case err != nil:
			return err
		case !i.Window.Has(before.Now):
			return store.ErrClock
		case !before.HalfDone():
			return store.ErrNotSettleable
		case before.Fence != i.Fence:
			return store.ErrStale
		}
		args := append(ownedBy(before.Ticket), before.EndsBefore())
		if i.GiveUp {
			if err = s.db.Durably(ctx, q); err == nil {
				_, err = s.db.Exec(ctx, q, park, args...)
			}
		} else { // its lease ends earlier: before it, the record keeps when it really ended
			_, err = s.db.Exec(ctx, q, yield, append(args, before.NextAttempt(i.Pause).Sub(before.LeaseUntil).Microseconds())...)
		}
		if err != nil {
			return err
		}
		if after, err = s.find(ctx, q, i.ID); err != nil {
			return err
		}
		if after.Fence != before.Fence || i.GiveUp != (after.Stored == store.Unknown) { // another attempt was quicker
			return store.ErrStale
		}
		_, err = s.db.Exec(ctx, q, appendSettlement, i.ID[:], i.Who, i.Why, before.Fence, int64(before.Stored), after.Fence,
			int64(after.Stored), int64(0), "")
		return err
	})
	return after, err
}
