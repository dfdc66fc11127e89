package storetest_test

import (
	"context"

	"github.com/auth19/idem/core"
)

// The mutants of a core.Importer.
var importMutants = map[string]mutantOf[core.Importer, core.Importer]{
	"leaves free records":         {"Import/ReplacesFree", func(s core.Importer) core.Importer { return leavesFree{s} }},
	"imports with an old fence":   {"Import/ReplacesFree", func(s core.Importer) core.Importer { return importsOldFence{s} }},
	"imports over what was begun": {"Import/NeverOverwrites", func(s core.Importer) core.Importer { return importsOver{s} }},
	"counts what it has not done": {"Import/RoundTrip", func(s core.Importer) core.Importer { return countsAll{s} }},
	"imports regardless":          {"Import/Cancelled", func(s core.Importer) core.Importer { return heedlessImport{s} }},
}

// leavesFree takes each record for one that holds its key.
type leavesFree struct{ core.Importer }

func (s leavesFree) Import(ctx context.Context, records []core.Record) (core.Imported, error) {
	unknown := make([]core.Record, 0, len(records))
	for _, rec := range records {
		if _, err := s.Find(ctx, rec.ID); err != nil {
			unknown = append(unknown, rec)
		}
	}
	return s.Importer.Import(ctx, unknown)
}

// importsOldFence shows imported records with the fence that they came with.
type importsOldFence struct{ core.Importer }

func (s importsOldFence) Find(ctx context.Context, id core.ID) (core.Record, error) {
	rec, err := s.Importer.Find(ctx, id)
	if rec.Hash.Version == core.UnknownHash && rec.State() != core.Free {
		rec.Fence = 1
	}
	return rec, err
}

// importsOver frees a key that is held already.
type importsOver struct{ core.Importer }

func (s importsOver) Import(ctx context.Context, records []core.Record) (core.Imported, error) {
	for _, rec := range records {
		if there, err := s.Find(ctx, rec.ID); err == nil {
			_ = s.Release(ctx, there.Ticket)
		}
	}
	return s.Importer.Import(ctx, records)
}

type countsAll struct{ core.Importer }

func (s countsAll) Import(ctx context.Context, records []core.Record) (core.Imported, error) {
	_, err := s.Importer.Import(ctx, records)
	return core.Imported{Added: len(records)}, err
}

type heedlessImport struct{ core.Importer }

func (s heedlessImport) Import(ctx context.Context, records []core.Record) (core.Imported, error) {
	return s.Importer.Import(context.WithoutCancel(ctx), records)
}
