package gormstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// segments are the transactions of a Resume attempt, one after the other. On PostgreSQL the first one is open from the claim
// on: its lock is the claim. On SQLite, which has one writer, the set of running ids is, and the first one opens when it is
// needed.
type segments struct {
	store   *Store
	answer  *answer         // the record as the first seal writes it
	ctx     context.Context // the handler's
	opening func() error

	mu     sync.Mutex
	last   *txn.Tx // the open one, or the one before
	isOpen bool    // last is open
	sealed bool    // the record is there
	over   bool    // undone before the first seal: the key is free

	refused error // why the database has refused the first seal; nil if it has not
}

var _ store.Segments = (*segments)(nil)

// Resume implements [store.Stepper].
func (s *Store) Resume(ctx context.Context, c store.Claim) (store.Segments, store.Claimed, error) {
	for range txn.MaxTries {
		t, claimed, err := s.beginFirst(ctx, c)
		switch {
		case err != nil:
			return nil, store.Claimed{}, err
		case t != nil:
			return &segments{store: s, answer: t.Entry.(*answer), last: t, isOpen: true}, claimed, nil
		case claimed.Won: // SQLite
			return &segments{store: s, answer: s.wonAnswer(c, claimed.Record)}, claimed, nil
		case ours(claimed.Record, c): // the statement of the takeover was sent again
			claimed = store.Claimed{Won: true, Record: claimed.Record}
			return &segments{store: s, answer: s.wonAnswer(c, claimed.Record), sealed: true}, claimed, nil
		case !isResumable(claimed.Record, c):
			return nil, claimed, nil
		}
		claimed, err = s.resume(ctx, c, claimed.Record)
		switch {
		case errors.Is(err, txn.ErrRace): // it was taken, settled or dropped in between
		case err != nil:
			claimed.Record.Owner = c.Owner // it may have been taken over
			return nil, claimed, err
		case claimed.Won:
			return &segments{store: s, answer: s.wonAnswer(c, claimed.Record), sealed: true}, claimed, nil
		default:
			return nil, claimed, nil
		}
	}
	return nil, store.Claimed{Busy: true}, nil
}

func (s *Store) wonAnswer(c store.Claim, won store.Record) *answer {
	return &answer{store: s, claim: c, fence: won.Fence, timed: won.Timed}
}

// resume takes over an operation that was seen, in a commit of its own.
func (s *Store) resume(ctx context.Context, c store.Claim, seen store.Record) (claimed store.Claimed, err error) {
	if hidden, err := outside(seen, c); hidden {
		return store.Claimed{Record: seen}, err
	}
	if err := s.db.EnterClaim(ctx); err != nil {
		return claimed, err
	}
	defer s.db.LeaveClaim()
	err = s.db.Write(ctx, func(q txn.Querier) error {
		claimed, err = s.takeOver(ctx, q, c, seen)
		return err
	})
	return claimed, err
}

// Bind implements [store.Tx].
func (s *segments) Bind(ctx context.Context) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ctx = ctx
	if s.isOpen {
		s.last.During(ctx)
	}
	return txn.WithReader(ctx, s.store.db, s)
}

// FailedWith implements [store.FailedTx].
func (s *segments) FailedWith() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		return ""
	}
	return s.last.FailedWith()
}

// Opening implements [store.Segments].
func (s *segments) Opening(fn func() error) { s.opening = fn }

// Current returns the open segment. It opens one if none is open.
func (s *segments) Current(ctx context.Context) (*txn.Tx, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.isOpen:
		return s.last, nil
	case s.over:
		return nil, store.ErrStale
	case s.sealed:
		if err := s.opening(); err != nil {
			return nil, err
		}
	}
	err := s.open(ctx)
	return s.last, err
}

// OpenOrFirst returns the open segment, or the first one; nil behind the first seal where none is open.
func (s *segments) OpenOrFirst(ctx context.Context) (*txn.Tx, error) {
	s.mu.Lock()
	ask := s.isOpen || !s.sealed
	s.mu.Unlock()
	if !ask {
		return nil, nil
	}
	return s.Current(ctx)
}

