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
			c.Retention.Microseconds(), (c.Retention + c.Tombstone).Microseconds(), txn.Micros(st.Window.From), txn.Latest(st.Window))
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
	var err error
	if t := txn.TxFrom(ctx); t != nil && t.DB == s.db {
		t.MarkWrote()
		err = work(t.Use())
	} else {
		err = s.db.InTx(ctx, work)
	}
	if err != nil {
		return store.Record{}, err
	}
	return settled, nil
}
