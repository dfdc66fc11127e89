package storetest_test

import (
	"context"
	"slices"

	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/store"
)

// The mutants of a store.Operations. Each keeps all other abilities of a memstore.
var referenceMutants = map[string]mutantOf[*memstore.Store, store.Store]{
	"finds by the name":         {"Reference/Found", func(s *memstore.Store) store.Store { return swapsRef{s} }},
	"finds the oldest first":    {"Reference/Found", func(s *memstore.Store) store.Store { return oldestRef{s} }},
	"finds in every realm":      {"Reference/Within", func(s *memstore.Store) store.Store { return findsEverywhere{s} }},
	"ignores one too many":      {"Reference/Limits", func(s *memstore.Store) store.Store { return ignoresTooMany{s} }},
	"keeps references too long": {"Reference/Retention", func(s *memstore.Store) store.Store { return keepsRefs{s, map[store.ID][]store.Ref{}} }},
	"refers after a cancelled":  {"Reference/Cancelled", func(s *memstore.Store) store.Store { return refersAnyway{s} }},
}

type swapsRef struct{ *memstore.Store }

func (s swapsRef) Refer(ctx context.Context, id store.ID, realm store.Realm, ref store.Ref) error {
	return s.Store.Refer(ctx, id, realm, store.Ref{Name: ref.Value, Value: ref.Name})
}

type oldestRef struct{ *memstore.Store }

func (s oldestRef) Referred(ctx context.Context, within []byte, value string, limit int) ([]store.ID, error) {
	ids, err := s.Store.Referred(ctx, within, value, limit)
	slices.Reverse(ids)
	return ids, err
}

type findsEverywhere struct{ *memstore.Store }

func (s findsEverywhere) Referred(ctx context.Context, _ []byte, value string, limit int) ([]store.ID, error) {
	return s.Store.Referred(ctx, nil, value, limit)
}

type ignoresTooMany struct{ *memstore.Store }

func (s ignoresTooMany) Refer(ctx context.Context, id store.ID, realm store.Realm, ref store.Ref) error {
	if err := s.Store.Refer(ctx, id, realm, ref); err != store.ErrReferences { //nolint:errorlint // the store's own
		return err
	}
	return nil
}

type keepsRefs struct {
	*memstore.Store
	kept map[store.ID][]store.Ref
}

func (s keepsRefs) References(ctx context.Context, ids []store.ID) (map[store.ID][]store.Ref, error) {
	refs, err := s.Store.References(ctx, ids)
	for _, id := range ids {
		if len(refs[id]) == 0 && err == nil && s.kept[id] != nil {
			refs[id] = s.kept[id]
		}
	}
	return refs, err
}

func (s keepsRefs) Refer(ctx context.Context, id store.ID, realm store.Realm, ref store.Ref) error {
	s.kept[id] = append(s.kept[id], ref)
	return s.Store.Refer(ctx, id, realm, ref)
}

type refersAnyway struct{ *memstore.Store }

func (s refersAnyway) References(ctx context.Context, ids []store.ID) (map[store.ID][]store.Ref, error) {
	return s.Store.References(context.WithoutCancel(ctx), ids)
}
