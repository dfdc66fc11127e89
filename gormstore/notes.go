package gormstore

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// Annotate implements [store.Operations].
func (s *Store) Annotate(ctx context.Context, n store.Note) error {
	return s.db.Write(ctx, func(q txn.Querier) error {
		added, err := s.db.Exec(ctx, q, annotate, n.ID[:], n.Token[:], n.Who, n.Text)
		if err != nil || added == 1 {
			return err
		}
		there, err := s.notes(ctx, q, []store.ID{n.ID})
		if err != nil || slices.ContainsFunc(there[n.ID], func(o store.Note) bool { return o.Token == n.Token }) {
			return err
		}
		if _, err = s.find(ctx, q, n.ID); err == nil {
			err = store.ErrNotSettleable
		}
		return err
	})
}

// Notes implements [store.Operations]. It reads by the primary key.
func (s *Store) Notes(ctx context.Context, ids []store.ID) (notes map[store.ID][]store.Note, err error) {
	if len(ids) == 0 {
		return nil, ctx.Err()
	}
	err = s.db.OnPool(ctx, func(q txn.Querier) error {
		notes, err = s.notes(ctx, q, ids)
		return err
	})
	return notes, err
}

func (s *Store) notes(ctx context.Context, q txn.Querier, ids []store.ID) (map[store.ID][]store.Note, error) {
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	notes := map[store.ID][]store.Note{}
	err = s.db.Each(ctx, q, notesOf, func(scan func(...any) error) error {
		var id, token []byte
		var at int64
		var n store.Note
		if err := scan(&id, &token, &at, &n.Who, &n.Text); err != nil {
			return err
		}
		n.ID, n.Token, n.At = store.ID(id), [16]byte(token), time.UnixMicro(at).UTC()
		notes[n.ID] = append(notes[n.ID], n)
		return nil
	}, string(list))
	return notes, err
}
