package storetest_test

import (
	"context"
	"sync"

	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/store"
)

// The mutants of a store.Operations. Each keeps all other abilities of a memstore.
var eraseMutants = map[string]mutantOf[*memstore.Store, store.Store]{
	"erases nothing":              {"Erase/Tombstones", func(s *memstore.Store) store.Store { return erasesNothing{s} }},
	"erases for all":              {"Erase/OfOthers", func(s *memstore.Store) store.Store { return &erasesForAll{Store: s} }},
	"frees what it erases":        {"Erase/NoTombstone", func(s *memstore.Store) store.Store { return &freesErased{Store: s} }},
	"brings answers back":         {"Erase/Tombstones", func(s *memstore.Store) store.Store { return &bringsBack{Store: s} }},
	"keeps the steps":             {"Erase/Steps", func(s *memstore.Store) store.Store { return &keepsSteps{Store: s} }},
	"erases the steps of all":     {"Erase/TakenOver", func(s *memstore.Store) store.Store { return &erasesSteps{Store: s} }},
	"names nothing that is open":  {"Erase/LeavesOpen", func(s *memstore.Store) store.Store { return namesNothing{s} }},
	"counts the erased again":     {"Erase/Tombstones", func(s *memstore.Store) store.Store { return &countsAgain{Store: s} }},
	"erases regardless":           {"Erase/Cancelled", func(s *memstore.Store) store.Store { return erasesRegardless{s} }},
	"counts what another erased":  {"Erase/ManyAtOnce", func(s *memstore.Store) store.Store { return &countsOthers{Store: s} }},
	"loses count of what is left": {"Erase/InBatches", func(s *memstore.Store) store.Store { return losesCount{s} }},
}

type erasesNothing struct{ *memstore.Store }

func (erasesNothing) Erase(context.Context, store.Scope, store.ID, int) (store.ErasedPage, error) {
	return store.ErasedPage{}, nil
}

// erasesForAll erases the records of everybody who has claimed.
type erasesForAll struct {
	*memstore.Store
	mu     sync.Mutex
	scopes []store.Scope
}

func (s *erasesForAll) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scopes = append(s.scopes, c.Scope)
	return s.Store.Claim(ctx, c)
}

func (s *erasesForAll) Erase(ctx context.Context, _ store.Scope, after store.ID, limit int) (page store.ErasedPage, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, scope := range s.scopes {
		one, err := s.Store.Erase(ctx, scope, after, limit)
		if err != nil {
			return page, err
		}
		page.Records += one.Records
	}
	return page, nil
}

// freesErased lets the next claim of an erased record that leaves no tombstone win.
type freesErased struct {
	*memstore.Store
	mu     sync.Mutex
	erased bool
}

func (s *freesErased) Erase(ctx context.Context, scope store.Scope, after store.ID, limit int) (store.ErasedPage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erased = true
	return s.Store.Erase(ctx, scope, after, limit)
}

func (s *freesErased) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	got, err := s.Store.Claim(ctx, c)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.erased && err == nil && got.Record.ExpiresAt.Equal(got.Record.Now) {
		got.Won = true
	}
	if s.erased && err == nil && got.Record.State() == store.Expired {
		got.Won = true
	}
	return got, err
}

// bringsBack answers with what was completed last.
type bringsBack struct {
	*memstore.Store
	completed sync.Map
}

func (s *bringsBack) Complete(ctx context.Context, t store.Ticket, c store.Completion) error {
	_, again := s.completed.LoadOrStore(t, c.Answer)
	if again {
		s.completed.Store(t.ID, c.Answer)
	}
	return s.Store.Complete(ctx, t, c)
}

func (s *bringsBack) Find(ctx context.Context, id store.ID) (store.Record, error) {
	rec, err := s.Store.Find(ctx, id)
	if answer, ok := s.completed.Load(id); ok {
		rec.Answer = answer.(store.Answer)
	}
	return rec, err
}

// keepsSteps keeps the steps that it has read.
type keepsSteps struct {
	*memstore.Store
	read sync.Map
}

func (s *keepsSteps) Steps(ctx context.Context, id store.ID) ([]store.StepRecord, error) {
	steps, err := s.Store.Steps(ctx, id)
	if len(steps) > 0 {
		s.read.Store(id, steps)
	} else if read, ok := s.read.Load(id); ok {
		steps = read.([]store.StepRecord)
	}
	return steps, err
}

// erasesSteps erases the steps of what is open too.
type erasesSteps struct {
	*memstore.Store
	erased sync.Map
}

func (s *erasesSteps) Erase(ctx context.Context, scope store.Scope, after store.ID, limit int) (store.ErasedPage, error) {
	page, err := s.Store.Erase(ctx, scope, after, limit)
	for _, id := range page.Open {
		s.erased.Store(id, true)
	}
	return page, err
}

func (s *erasesSteps) Steps(ctx context.Context, id store.ID) ([]store.StepRecord, error) {
	steps, err := s.Store.Steps(ctx, id)
	if _, ok := s.erased.Load(id); ok {
		steps = nil
	}
	return steps, err
}

type namesNothing struct{ *memstore.Store }

func (s namesNothing) Erase(ctx context.Context, scope store.Scope, after store.ID, limit int) (store.ErasedPage, error) {
	page, err := s.Store.Erase(ctx, scope, after, limit)
	page.Open = nil
	return page, err
}

// countsAgain counts what it has erased before.
type countsAgain struct {
	*memstore.Store
	mu     sync.Mutex
	erased int
}

func (s *countsAgain) Erase(ctx context.Context, scope store.Scope, after store.ID, limit int) (store.ErasedPage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	page, err := s.Store.Erase(ctx, scope, after, limit)
	s.erased += page.Records
	page.Records = s.erased
	return page, err
}

type erasesRegardless struct{ *memstore.Store }

func (s erasesRegardless) Erase(ctx context.Context, scope store.Scope, after store.ID, limit int) (store.ErasedPage, error) {
	return s.Store.Erase(context.WithoutCancel(ctx), scope, after, limit)
}

// countsOthers counts one record more where others erase at the same time.
type countsOthers struct {
	*memstore.Store
	mu    sync.Mutex
	calls int
}

func (s *countsOthers) Erase(ctx context.Context, scope store.Scope, after store.ID, limit int) (store.ErasedPage, error) {
	s.mu.Lock()
	s.calls++
	more := s.calls == 2
	s.mu.Unlock()
	page, err := s.Store.Erase(ctx, scope, after, limit)
	if more {
		page.Records++
	}
	return page, err
}

type losesCount struct{ *memstore.Store }

func (s losesCount) Erase(ctx context.Context, scope store.Scope, after store.ID, limit int) (store.ErasedPage, error) {
	page, err := s.Store.Erase(ctx, scope, after, limit)
	page.Records = min(page.Records, limit)
	return page, err
}
