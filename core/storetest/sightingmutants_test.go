package storetest_test

import (
	"context"
	"time"

	"github.com/auth19/idem/core/store"
)

// The mutants of a store.Sightings.
var sightingMutants = map[string]mutantOf[store.Sightings, store.Sightings]{
	"tells the last command":      {"Sight/SameKey", alters(tellsLast)},
	"sees no other key":           {"Sight/OtherKey", alters(seesNoOther)},
	"takes a repeat for a re-key": {"Sight/Repeats", func(w store.Sightings) store.Sightings { return &forgetsKeys{w} }},
	"counts the window from then": {"Sight/Window", alters(seesForEver)},
	"notes what is refused":       {"Sight/Tentative", func(w store.Sightings) store.Sightings { return notesAll{w} }},
	"remembers for ever":          {"Sight/Kept", func(w store.Sightings) store.Sightings { return keeps{w, forever} }},
	"takes no key for a key":      {"Sight/NoKey", func(w store.Sightings) store.Sightings { return namesNoKey{w} }},
	"mixes principals":            {"Sight/Apart", func(w store.Sightings) store.Sightings { return oneScope{w} }},
	"never forgets":               {"Sight/Swept", func(w store.Sightings) store.Sightings { return neverSwept{w} }},
	"sees regardless":             {"Sight/Cancelled", func(w store.Sightings) store.Sightings { return heedlessSight{w} }},
}

const forever = 365 * 24 * time.Hour

type altered struct {
	store.Sightings
	alter func(s store.Sighting, seen store.Seen) store.Seen
}

func alters(alter func(store.Sighting, store.Seen) store.Seen) func(store.Sightings) store.Sightings {
	return func(w store.Sightings) store.Sightings { return altered{w, alter} }
}

func (w altered) Sight(ctx context.Context, s store.Sighting) (store.Seen, error) {
	seen, err := w.Sightings.Sight(ctx, s)
	if err != nil {
		return seen, err
	}
	return w.alter(s, seen), nil
}

func tellsLast(s store.Sighting, seen store.Seen) store.Seen {
	if seen.Key {
		seen.First = s.Hash
	}
	return seen
}

func seesNoOther(_ store.Sighting, seen store.Seen) store.Seen {
	seen.Rekeyed, seen.Earlier = false, store.ID{}
	return seen
}

func seesForEver(_ store.Sighting, seen store.Seen) store.Seen {
	seen.Rekeyed = seen.Rekeyed || seen.Key
	return seen
}

// forgetsKeys notes every sighting as one without a key.
type forgetsKeys struct{ store.Sightings }

func (w *forgetsKeys) Sight(ctx context.Context, s store.Sighting) (store.Seen, error) {
	s.ID = store.ID{}
	return w.Sightings.Sight(ctx, s)
}

type notesAll struct{ store.Sightings }

func (w notesAll) Sight(ctx context.Context, s store.Sighting) (store.Seen, error) {
	s.Tentative = false
	return w.Sightings.Sight(ctx, s)
}

type keeps struct {
	store.Sightings
	keep time.Duration
}

func (w keeps) Sight(ctx context.Context, s store.Sighting) (store.Seen, error) {
	s.Keep = w.keep
	return w.Sightings.Sight(ctx, s)
}

// namesNoKey makes up a key for requests without one.
type namesNoKey struct{ store.Sightings }

func (w namesNoKey) Sight(ctx context.Context, s store.Sighting) (store.Seen, error) {
	if s.ID == (store.ID{}) {
		s.ID[0] = 1
	}
	return w.Sightings.Sight(ctx, s)
}

type oneScope struct{ store.Sightings }

func (w oneScope) Sight(ctx context.Context, s store.Sighting) (store.Seen, error) {
	s.Scope = store.Scope{}
	return w.Sightings.Sight(ctx, s)
}

type neverSwept struct{ store.Sightings }

func (w neverSwept) Sweep(context.Context, int, store.Window) (store.Swept, error) {
	return store.Swept{}, nil
}

type heedlessSight struct{ store.Sightings }

func (w heedlessSight) Sight(ctx context.Context, s store.Sighting) (store.Seen, error) {
	return w.Sightings.Sight(context.WithoutCancel(ctx), s)
}
