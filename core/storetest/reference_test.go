package storetest_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"testing"

	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/core/storetest"
)

// reference is a store.Attempts with rows over memstore: the simplest one that passes the tests.
// Its transactions are as atomic as one process can make them. Nothing in it is durable.
type reference struct {
	*memstore.Store
	mu      sync.Mutex
	effects int
}

func newReference(*testing.T) storetest.Subject {
	var clock storetest.Clock
	st := &reference{Store: memstore.New(memstore.WithClock(clock.Now))}
	return storetest.Subject{
		Store:   st,
		Advance: clock.Advance,
		Twin:    func(*testing.T) store.Operations { return st },
		Effect:  st.effect,
		Effects: func(*testing.T) int {
			st.mu.Lock()
			defer st.mu.Unlock()
			return st.effects
		},
	}
}

func (s *reference) Rows() bool { return true }

// Begin leaves the rest to memstore, which keeps a first attempt out of sight whatever its recovery.
func (s *reference) Begin(ctx context.Context, c store.Claim) (store.Attempt, store.Claimed, error) {
	tx, got, err := s.begin(ctx, c)
	if tx == nil {
		return nil, got, err
	}
	return tx, got, err
}

func (s *reference) begin(ctx context.Context, c store.Claim) (*referenceTx, store.Claimed, error) {
	under, got, err := s.Store.Begin(ctx, c)
	if under == nil {
		return nil, got, err
	}
	return &referenceTx{Attempt: under, store: s, recovery: c.Recovery}, got, err
}

type txKey struct{}

// referenceTx is the open transaction of an attempt. store.mu guards its rows.
type referenceTx struct {
	store.Attempt
	store    *reference
	recovery store.Recovery
	wrote    bool
	effects  int
	settle   []store.Settlement
	refs     []func() error
}

func (tx *referenceTx) Bind(ctx context.Context, opening func() error) context.Context {
	ctx = tx.Attempt.Bind(ctx, opening)
	if tx.recovery == store.Resume {
		return ctx // only steps write
	}
	return context.WithValue(ctx, txKey{}, tx)
}

func (tx *referenceTx) Step(ctx context.Context, work func(ctx context.Context) error) error {
	return tx.Attempt.Step(ctx, func(ctx context.Context) error { return work(context.WithValue(ctx, txKey{}, tx)) })
}

func (tx *referenceTx) Statements() store.Statements {
	tx.store.mu.Lock()
	defer tx.store.mu.Unlock()
	return store.Statements{Wrote: tx.wrote}
}

func (s *reference) effect(ctx context.Context) error {
	tx, _ := ctx.Value(txKey{}).(*referenceTx)
	if tx == nil {
		return errors.New("no transaction")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	tx.effects++
	tx.wrote = true
	return nil
}

// Settle in a transaction is checked at once and written with the commit.
func (s *reference) Settle(ctx context.Context, d store.Settlement) (store.Record, error) {
	tx, _ := ctx.Value(txKey{}).(*referenceTx)
	if tx == nil {
		return s.Store.Settle(ctx, d)
	}
	r, err := s.Find(ctx, d.ID, store.Viewer{All: true})
	if err != nil {
		return r, err
	}
	if !d.Window.Has(r.Now) {
		return r, store.ErrClock
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	tx.settle = append(tx.settle, d)
	tx.wrote = true
	if ends := r.EndsBefore(); ends != nil {
		r.Ends = ends
	}
	r.Fence, r.Stored, r.Answer = r.Fence+1, store.Completed, d.Answer.Answer
	r.ExpiresAt = r.Now.Add(d.Answer.Retention)
	r.PurgeAt = r.ExpiresAt.Add(d.Answer.Tombstone)
	return r, nil
}

// Refer in a transaction is written with the commit, as what is proposed and withdrawn is.
func (s *reference) Refer(ctx context.Context, id store.ID, realm store.Realm, ref store.Ref) error {
	return s.later(ctx, func(ctx context.Context) error { return s.Store.Refer(ctx, id, realm, ref) })
}

func (s *reference) Propose(ctx context.Context, n store.Note, w store.Window) error {
	return s.later(ctx, func(ctx context.Context) error { return s.Store.Propose(ctx, n, w) })
}

func (s *reference) Withdraw(ctx context.Context, token [16]byte, n store.Note) error {
	return s.later(ctx, func(ctx context.Context) error { return s.Store.Withdraw(ctx, token, n) })
}

func (s *reference) later(ctx context.Context, write func(context.Context) error) error {
	tx, _ := ctx.Value(txKey{}).(*referenceTx)
	if tx == nil {
		return write(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	tx.refs = append(tx.refs, func() error { return write(context.WithoutCancel(ctx)) })
	return nil
}

func (tx *referenceTx) Seal(ctx context.Context, seal store.Seal) (time.Time, error) {
	tx.store.mu.Lock()
	defer tx.store.mu.Unlock()
	effects, settle, refs := tx.effects, tx.settle, tx.refs
	tx.effects, tx.settle, tx.refs = 0, nil, nil
	now, err := tx.Attempt.Seal(ctx, seal)
	if err != nil || seal.Alone {
		return now, err
	}
	tx.store.effects += effects
	for _, refer := range refs {
		if err := refer(); err != nil {
			return now, err
		}
	}
	for _, d := range settle {
		if _, err := tx.store.Store.Settle(ctx, d); err != nil {
			return now, err
		}
	}
	return now, nil
}

func (tx *referenceTx) Rollback() error {
	tx.store.mu.Lock()
	defer tx.store.mu.Unlock()
	tx.effects, tx.settle, tx.refs = 0, nil, nil
	return tx.Attempt.Rollback()
}
