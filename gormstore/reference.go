package gormstore

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// Refer implements [store.Operations].
func (s *Store) Refer(ctx context.Context, id store.ID, realm store.Realm, ref store.Ref) error {
	if t := txn.TxFrom(ctx); t != nil && t.DB == s.db {
		return s.refer(ctx, t.Conn, id, realm, ref, true)
	}
	if r := txn.ReaderFrom(ctx); r != nil && r.DB == s.db {
		switch t, err := r.Segments.OpenOrFirst(ctx); {
		case err != nil:
			return err
		case t != nil:
			return s.refer(ctx, t.Conn, id, realm, ref, true)
		}
	}
	return s.db.Write(ctx, func(q txn.Querier) error { return s.refer(ctx, q, id, realm, ref, false) })
}

// refer writes a reference. If it writes none, it looks why.
func (s *Store) refer(ctx context.Context, q txn.Querier, id store.ID, realm store.Realm, ref store.Ref, open bool) error {
	n, err := s.db.Exec(ctx, q, refer, id[:], ref.Name, ref.Value, realm[:], open, store.MaxReferences)
	if err != nil || n == 1 {
		return err
	}
	there, err := s.references(ctx, q, []store.ID{id})
	switch {
	case err != nil || slices.Contains(there[id], ref):
		return err
	case len(there[id]) >= store.MaxReferences:
		return store.ErrReferences
	}
	return store.ErrStale
}

// References implements [store.Operations]. It reads by the primary key.
func (s *Store) References(ctx context.Context, ids []store.ID) (refs map[store.ID][]store.Ref, err error) {
	if len(ids) == 0 {
		return nil, ctx.Err()
	}
	err = s.db.OnPool(ctx, func(q txn.Querier) error {
		refs, err = s.references(ctx, q, ids)
		return err
	})
	return refs, err
}

func (s *Store) references(ctx context.Context, q txn.Querier, ids []store.ID) (map[store.ID][]store.Ref, error) {
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	refs := map[store.ID][]store.Ref{}
	err = s.db.Each(ctx, q, referencesOf, func(scan func(...any) error) error {
		var raw []byte
		var ref store.Ref
		if err := scan(&raw, &ref.Name, &ref.Value); err != nil {
			return err
		}
		id := store.ID(raw)
		refs[id] = append(refs[id], ref)
		return nil
	}, string(list))
	return refs, err
}

// Referred implements [store.Operations].
func (s *Store) Referred(ctx context.Context, within []byte, value string, limit int) ([]store.ID, error) {
	return s.ids(ctx, referred, value, notNull(within), limit) // an operation may have the value under two names
}
