package storetest_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/storetest"
)

// reference is a core.Transactor over memstore: the simplest one that passes the Tx tests. Its transactions are as
// atomic as one process can make them. Nothing in it is durable.
type reference struct {
	*memstore.Store
	mu      sync.Mutex
	open    map[core.ID]bool // claimed by a transaction that is not over
	effects int
}

func newReference(*testing.T) storetest.Subject {
	var clock storetest.Clock
	store := &reference{Store: memstore.New(memstore.WithClock(clock.Now)), open: map[core.ID]bool{}}
	return storetest.Subject{
		Store:   store,
		Advance: clock.Advance,
		Twin:    func(*testing.T) core.Store { return store },
		Effect:  store.effect,
		Effects: func(*testing.T) int {
			store.mu.Lock()
			defer store.mu.Unlock()
			return store.effects
		},
	}
}

func (s *reference) Claim(ctx context.Context, c core.Claim) (core.Claimed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.claim(ctx, c)
}

func (s *reference) claim(ctx context.Context, c core.Claim) (core.Claimed, error) {
	if s.open[c.ID] && ctx.Err() == nil {
		return core.Claimed{Busy: true}, nil
	}
	return s.Store.Claim(ctx, c)
}

func (s *reference) Find(ctx context.Context, id core.ID) (core.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[id] {
		return core.Record{}, core.ErrNotFound
	}
	return s.Store.Find(ctx, id)
}

func (s *reference) Begin(ctx context.Context, c core.Claim) (core.Tx, core.Claimed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	got, err := s.claim(ctx, c)
	if !got.Won {
		return nil, got, err
	}
	s.open[c.ID] = true
	return &referenceTx{store: s, ticket: got.Record.Ticket}, got, nil
}

func (s *reference) InFlight(ctx context.Context, id core.ID) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[id], ctx.Err()
}

type txKey struct{}

type referenceTx struct {
	store   *reference
	ticket  core.Ticket
	over    bool
	effects int
	settle  []core.Settlement
	refs    []core.Ref
}

func (tx *referenceTx) Bind(ctx context.Context) context.Context {
	return context.WithValue(ctx, txKey{}, tx)
}

func (s *reference) effect(ctx context.Context) error {
	tx, _ := ctx.Value(txKey{}).(*referenceTx)
	if tx == nil {
		return errors.New("no transaction")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	tx.effects++
	return nil
}

// Settle in a transaction is checked at once and written with the commit.
func (s *reference) Settle(ctx context.Context, d core.Settlement) (core.Record, error) {
	tx, _ := ctx.Value(txKey{}).(*referenceTx)
	if tx == nil {
		return s.Store.Settle(ctx, d)
	}
	r, err := s.Find(ctx, d.ID)
	if err != nil {
		return r, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	tx.settle = append(tx.settle, d)
	r.Fence, r.Stored, r.Answer = r.Fence+1, core.Completed, d.Answer.Answer
	r.ExpiresAt = r.Now.Add(d.Answer.Retention)
	r.PurgeAt = r.ExpiresAt.Add(d.Answer.Tombstone)
	return r, nil
}

// Refer in a transaction is written with the commit.
func (s *reference) Refer(ctx context.Context, id core.ID, realm core.Realm, ref core.Ref) error {
	tx, _ := ctx.Value(txKey{}).(*referenceTx)
	if tx == nil {
		return s.Store.Refer(ctx, id, realm, ref)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	tx.refs = append(tx.refs, ref)
	return nil
}

func (tx *referenceTx) Commit(ctx context.Context, c core.Completion, undo bool) error {
	tx.store.mu.Lock()
	defer tx.store.mu.Unlock()
	if tx.over {
		return core.ErrAborted
	}
	tx.over = true
	delete(tx.store.open, tx.ticket.ID)
	ctx = context.WithoutCancel(ctx)
	if !undo {
		tx.store.effects += tx.effects
		for _, ref := range tx.refs {
			if err := tx.store.Store.Refer(ctx, tx.ticket.ID, core.Realm{}, ref); err != nil {
				return err
			}
		}
		for _, d := range tx.settle {
			if _, err := tx.store.Store.Settle(ctx, d); err != nil {
				return err
			}
		}
	}
	return tx.store.Complete(ctx, tx.ticket, c)
}

func (tx *referenceTx) Rollback() error {
	tx.store.mu.Lock()
	defer tx.store.mu.Unlock()
	if tx.over {
		return nil
	}
	tx.over = true
	delete(tx.store.open, tx.ticket.ID)
	return tx.store.Release(context.Background(), tx.ticket)
}
