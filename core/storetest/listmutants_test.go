package storetest_test

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/auth19/idem/core/store"
)

// The mutants of a store that finds open records in two places, of which a sweep fills one.

// skipsInPatrol loses records that are running when a sweep comes by.
type skipsInPatrol struct {
	store.Store
	mu      sync.Mutex
	running map[store.ID]bool
	lost    map[store.ID]bool
}

func newSkipsInPatrol(s store.Store) store.Store {
	return &skipsInPatrol{Store: s, running: map[store.ID]bool{}, lost: map[store.ID]bool{}}
}

func (s *skipsInPatrol) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	got, err := s.Store.Claim(ctx, c)
	s.mu.Lock()
	defer s.mu.Unlock()
	if got.Won {
		s.running[c.ID] = true
	}
	return got, err
}

func (s *skipsInPatrol) Park(ctx context.Context, t store.Ticket) error {
	s.mu.Lock()
	delete(s.running, t.ID)
	delete(s.lost, t.ID)
	s.mu.Unlock()
	return s.Store.Park(ctx, t)
}

func (s *skipsInPatrol) Sweep(ctx context.Context, limit int, w store.Window) (store.Swept, error) {
	s.mu.Lock()
	for id := range s.running {
		s.lost[id] = true
	}
	s.mu.Unlock()
	return s.Store.Sweep(ctx, limit, w)
}

func (s *skipsInPatrol) List(ctx context.Context, q store.Query) ([]store.Record, error) {
	found, err := s.Store.List(ctx, q)
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(found, func(r store.Record) bool { return s.lost[r.ID] }), err
}

// parkedFirst pages through those that were parked before the others.
type parkedFirst struct{ store.Store }

func (s parkedFirst) List(ctx context.Context, q store.Query) ([]store.Record, error) {
	after, limit := q.After, q.Limit
	q.After, q.Limit = store.Place{}, 1000
	all, err := s.Store.List(ctx, q)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b store.Record) int { return int(b.Stored) - int(a.Stored) })
	if i := slices.IndexFunc(all, func(r store.Record) bool { return r.ID == after.ID }); i >= 0 {
		all = all[i+1:]
	}
	return all[:min(limit, len(all))], nil
}

// oneWay never lists what was claimed at a time that an earlier claim had passed.
type oneWay struct {
	store.Store
	mu     sync.Mutex
	latest time.Time
	behind map[store.ID]bool
}

func newOneWay(s store.Store) store.Store { return &oneWay{Store: s, behind: map[store.ID]bool{}} }

func (s *oneWay) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	got, err := s.Store.Claim(ctx, c)
	s.mu.Lock()
	defer s.mu.Unlock()
	if got.Won && got.Record.Now.Before(s.latest) {
		s.behind[c.ID] = true
	} else if got.Won {
		s.latest = got.Record.Now
	}
	return got, err
}

func (s *oneWay) List(ctx context.Context, q store.Query) ([]store.Record, error) {
	found, err := s.Store.List(ctx, q)
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(found, func(r store.Record) bool { return s.behind[r.ID] }), err
}

// keepsTheLate never sweeps an answer that came after its operation was unknown.
type keepsTheLate struct{ store.Store }

func (s keepsTheLate) Complete(ctx context.Context, t store.Ticket, c store.Completion) error {
	if r, err := s.Find(ctx, t.ID); err == nil && r.State() == store.Unknown {
		c.Retention *= 1000
	}
	return s.Store.Complete(ctx, t, c)
}

// forgetsTheParked does not count what was parked.
type forgetsTheParked struct {
	store.Operations
	mu     sync.Mutex
	parked int
}

func (s *forgetsTheParked) Park(ctx context.Context, t store.Ticket) error {
	s.mu.Lock()
	s.parked++
	s.mu.Unlock()
	return s.Operations.Park(ctx, t)
}

func (s *forgetsTheParked) CountOpen(ctx context.Context, scope store.Scope, limit int) (int, error) {
	n, err := s.Operations.CountOpen(ctx, scope, limit)
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(0, n-s.parked), err
}
