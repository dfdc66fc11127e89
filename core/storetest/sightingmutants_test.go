package storetest_test

import (
	"context"
	"time"

	"github.com/auth19/idem/core"
)

// The mutants of a core.Watcher.
var sightingMutants = map[string]mutantOf[core.Watcher, core.Watcher]{
	"tells the last command":      {"Sight/SameKey", alters(tellsLast)},
	"sees no other key":           {"Sight/OtherKey", alters(seesNoOther)},
	"takes a repeat for a re-key": {"Sight/Repeats", func(w core.Watcher) core.Watcher { return &forgetsKeys{w} }},
	"counts the window from then": {"Sight/Window", alters(seesForEver)},
	"notes what is refused":       {"Sight/Tentative", func(w core.Watcher) core.Watcher { return notesAll{w} }},
	"remembers for ever":          {"Sight/Kept", func(w core.Watcher) core.Watcher { return keeps{w, forever} }},
	"takes no key for a key":      {"Sight/NoKey", func(w core.Watcher) core.Watcher { return namesNoKey{w} }},
	"mixes principals":            {"Sight/Apart", func(w core.Watcher) core.Watcher { return oneScope{w} }},
	"never forgets":               {"Sight/Swept", func(w core.Watcher) core.Watcher { return neverSwept{w} }},
	"sees regardless":             {"Sight/Cancelled", func(w core.Watcher) core.Watcher { return heedlessSight{w} }},
}

const forever = 365 * 24 * time.Hour

type altered struct {
	core.Watcher
	alter func(s core.Sighting, seen core.Seen) core.Seen
}

func alters(alter func(core.Sighting, core.Seen) core.Seen) func(core.Watcher) core.Watcher {
	return func(w core.Watcher) core.Watcher { return altered{w, alter} }
}

func (w altered) Sight(ctx context.Context, s core.Sighting) (core.Seen, error) {
	seen, err := w.Watcher.Sight(ctx, s)
	if err != nil {
		return seen, err
	}
	return w.alter(s, seen), nil
}

func tellsLast(s core.Sighting, seen core.Seen) core.Seen {
	if seen.Key {
		seen.First = s.Hash
	}
	return seen
}

func seesNoOther(_ core.Sighting, seen core.Seen) core.Seen {
	seen.Rekeyed, seen.Earlier = false, core.ID{}
	return seen
}

func seesForEver(_ core.Sighting, seen core.Seen) core.Seen {
	seen.Rekeyed = seen.Rekeyed || seen.Key
	return seen
}

// forgetsKeys notes every sighting as one without a key.
type forgetsKeys struct{ core.Watcher }

func (w *forgetsKeys) Sight(ctx context.Context, s core.Sighting) (core.Seen, error) {
	s.ID = core.ID{}
	return w.Watcher.Sight(ctx, s)
}

type notesAll struct{ core.Watcher }

func (w notesAll) Sight(ctx context.Context, s core.Sighting) (core.Seen, error) {
	s.Tentative = false
	return w.Watcher.Sight(ctx, s)
}

type keeps struct {
	core.Watcher
	keep time.Duration
}

func (w keeps) Sight(ctx context.Context, s core.Sighting) (core.Seen, error) {
	s.Keep = w.keep
	return w.Watcher.Sight(ctx, s)
}

// namesNoKey makes up a key for requests without one.
type namesNoKey struct{ core.Watcher }

func (w namesNoKey) Sight(ctx context.Context, s core.Sighting) (core.Seen, error) {
	if s.ID == (core.ID{}) {
		s.ID[0] = 1
	}
	return w.Watcher.Sight(ctx, s)
}

type oneScope struct{ core.Watcher }

func (w oneScope) Sight(ctx context.Context, s core.Sighting) (core.Seen, error) {
	s.Scope = core.Scope{}
	return w.Watcher.Sight(ctx, s)
}

type neverSwept struct{ core.Watcher }

func (w neverSwept) Sweep(context.Context, int, core.Window) (core.Swept, error) {
	return core.Swept{}, nil
}

type heedlessSight struct{ core.Watcher }

func (w heedlessSight) Sight(ctx context.Context, s core.Sighting) (core.Seen, error) {
	return w.Watcher.Sight(context.WithoutCancel(ctx), s)
}
