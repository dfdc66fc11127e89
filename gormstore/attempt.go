package gormstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// attempt is a row of segments, each one transaction on the app's database: one in Rollback, in Resume one more than the
// handler makes calls. The record is written with the first seal. Until then the key is held by its lock: on
// PostgreSQL an advisory one of the first transaction, which is open from the claim on; on SQLite, which has one writer, by
// the set of running ids of this process.
type attempt struct {
	store *Store
	claim store.Claim
	fence int64
	ends  []byte // how the attempts before have ended

	// The free record that the claim has found.
	freeFence int64 // its fence; 0: there was none
	timed     bool  // it is one of a timed key
	stepped   bool  // it may have steps

	ctx     context.Context // the handler's
	opening func() error
	first   segment
	answer  onceSealed              // the attempt's, however often it is sealed
	results map[string]sealedResult // by the step's name

	mu     sync.Mutex
	last   *txn.Tx // the open one, or the one before
	isOpen bool    // last is open
	sealed bool    // the record is there
	over   bool    // undone before the first seal: the key is free

	refused error // why the database has refused the first seal; nil if it has not
}

var _ store.Attempt = (*attempt)(nil)

// Begin implements [store.Attempts].
func (s *Store) Begin(ctx context.Context, c store.Claim) (store.Attempt, store.Claimed, error) {
	if s.running.has(c.ID) {
		return nil, store.Claimed{Busy: true}, nil
	}
	sent := time.Now()
	for try := range txn.MaxTries {
		a, claimed, err := s.begin(ctx, c)
		switch {
		case err != nil:
			return nil, store.Claimed{}, err
		case a != nil:
			a.answer.deadline = sent.Add(c.Deadline)
			s.running.add(c.ID, c.Owner)
			return a, claimed, nil
		case ours(claimed.Record, c): // the statement of the takeover was sent again
			claimed.Won = true
			return s.goesOn(c, claimed.Record, sent), claimed, nil
		case !isResumable(claimed.Record, c):
			return nil, claimed, nil
		}
		claimed, err = s.resume(ctx, c, claimed.Record)
		switch {
		case errors.Is(err, txn.ErrRace): // it was taken, settled or dropped in between
		case store.LeavesNothing(err):
			return nil, store.Claimed{}, err
		case err != nil:
			claimed.Record.Owner = c.Owner // it may have been taken over
			return nil, claimed, err
		case claimed.Won:
			return s.goesOn(c, claimed.Record, sent), claimed, nil
		case claimed.Busy && try == 0: // perhaps by a repeat that only looks
		default:
			return nil, claimed, nil
		}
	}
	return nil, store.Claimed{Busy: true}, nil
}

// goesOn is the attempt that has taken an operation over.
func (s *Store) goesOn(c store.Claim, won store.Record, sent time.Time) *attempt {
	a := &attempt{store: s, claim: c, fence: won.Fence, ends: won.Ends, sealed: true}
	a.answer.deadline = sent.Add(c.Deadline)
	return a
}

// resume takes over an operation that was found, in a commit of its own.
func (s *Store) resume(ctx context.Context, c store.Claim, found store.Record) (claimed store.Claimed, err error) {
	if hidden, err := outside(found, c); hidden {
		return store.Claimed{Record: found}, err
	}
	if err := s.db.EnterClaim(ctx); err != nil {
		return claimed, err
	}
	defer s.db.LeaveClaim()
	err = s.db.Write(ctx, func(q txn.Querier) error {
		claimed, err = s.takeOver(ctx, q, c, found)
		return err
	})
	return claimed, err
}

// errOver: the attempt was undone before its first seal.
var errOver = fmt.Errorf("%w: the attempt is over, and has sealed nothing", store.ErrStale)

func (a *attempt) ticket() store.Ticket {
	return store.Ticket{ID: a.claim.ID, Owner: a.claim.Owner, Fence: a.fence}
}

// Bind implements [store.Attempt].
func (a *attempt) Bind(ctx context.Context, opening func() error) context.Context {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ctx, a.opening = ctx, opening
	if a.claim.Recovery == store.Rollback {
		return a.last.Bind(ctx)
	}
	if a.isOpen {
		a.last.During(ctx)
	}
	return txn.WithReader(ctx, a.store.db, a)
}

func (a *attempt) lastTx() *txn.Tx {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last
}

// Statements implements [store.Attempt].
func (a *attempt) Statements() store.Statements {
	if t := a.lastTx(); t != nil {
		return t.Statements()
	}
	return store.Statements{}
}

// HasOpen implements [txn.Segments].
func (a *attempt) HasOpen() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.isOpen
}

func (a *attempt) isSealed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sealed
}

// Current returns the open segment. It opens one if none is open.
func (a *attempt) Current(ctx context.Context) (*txn.Tx, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.isOpen:
		return a.last, nil
	case a.over:
		return nil, errOver
	case a.sealed && a.opening != nil:
		if err := a.opening(); err != nil {
			return nil, err
		}
	}
	err := a.open(ctx)
	return a.last, err
}

// OpenOrFirst returns the open segment, or the first one; nil behind the first seal where none is open.
func (a *attempt) OpenOrFirst(ctx context.Context) (*txn.Tx, error) {
	a.mu.Lock()
	ask := a.isOpen || !a.sealed
	a.mu.Unlock()
	if !ask {
		return nil, nil
	}
	return a.Current(ctx)
}

// Step implements [store.Attempt].
func (a *attempt) Step(ctx context.Context, work func(ctx context.Context) error) error {
	t, err := a.Current(ctx)
	if err != nil {
		return err
	}
	inside, leave := t.BindStep(ctx)
	defer leave()
	err = work(inside)
	leave()
	failed := t.FailedStep()
	switch {
	case failed == nil && err == nil:
		t.Steps++
		return nil
	case failed == nil || errors.Is(err, failed):
		return err
	case errors.Is(failed, store.ErrEnded):
		_ = a.Rollback() // which records it
	}
	if err != nil {
		return fmt.Errorf("%w: %w", failed, err)
	}
	return failed
}

// Rollback implements [store.Attempt].
func (a *attempt) Rollback() error {
	a.mu.Lock()
	t, first := a.last, !a.sealed
	a.isOpen, a.over = false, a.over || first
	a.mu.Unlock()
	if t == nil { // none was opened yet
		if first {
			a.first.Unreserve()
		}
		return nil
	}
	err := t.Rollback()
	if !first || errors.Is(err, store.ErrEnded) {
		return err
	}
	ctx, cancel := txn.Ending()
	defer cancel()
	return a.errorByRecord(ctx, t, &a.first, cmp.Or(err, t.Conn.NotOfCommand(true)))
}