// open opens a segment; s.mu is held.
func (s *segments) open(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, txn.EndPatience)
	defer cancel()
	leave, err := s.store.db.EnterSegment(ctx)
	if err != nil {
		return err
	}
	var t *txn.Tx
	err = txn.Retry(ctx, func() error {
		t, err = s.begin(ctx)
		return err
	})
	if err != nil {
		leave()
		if txn.IsConflict(err) {
			err = txn.NotCommitted(err)
		}
		return err
	}
	t.Release = leave
	t.During(s.ctx)
	s.last, s.isOpen = t, true
	return nil
}

func (s *segments) begin(ctx context.Context) (*txn.Tx, error) {
	return s.store.db.Begin(ctx, &sealing{segments: s}, func(t *txn.Tx) error {
		if s.store.db.Dialect == txn.Postgres {
			return s.beginPostgres(ctx, t)
		}
		return s.beginSQLite(ctx, t)
	})
}

// beginPostgres opens a segment behind the first seal. It waits for the key's lock: a repeat that looks holds it for a
// moment. From then on the operation cannot be taken over until the segment ends. Where nothing is sealed, the refusal that
// is recorded alone takes the lock itself.
func (s *segments) beginPostgres(ctx context.Context, t *txn.Tx) error {
	st, own, idle := s.store, t.Conn.SQL, max(txn.TimeLeft(ctx), s.answer.claim.Deadline)
	if !s.sealed {
		return st.db.BeginGuarded(ctx, own, idle, &t.Mark, nil)
	}
	var mine int
	ask, err := st.db.CallOf(ctx, own, ownsRecord, []any{&mine}, ownedBy(s.answer.ticket())...)
	if err == nil {
		err = st.db.BeginGuarded(ctx, own, idle, &t.Mark, s.answer.Lock(), ask)
	}
	if err == nil && mine == 0 {
		err = store.ErrStale
	}
	return err
}

// Step implements [store.Segments].
func (s *segments) Step(ctx context.Context, work func(ctx context.Context) error) error {
	t, err := s.Current(ctx)
	if err != nil {
		return err
	}
	inside, leave := t.BindStep(ctx)
	defer leave()
	err = work(inside)
	leave()
	failed := t.FailedStep(ctx)
	switch {
	case failed == nil && err == nil:
		t.Steps++
		return nil
	case failed == nil || errors.Is(err, failed):
		return err
	case errors.Is(failed, store.ErrEnded):
		_ = s.Rollback() // which records it
	}
	if err != nil {
		return fmt.Errorf("%w: %w", failed, err)
	}
	return failed
}

// Rollback implements [store.Tx].
func (s *segments) Rollback() error {
	s.mu.Lock()
	t := s.last
	s.isOpen = false
	first, undone := !s.sealed, !s.sealed && !s.over
	s.over = s.over || undone
	s.mu.Unlock()
	var err error
	switch {
	case t == nil:
	case first:
		err = rollbackTx{t, s.answer}.Rollback()
	default:
		err = t.Rollback()
	}
	if undone {
		s.free()
	}
	return err
}

// free gives the key free in this process: the attempt has sealed nothing and is over, or the record keeps others out.
func (s *segments) free() {
	s.store.db.File.Unreserve(s.answer.claim.ID, s.answer.claim.Owner)
}

// Seal implements [store.Tx].
func (s *segments) Seal(ctx context.Context, seal store.Seal) (now time.Time, err error) {
	e := &sealing{segments: s, seal: &seal, first: !s.isSealed()}
	t, err := s.toSeal(ctx, seal)
	if err == nil && t != nil {
		if seal.Answer == nil && !seal.Alone { // the handler goes on
			t.Conn.CloseRows()
		}
		err = t.Finish(ctx, func() (txn.LastCalls, error) {
			t.Entry = e
			if err := t.Conn.Distress(seal.Alone); err != nil {
				return txn.LastCalls{}, err
			}
			return e.last(ctx, t)
		})
	}
	if e.first {
		s.noteFirst(err)
	}
	switch {
	case err == nil:
	case e.first && t != nil && (errors.Is(err, store.ErrRetryable) || errors.Is(err, store.ErrAborted)):
		err = rollbackTx{t, s.answer}.unlessTaken(ctx, err)
	case !e.first:
		err = s.unlessTaken(ctx, seal, err)
	}
	return e.at(err), err
}

