package memstore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/auth19/idem/core/store"
)

// DefaultMaxRecords is how many records a store holds unless [WithMaxRecords] says otherwise. A record takes about
// half a kilobyte beside its answer.
const DefaultMaxRecords = 1_000_000

// shardCount is a power of two, so that a byte of an id's hash picks a shard evenly.
const shardCount = 64

// Store is an in-memory [store.Store]. Make one with [New]; its methods may be called from several goroutines at once.
type Store struct {
	now    func() time.Time
	max    int64
	count  atomic.Int64 // records in all shards
	shards [shardCount]shard

	sightings sightings
	scopings  scopings
	keyTimes  keyTimes
}

var _ store.Store = (*Store)(nil)

// shard is the part of the records that one lock guards.
type shard struct {
	mu      sync.Mutex
	records map[store.ID]*entry
	running map[store.ID]*entry   // of first attempts that have sealed nothing yet
	queues  [store.Free + 1]queue // by the stored state: what a sweep will find, soonest first
	history map[store.ID][]Settled
	open    map[*entry]struct{} // rows that are stored as running or unknown
}

// Option changes a default of [New].
type Option func(*Store)

// WithMaxRecords sets how many records the store holds, [DefaultMaxRecords] by default and where n is below 1. A full
// store refuses new keys with store.ErrFull; no live, unknown or tombstoned record ever makes room (T-4).
func WithMaxRecords(n int) Option {
	return func(s *Store) {
		if n > 0 {
			s.max = int64(n)
		}
	}
}

// WithClock sets the store's clock, [time.Now] by default. now is called from many goroutines, under a lock of the
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
	s := &Store{now: time.Now, max: DefaultMaxRecords}
	for _, opt := range opts {
		opt(s)
	}
	for i := range s.shards {
		s.shards[i].records, s.shards[i].running = map[store.ID]*entry{}, map[store.ID]*entry{}
		s.shards[i].open = map[*entry]struct{}{}
	}
	return s
}

func (s *Store) shard(id store.ID) *shard { return &s.shards[id.Hash()[0]%shardCount] }

// alive is called first in every method: a call whose context has ended does nothing.
func alive(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("idem: memstore: %w", err)
	}
	return nil
}
