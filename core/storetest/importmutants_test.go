package storetest_test

import (
	"context"

	"github.com/auth19/idem/core/store"
)

// The mutants of a store.Operations.
var importMutants = map[string]mutantOf[store.Operations, store.Operations]{
	"leaves free records":         {"Import/ReplacesFree", func(s store.Operations) store.Operations { return leavesFree{s} }},
	"imports with an old fence":   {"Import/ReplacesFree", func(s store.Operations) store.Operations { return importsOldFence{s} }},
	"imports over what was begun": {"Import/NeverOverwrites", func(s store.Operations) store.Operations { return importsOver{s} }},
	"counts what it has not done": {"Import/RoundTrip", func(s store.Operations) store.Operations { return countsAll{s} }},
	"imports regardless":          {"Import/Cancelled", func(s store.Operations) store.Operations { return heedlessImport{s} }},
}

// leavesFree takes each record for one that holds its key.
type leavesFree struct{ store.Operations }

func (s leavesFree) Import(ctx context.Context, records []store.Record) (store.Imported, error) {
	unknown := make([]store.Record, 0, len(records))
	for _, rec := range records {
		if _, err := s.Find(ctx, rec.ID); err != nil {
			unknown = append(unknown, rec)
		}
	}
	return s.Operations.Import(ctx, unknown)
}

// importsOldFence shows imported records with the fence that they came with.
type importsOldFence struct{ store.Operations }

func (s importsOldFence) Find(ctx context.Context, id store.ID) (store.Record, error) {
	rec, err := s.Operations.Find(ctx, id)
	if rec.Hash.Version == store.UnknownHash && rec.State() != store.Free {
		rec.Fence = 1
	}
	return rec, err
}

// importsOver frees a key that is held already.
type importsOver struct{ store.Operations }

func (s importsOver) Import(ctx context.Context, records []store.Record) (store.Imported, error) {
	for _, rec := range records {
		if there, err := s.Find(ctx, rec.ID); err == nil {
			_ = s.Release(ctx, there.Ticket)
		}
	}
	return s.Operations.Import(ctx, records)
}

type countsAll struct{ store.Operations }

func (s countsAll) Import(ctx context.Context, records []store.Record) (store.Imported, error) {
	_, err := s.Operations.Import(ctx, records)
	return store.Imported{Added: len(records)}, err
}

type heedlessImport struct{ store.Operations }

func (s heedlessImport) Import(ctx context.Context, records []store.Record) (store.Imported, error) {
	return s.Operations.Import(context.WithoutCancel(ctx), records)
}
