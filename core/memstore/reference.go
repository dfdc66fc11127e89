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
func (s *Store) Referred(ctx context.Context, within []byte, value string, limit int) ([]store.ID, error) {
	if err := alive(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []*entry
	at := map[*entry]time.Time{}
	for _, e := range s.records {
		for _, r := range e.references {
			if r.Value != value || !bytes.HasPrefix(e.Realm[:], within) {
				continue
			}
			if _, known := at[e]; !known {
				found = append(found, e)
			}
			at[e] = r.at
		}
	}
	slices.SortFunc(found, func(a, b *entry) int { return cmp.Or(at[b].Compare(at[a]), bytes.Compare(b.ID[:], a.ID[:])) })
	ids := make([]store.ID, 0, len(found))
	for _, e := range found[:max(0, min(limit, len(found)))] {
		ids = append(ids, e.ID)
	}
	return ids, nil
}
