package memstore

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/auth19/idem/core/store"
)

// reference is a reference of a record, in the order of the others.
type reference struct {
	store.Ref
	at time.Time
}

// Refer implements [store.Operations].
func (s *Store) Refer(ctx context.Context, id store.ID, _ store.Realm, ref store.Ref) error {
	if err := alive(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.records[id]
	if begun := s.running[id]; begun != nil {
		e = begun // a Resume attempt that has sealed nothing: the reference becomes durable with its first seal
	}
	switch {
	case e == nil:
		return store.ErrStale
	case slices.ContainsFunc(e.references, func(r reference) bool { return r.Ref == ref }):
		return nil
	case len(e.references) >= store.MaxReferences:
		return store.ErrReferences
	}
	e.references = append(e.references, reference{ref, s.now()})
	return nil
}

// References implements [store.Operations].
func (s *Store) References(ctx context.Context, ids []store.ID) (map[store.ID][]store.Ref, error) {
	if err := alive(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	refs := map[store.ID][]store.Ref{}
	for _, id := range ids {
		if e := s.records[id]; e != nil {
			for _, r := range e.references {
				refs[id] = append(refs[id], r.Ref)
			}
		}
	}
	return refs, nil
}

// Referred implements [store.Operations]. It looks at every record.
func (s *Store) Referred(ctx context.Context, q store.Query) (page store.ReferredPage, err error) {
	if err := alive(ctx); err != nil {
		return page, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []store.Cursor
	now := s.now()
	for _, e := range s.records {
		at, has := e.referred(q)
		cursor := store.Cursor{CreatedAt: at, ID: e.ID}
		if has && e.Realm.Within(q.Within) && (!q.Completed || e.state(now) == store.Completed) &&
			(q.After == store.Cursor{} || later(q.After, cursor) < 0) {
			found = append(found, cursor)
		}
	}
	slices.SortFunc(found, later)
	if len(found) > q.Limit {
		found = found[:max(0, q.Limit)]
		page.Next = found[len(found)-1]
	}
	for _, cursor := range found {
		page.IDs = append(page.IDs, cursor.ID)
	}
	return page, nil
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
