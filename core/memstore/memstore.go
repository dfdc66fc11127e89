package memstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/auth19/idem/core/store"
)

// DefaultMaxRecords is how many records a store holds unless [WithMaxRecords] says otherwise. A record takes about
// half a kilobyte beside its answer.
const DefaultMaxRecords = 1_000_000

// Store is an in-memory [store.Store]. Make one with [New]; its methods may be called from several goroutines at once.
// One lock guards all of it. Lists, counts and sweeps look at every record.
type Store struct {
	now func() time.Time
	max int

	mu       sync.Mutex
	records  map[store.ID]*entry
	running  map[store.ID]*entry // first attempts that have sealed nothing yet
	count    int                 // of both: a key has one place
	history  map[store.ID][]Settled
	notes    map[store.ID][]store.Note
	commands []arrival         // in the order they came
	scopings map[string]string // the fingerprints that are kept, by namespace
	floors   map[string]time.Time
	ages     map[string]store.AgeLimit
}

var (
	_ store.Attempts   = (*Store)(nil)
	_ store.Operations = (*Store)(nil)
	_ store.Proposals  = (*Store)(nil)
	_ store.Settings   = (*Store)(nil)
	_ store.CommandLog = (*Store)(nil)
)

// Option changes a default of [New].
type Option func(*Store)

// WithMaxRecords sets how many records the store holds, [DefaultMaxRecords] by default and where n is below 1. A full
// store refuses new keys with store.ErrFull; no live, unknown or tombstoned record ever makes room (T-4).
func WithMaxRecords(n int) Option {
	return func(s *Store) {
		if n > 0 {
			s.max = n
		}
	}
}

// WithClock sets the store's clock, [time.Now] by default. now is called from many goroutines, under the lock of the
// store: it must not call the store.
func WithClock(now func() time.Time) Option {
	return func(s *Store) {
		if now != nil {
			s.now = now
		}
	}
}

// New returns an empty store. It starts nothing and needs no closing.
func New(opts ...Option) *Store {
	s := &Store{
		now: time.Now, max: DefaultMaxRecords, records: map[store.ID]*entry{}, running: map[store.ID]*entry{},
		history: map[store.ID][]Settled{}, notes: map[store.ID][]store.Note{}, scopings: map[string]string{},
		floors: map[string]time.Time{}, ages: map[string]store.AgeLimit{},
	}
	for _, opt := range opts {
		opt(s)
	}
	return s
}

// Ready implements [store.Operations].
func (s *Store) Ready(ctx context.Context) error { return alive(ctx) }

// alive is called first in every method: a call whose context has ended does nothing.
func alive(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("idem: memstore: %w", err)
	}
	return nil
}

// do runs a call under the lock, by the store's clock.
func (s *Store) do(ctx context.Context, call func(now time.Time) error) error {
	if err := alive(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return call(s.now())
}

// get is do for a call with a result.
func get[T any](ctx context.Context, s *Store, call func(now time.Time) (T, error)) (result T, err error) {
	err = s.do(ctx, func(now time.Time) error {
		result, err = call(now)
		return err
	})
	return result, err
}
