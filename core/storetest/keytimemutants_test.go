package storetest_test

import (
	"context"
	"time"

	"github.com/auth19/idem/core"
)

// The mutants of a core.KeyTimer.
var keyTimeMutants = map[string]mutantOf[core.KeyTimer, core.KeyTimer]{
	"judges no key":               {"KeyTime/Judged", changesKey(func(k *core.KeyTime) { k.Valid = core.Window{} })},
	"judges before the record":    {"KeyTime/RecordFirst", func(s core.KeyTimer) core.KeyTimer { return judgesFirst{s} }},
	"judges no freed key":         {"KeyTime/Freed", func(s core.KeyTimer) core.KeyTimer { return takesFreed{s} }},
	"judges by any clock":         {"KeyTime/Clock", func(s core.KeyTimer) core.KeyTimer { return judgesByAnyClock{s} }},
	"has no floor":                {"KeyTime/Swept", changesKey(func(k *core.KeyTime) { k.Made = time.Time{} })},
	"has no floor for the route":  {"KeyTime/Swept", func(s core.KeyTimer) core.KeyTimer { return noRouteFloor{s} }},
	"forgets that it was timed":   {"KeyTime/Dropped", changesKey(func(k *core.KeyTime) { k.Timed = false })},
	"has one floor for all":       {"KeyTime/Dropped", func(s core.KeyTimer) core.KeyTimer { return oneService{s} }},
	"judges what goes on":         {"KeyTime/Resumed", func(s core.KeyTimer) core.KeyTimer { return judgesFirst{s} }},
	"refuses nothing":             {"KeyTime/RefuseBefore", func(s core.KeyTimer) core.KeyTimer { return refusesNothing{s} }},
	"refuses the moment as well":  {"KeyTime/RefuseBefore", func(s core.KeyTimer) core.KeyTimer { return refusesMore{s} }},
	"keeps the last age":          {"KeyTime/Ages", func(s core.KeyTimer) core.KeyTimer { return keepsLastAge{s} }},
	"refuses by any clock":        {"KeyTime/RefuseBeforeByAnyClock", func(s core.KeyTimer) core.KeyTimer { return refusesByAnyClock{s} }},
	"keeps its own clock":         {"KeyTime/AgesByBothClocks", func(s core.KeyTimer) core.KeyTimer { return keepsOwnClock{s} }},
	"does not see a route leave":  {"KeyTime/Left", func(s core.KeyTimer) core.KeyTimer { return neverLeft{s} }},
	"forgets the service's floor": {"KeyTime/LeftBelowFloor", func(s core.KeyTimer) core.KeyTimer { return neverLeft{s} }},
	"leaves at each start":        {"KeyTime/Left", func(s core.KeyTimer) core.KeyTimer { return leavesAgain{s} }},
	"refuses after its end":       {"KeyTime/Cancelled", func(s core.KeyTimer) core.KeyTimer { return heedlessRefusal{s} }},
}

// claims changes what a claim says about its key.
type claims struct {
	core.KeyTimer
	change func(*core.KeyTime)
}

func changesKey(change func(*core.KeyTime)) func(core.KeyTimer) core.KeyTimer {
	return func(s core.KeyTimer) core.KeyTimer { return claims{s, change} }
}

func (s claims) Claim(ctx context.Context, c core.Claim) (core.Claimed, error) {
	s.change(&c.Key)
	return s.KeyTimer.Claim(ctx, c)
}

// judgesFirst does not look for the record of a key that is too old.
type judgesFirst struct{ core.KeyTimer }

func (s judgesFirst) Claim(ctx context.Context, c core.Claim) (core.Claimed, error) {
	first := c
	first.ID[31]++ // there is none
	got, err := s.KeyTimer.Claim(ctx, first)
	if err != nil || got.Untimely {
		return got, err
	}
	_ = s.Release(ctx, got.Record.Ticket)
	return s.KeyTimer.Claim(ctx, c)
}

// takesFreed judges only keys without a record.
type takesFreed struct{ core.KeyTimer }

