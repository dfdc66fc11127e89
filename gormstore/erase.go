package gormstore

import (
	"context"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// Erase implements [store.Operations]. It reads the page first, so that the records of others are neither locked nor
// written. The statement that erases a record checks it again: in the meantime it may have been freed, and claimed by an
// attempt whose steps must stay.
func (s *Store) Erase(ctx context.Context, scope store.Scope, after store.ID, limit int) (store.ErasedPage, error) {
	var page store.ErasedPage
	var ids []store.ID
	err := s.reading(ctx, func(q txn.Querier) (err error) {
		page, ids, err = s.erasablePage(ctx, q, scope, after, max(limit, 1))
		return err
	})
	if err != nil || len(ids) == 0 {
		return page, err
	}
	err = s.db.InTx(ctx, func(q txn.Querier) error {
		var erased []store.ID
		for _, id := range ids { // in the order of the ids: two erasures never wait for each other in a circle
			n, err := s.db.Exec(ctx, q, erase, id[:], scope[:])
			if err != nil {
				return err
			}
			if n == 1 {
				erased = append(erased, id)
			}
		}
		page.Records = len(erased)
		if err := s.db.Durably(ctx, q); err != nil {
			return err
		}
		return s.changeAll(ctx, q, byIDs{dropStepsOf, erased}, byIDs{dropReferencesOf, erased}, byIDs{blankNotesOf, erased})
	})
	if err != nil {
		return store.ErasedPage{}, err
	}
	return page, nil
}

// erasablePage returns a page without what it has erased, and the ids of the records that may be erased.
func (s *Store) erasablePage(ctx context.Context, q txn.Querier, scope store.Scope, after store.ID, limit int) (
	page store.ErasedPage, ids []store.ID, err error,
) {
	err = s.db.Each(ctx, q, erasable, func(scan func(...any) error) error {
		var raw []byte
		var state int16
		var own, last txn.Flag
		if err := scan(&raw, &state, &own, &last); err != nil {
			return err
		}
		var id store.ID
		copy(id[:], raw)
		if last {
			page.Next = id
		}
		switch store.State(state) { //nolint:gosec // written by this package
		case store.Running, store.Unknown:
			if own {
				page.Open = append(page.Open, id)
			}
		default:
			if own {
				ids = append(ids, id)
			}
		}
		return nil
	}, scope[:], after[:], limit)
	return page, ids, err
}
