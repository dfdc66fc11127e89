package gormstore

import (
	"bytes"
	"context"
	"slices"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// Mark implements [store.Operations].
func (s *Store) Mark(ctx context.Context, m store.Marking) (done store.Imported, err error) {
	// Sorted, so that two at once cannot wait for each other in a circle.
	ids := slices.SortedFunc(slices.Values(m.IDs), func(a, b store.ID) int { return bytes.Compare(a[:], b[:]) })
	err = s.joined(ctx, func(q txn.Querier) error {
		done = store.Imported{}
		now, err := s.db.ClockWithin(ctx, q, m.Window)
		if err != nil {
			return err
		}
		for _, id := range ids {
			before := done.Added + done.Replaced
			if err := s.importOne(ctx, q, m.Record(id, now), storedAnswer{encoding: plain}, &done); err != nil {
				return err
			}
			if done.Added+done.Replaced == before {
				continue
			}
			after, err := s.find(ctx, q, id)
			if err == nil {
				_, err = s.db.Exec(ctx, q, appendSettlement, id[:], m.Who, m.Why, after.Fence-1, int64(store.Free), after.Fence,
					int64(after.Stored), int64(0), "")
			}
			if err != nil {
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

// Adopt implements [store.Operations].
func (s *Store) Adopt(ctx context.Context, c store.Claim) error {
	var none store.Scope
	return s.db.Write(ctx, func(q txn.Querier) error {
		_, err := s.db.Exec(ctx, q, adopt, c.ID[:], none[:], c.Scope[:], c.Realm[:], c.Method, c.Route, c.Key.Timed)
		return err
	})
}
