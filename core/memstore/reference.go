package memstore

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/auth19/idem/core/store"
)

// Refer implements [store.Operations].
func (s *Store) Refer(ctx context.Context, id store.ID, _ store.Realm, ref store.Ref) error {
	return s.do(ctx, func(now time.Time) error {
		// A Resume attempt that has sealed nothing: the reference becomes durable with its first seal.
		e := cmp.Or(s.running[id], s.records[id])
		switch {
		case e == nil:
			return store.ErrStale
		case e.refersTo([]store.Ref{ref}):
			return nil
		case len(e.references) >= store.MaxReferences:
			return store.ErrReferences
		}
		e.references = append(e.references, reference{ref, now})
		return nil
	})
}

// References implements [store.Operations].
func (s *Store) References(ctx context.Context, ids []store.ID) (map[store.ID][]store.Ref, error) {
	return get(ctx, s, func(time.Time) (map[store.ID][]store.Ref, error) {
		refs := map[store.ID][]store.Ref{}
		for _, id := range ids {
			if e := s.records[id]; e != nil {
				for _, r := range e.references {
					refs[id] = append(refs[id], r.Ref)
				}
			}
		}
		return refs, nil
	})
}

// Referred implements [store.Operations].
func (s *Store) Referred(ctx context.Context, q store.Query) (store.ReferredPage, error) {
	return get(ctx, s, func(now time.Time) (page store.ReferredPage, err error) {
		var found []store.Cursor
		for _, e := range s.records {
			at, has := e.referred(q)
			cursor := store.Cursor{CreatedAt: at, ID: e.ID}
			if has && e.Realm.Within(q.Within) && (!q.Completed || e.at(now).State() == store.Completed) &&
				(q.After == store.Cursor{} || later(q.After, cursor) < 0) {
				found = append(found, cursor)
			}
		}
		slices.SortFunc(found, later)
		if len(found) > q.Limit {
			found = first(found, q.Limit)
			page.Next = found[len(found)-1]
		}
		for _, cursor := range found {
			page.IDs = append(page.IDs, cursor.ID)
		}
		return page, nil
	})
}

// later orders places, the last one first; the id decides between equals.
func later(a, b store.Cursor) int {
	return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), bytes.Compare(b.ID[:], a.ID[:]))
}

// referred is when the last reference like the first of q.Refs was attached, in the time of q. has is false if there is
// none, or none like each of the others.
func (e *entry) referred(q store.Query) (at time.Time, has bool) {
	for _, r := range e.references {
		if like(q.Refs[0], r.Ref) && !r.at.Before(q.From) && (q.Until.IsZero() || r.at.Before(q.Until)) {
			at, has = r.at, true
		}
	}
	return at, has && e.refersTo(q.Refs[1:])
}

// refersTo reports whether a row has a reference like each of refs.
func (e *entry) refersTo(refs []store.Ref) bool {
	for _, ref := range refs {
		if !slices.ContainsFunc(e.references, func(r reference) bool { return like(ref, r.Ref) }) {
			return false
		}
	}
	return true
}

func like(wanted, ref store.Ref) bool {
	return wanted.Value == ref.Value && (wanted.Name == "" || wanted.Name == ref.Name)
}
