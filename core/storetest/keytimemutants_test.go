package storetest_test

import (
	"context"
	"time"

	"github.com/auth19/idem/core/store"
)

// The mutants of a store.Settings.
var keyTimeMutants = map[string]mutantOf[store.Settings, store.Settings]{
	"judges no key":               {"KeyTime/Judged", changesKey(func(k *store.KeyTime) { k.Valid = store.Window{} })},
	"judges before the record":    {"KeyTime/RecordFirst", func(s store.Settings) store.Settings { return judgesFirst{s} }},
	"judges no freed key":         {"KeyTime/Freed", func(s store.Settings) store.Settings { return takesFreed{s} }},
	"judges by any clock":         {"KeyTime/Clock", func(s store.Settings) store.Settings { return judgesByAnyClock{s} }},
	"has no floor":                {"KeyTime/Swept", changesKey(func(k *store.KeyTime) { k.Made = time.Time{} })},
	"has no floor for the route":  {"KeyTime/Swept", func(s store.Settings) store.Settings { return noRouteFloor{s} }},
	"forgets that it was timed":   {"KeyTime/Dropped", changesKey(func(k *store.KeyTime) { k.Timed = false })},
	"has one floor for all":       {"KeyTime/Dropped", func(s store.Settings) store.Settings { return oneService{s} }},
	"judges what goes on":         {"KeyTime/Resumed", func(s store.Settings) store.Settings { return judgesFirst{s} }},
	"refuses nothing":             {"KeyTime/RefuseBefore", func(s store.Settings) store.Settings { return refusesNothing{s} }},
	"refuses the moment as well":  {"KeyTime/RefuseBefore", func(s store.Settings) store.Settings { return refusesMore{s} }},
	"keeps the last age":          {"KeyTime/Ages", func(s store.Settings) store.Settings { return keepsLastAge{s} }},
	"refuses by any clock":        {"KeyTime/RefuseBeforeByAnyClock", func(s store.Settings) store.Settings { return refusesByAnyClock{s} }},
	"keeps its own clock":         {"KeyTime/AgesByBothClocks", func(s store.Settings) store.Settings { return keepsOwnClock{s} }},
	"does not see a route leave":  {"KeyTime/Left", func(s store.Settings) store.Settings { return neverLeft{s} }},
	"forgets the service's floor": {"KeyTime/LeftBelowFloor", func(s store.Settings) store.Settings { return neverLeft{s} }},
	"leaves at each start":        {"KeyTime/Left", func(s store.Settings) store.Settings { return leavesAgain{s} }},
	"refuses after its end":       {"KeyTime/Cancelled", func(s store.Settings) store.Settings { return heedlessRefusal{s} }},
}

// claims changes what a claim says about its key.
type claims struct {
	store.Settings
	change func(*store.KeyTime)
}

func changesKey(change func(*store.KeyTime)) func(store.Settings) store.Settings {
	return func(s store.Settings) store.Settings { return claims{s, change} }
}

func (s claims) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	s.change(&c.Key)
	return s.Settings.Claim(ctx, c)
}

// judgesFirst does not look for the record of a key that is too old.
type judgesFirst struct{ store.Settings }

func (s judgesFirst) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	first := c
	first.ID[31]++ // there is none
	got, err := s.Settings.Claim(ctx, first)
	if err != nil || got.Untimely {
		return got, err
	}
	_ = s.Release(ctx, got.Record.Ticket)
	return s.Settings.Claim(ctx, c)
}

// takesFreed judges only keys without a record.
type takesFreed struct{ store.Settings }

func (s takesFreed) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	if rec, err := s.Find(ctx, c.ID); err == nil && rec.Stored == store.Free {
		c.Key.Made = time.Time{}
	}
	return s.Settings.Claim(ctx, c)
}

type judgesByAnyClock struct{ store.Settings }

func (s judgesByAnyClock) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	c.Window = store.Window{}
	return s.Settings.Claim(ctx, c)
}

// noRouteFloor lets a route leave its timed keys, and forgets them.
type noRouteFloor struct{ store.Settings }

func (s noRouteFloor) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	if rec, err := s.Find(ctx, c.ID); !c.Key.Timed && (err != nil || !rec.Spent()) {
		c.Key = store.KeyTime{}
	}
	return s.Settings.Claim(ctx, c)
}

// oneService takes all services for one.
type oneService struct{ store.Settings }

func (s oneService) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	c.Realm = store.Realm{}
	return s.Settings.Claim(ctx, c)
}

type refusesNothing struct{ store.Settings }

func (refusesNothing) RefuseKeysBefore(ctx context.Context, _ []byte, _ time.Time, _ store.Window) error {
	return ctx.Err()
}

type refusesMore struct{ store.Settings }

func (s refusesMore) RefuseKeysBefore(ctx context.Context, service []byte, t time.Time, w store.Window) error {
	return s.Settings.RefuseKeysBefore(ctx, service, t.Add(time.Millisecond), w)
}

// keepsLastAge lets the new age hold for keys from before it, too.
type keepsLastAge struct{ store.Settings }

func (s keepsLastAge) KeepAge(ctx context.Context, service []byte, route string, age time.Duration, w store.Window) (store.KeptAge, error) {
	kept, err := s.Settings.KeepAge(ctx, service, route, age, w)
	kept.Before = kept.Age
	return kept, err
}

type refusesByAnyClock struct{ store.Settings }

func (s refusesByAnyClock) RefuseKeysBefore(ctx context.Context, service []byte, t time.Time, _ store.Window) error {
	return s.Settings.RefuseKeysBefore(ctx, service, t, store.Window{})
}

// keepsOwnClock asks no other clock when an age became longer.
type keepsOwnClock struct{ store.Settings }

func (s keepsOwnClock) KeepAge(ctx context.Context, service []byte, route string, age time.Duration, _ store.Window) (store.KeptAge, error) {
	return s.Settings.KeepAge(ctx, service, route, age, store.Window{})
}

// neverLeft does not keep that the keys of a route are not timed any more.
type neverLeft struct{ store.Settings }

func (s neverLeft) KeepAge(ctx context.Context, service []byte, route string, age time.Duration, w store.Window) (store.KeptAge, error) {
	if age == 0 {
		return store.KeptAge{}, nil
	}
	return s.Settings.KeepAge(ctx, service, route, age, w)
}

// leavesAgain forgets that a route has left its timed keys before.
type leavesAgain struct{ store.Settings }

func (s leavesAgain) KeepAge(ctx context.Context, service []byte, route string, age time.Duration, w store.Window) (store.KeptAge, error) {
	kept, err := s.Settings.KeepAge(ctx, service, route, age, w)
	if age == 0 && err == nil && !kept.Left.IsZero() {
		if _, err := s.Settings.KeepAge(ctx, service, route, kept.Age, w); err != nil {
			return kept, err
		}
		return s.Settings.KeepAge(ctx, service, route, 0, w)
	}
	return kept, err
}

type heedlessRefusal struct{ store.Settings }

func (s heedlessRefusal) RefuseKeysBefore(ctx context.Context, service []byte, t time.Time, w store.Window) error {
	return s.Settings.RefuseKeysBefore(context.WithoutCancel(ctx), service, t, w)
}