func (s takesFreed) Claim(ctx context.Context, c core.Claim) (core.Claimed, error) {
	if rec, err := s.Find(ctx, c.ID); err == nil && rec.Stored == core.Free {
		c.Key.Made = time.Time{}
	}
	return s.KeyTimer.Claim(ctx, c)
}

type judgesByAnyClock struct{ core.KeyTimer }

func (s judgesByAnyClock) Claim(ctx context.Context, c core.Claim) (core.Claimed, error) {
	c.Window = core.Window{}
	return s.KeyTimer.Claim(ctx, c)
}

// noRouteFloor lets a route leave its timed keys, and forgets them.
type noRouteFloor struct{ core.KeyTimer }

func (s noRouteFloor) Claim(ctx context.Context, c core.Claim) (core.Claimed, error) {
	if rec, err := s.Find(ctx, c.ID); !c.Key.Timed && (err != nil || !rec.Spent()) {
		c.Key = core.KeyTime{}
	}
	return s.KeyTimer.Claim(ctx, c)
}

// oneService takes all services for one.
type oneService struct{ core.KeyTimer }

func (s oneService) Claim(ctx context.Context, c core.Claim) (core.Claimed, error) {
	c.Realm = core.Realm{}
	return s.KeyTimer.Claim(ctx, c)
}

type refusesNothing struct{ core.KeyTimer }

func (refusesNothing) RefuseKeysBefore(ctx context.Context, _ []byte, _ time.Time, _ core.Window) error {
	return ctx.Err()
}

type refusesMore struct{ core.KeyTimer }

func (s refusesMore) RefuseKeysBefore(ctx context.Context, service []byte, t time.Time, w core.Window) error {
	return s.KeyTimer.RefuseKeysBefore(ctx, service, t.Add(time.Millisecond), w)
}

// keepsLastAge lets the new age hold for keys from before it, too.
type keepsLastAge struct{ core.KeyTimer }

func (s keepsLastAge) KeepAge(ctx context.Context, service []byte, route string, age time.Duration, w core.Window) (core.KeptAge, error) {
	kept, err := s.KeyTimer.KeepAge(ctx, service, route, age, w)
	kept.Before = kept.Age
	return kept, err
}

type refusesByAnyClock struct{ core.KeyTimer }

func (s refusesByAnyClock) RefuseKeysBefore(ctx context.Context, service []byte, t time.Time, _ core.Window) error {
	return s.KeyTimer.RefuseKeysBefore(ctx, service, t, core.Window{})
}

// keepsOwnClock asks no other clock when an age became longer.
type keepsOwnClock struct{ core.KeyTimer }

func (s keepsOwnClock) KeepAge(ctx context.Context, service []byte, route string, age time.Duration, _ core.Window) (core.KeptAge, error) {
	return s.KeyTimer.KeepAge(ctx, service, route, age, core.Window{})
}

// neverLeft does not keep that the keys of a route are not timed any more.
type neverLeft struct{ core.KeyTimer }

func (s neverLeft) KeepAge(ctx context.Context, service []byte, route string, age time.Duration, w core.Window) (core.KeptAge, error) {
	if age == 0 {
		return core.KeptAge{}, nil
	}
	return s.KeyTimer.KeepAge(ctx, service, route, age, w)
}

// leavesAgain forgets that a route has left its timed keys before.
type leavesAgain struct{ core.KeyTimer }

func (s leavesAgain) KeepAge(ctx context.Context, service []byte, route string, age time.Duration, w core.Window) (core.KeptAge, error) {
	kept, err := s.KeyTimer.KeepAge(ctx, service, route, age, w)
	if age == 0 && err == nil && !kept.Left.IsZero() {
		if _, err := s.KeyTimer.KeepAge(ctx, service, route, kept.Age, w); err != nil {
			return kept, err
		}
		return s.KeyTimer.KeepAge(ctx, service, route, 0, w)
	}
	return kept, err
}

type heedlessRefusal struct{ core.KeyTimer }

func (s heedlessRefusal) RefuseKeysBefore(ctx context.Context, service []byte, t time.Time, w core.Window) error {
	return s.KeyTimer.RefuseKeysBefore(context.WithoutCancel(ctx), service, t, w)
}