// noteFirst notes how the first seal has ended. Without an error the record keeps others out from now on.
func (s *segments) noteFirst(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sealed = err == nil
	if errors.Is(err, store.ErrAborted) {
		s.refused = err
	}
	if !s.over {
		s.free()
	}
	s.over = err != nil
}

func (s *segments) HasOpen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isOpen
}

func (s *segments) isSealed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sealed
}

// toSeal returns the transaction that the seal ends. It is nil if the answer could be recorded without one.
func (s *segments) toSeal(ctx context.Context, seal store.Seal) (*txn.Tx, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch t := s.last; {
	case s.over && s.refused != nil && seal.Alone && seal.Answer != nil:
		if err := s.reopen(); err != nil {
			return nil, err
		}
	case s.over:
		return nil, store.ErrStale
	case s.isOpen && !seal.Alone && databaseSteps(seal) > t.Steps: // it was opened after the one with their rows
		return nil, errUndone
	case s.isOpen && (!seal.Alone || !s.sealed):
		s.isOpen = false
		return t, nil
	case s.isOpen: // the rows are undone, and what is alone gets a transaction of its own
		s.isOpen = false
		if err := t.Rollback(); errors.Is(err, store.ErrEnded) {
			return nil, err
		}
	case databaseSteps(seal) > 0:
		return nil, errUndone
	}
	if s.sealed && seal.Answer != nil && seal.Steps == nil {
		return nil, s.store.Complete(ctx, s.answer.ticket(), *seal.Answer)
	}
	err := s.open(ctx)
	s.isOpen = false
	return s.last, err
}

// reopen lets a refusal of the handler be recorded alone behind a first seal that the database has refused, if that error
// says something about the command. It takes the key in this process; the database judges in the last statement.
func (s *segments) reopen() error {
	switch d := s.store.db.Dialect; {
	case !txn.IsOfDatabase(d, s.refused):
		return s.refused
	case !txn.IsOfCommand(d, s.refused):
		return fmt.Errorf("%w: %w: %w", store.ErrRetryable, txn.ErrDistress, s.refused)
	}
	if !s.store.db.File.Reserve(s.answer.claim.ID, s.answer.claim.Owner) {
		return store.ErrStale
	}
	s.over = false
	return nil
}

// errUndone: the rows of the steps that are to be sealed are not in the open segment.
var errUndone = fmt.Errorf("%w: the segment of these steps was undone", store.ErrRetryable)

func databaseSteps(seal store.Seal) (n int) {
	for _, step := range seal.Steps {
		if step.Kind == store.DatabaseStep {
			n++
		}
	}
	return n
}

// unlessTaken returns err, or what the record says about it: ErrStale where another attempt or a settlement has the record;
// nil where an earlier try has recorded the answer. A seal with rows is tried only once.
func (s *segments) unlessTaken(ctx context.Context, seal store.Seal, err error) error {
	if !errors.Is(err, store.ErrStale) && !errors.Is(err, store.ErrRetryable) && !errors.Is(err, store.ErrAborted) {
		return err
	}
	rec, found := s.store.Find(ctx, s.answer.claim.ID)
	switch mine := found == nil && rec.Ticket == s.answer.ticket(); {
	case mine && seal.Answer != nil && databaseSteps(seal) == 0 &&
		(rec.Stored == store.Completed || rec.Stored == store.Expired):
		return nil
	case !mine && (found == nil || errors.Is(found, store.ErrNotFound)):
		return fmt.Errorf("%w: %w", store.ErrStale, err)
	}
	return err
}
