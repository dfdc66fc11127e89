package gormstore

import (
	"context"
	"encoding/json"
	"slices"
	"time"

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

// maxReferred is how many references Referred looks at. Each may cost a look for another one.
const maxReferred = 2_000

// Referred implements [store.Operations]. It reads the references of a value in the order of their index.
func (s *Store) Referred(ctx context.Context, query store.Query) (page store.ReferredPage, err error) {
	first, last := realms(query.Within)
	after := query.After
	if until := untilOf(query); after == (store.Cursor{}) || after.CreatedAt.After(until) {
		after = store.Cursor{CreatedAt: until}
	}
	err = s.reading(ctx, func(q txn.Querier) error {
		page = store.ReferredPage{}
		var at store.Cursor // of the last one of the page
		return s.db.Each(ctx, q, referred, func(scan func(...any) error) error {
			var id []byte
			var micros int64
			var wanted, over txn.Flag
			if err := scan(&id, &micros, &wanted, &over); err != nil {
				return err
			}
			cursor := store.Cursor{CreatedAt: time.UnixMicro(micros), ID: store.ID(id)}
			switch {
			case bool(wanted) && len(page.IDs) == query.Limit:
				page.Next = at
				return nil
			case bool(wanted):
				page.IDs, at = append(page.IDs, cursor.ID), cursor
			}
			if over {
				page.Next = cursor
			}
			return nil
		}, append(referring(query.Refs), txn.Micros(query.From), txn.Micros(untilOf(query)), txn.Micros(after.CreatedAt),
			after.ID[:], first, last, maxReferred, query.Limit+1, query.Completed)...)
	})
	return page, err
}

// referring are the parameters of two references: value and name of each, all of them ” if there is none.
func referring(refs []store.Ref) []any {
	args := make([]any, 4)
	for i := range args {
		args[i] = ""
	}
	for i, ref := range refs {
		args[2*i], args[2*i+1] = ref.Value, ref.Name
	}
	return args
}
