package gormstore

import (
	"context"
	"errors"
	"time"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// Settle implements [store.Operations].
func (s *Store) Settle(ctx context.Context, st store.Settlement) (store.Record, error) {
	var settled store.Record
	state, c, a := store.Free, store.Completion{Retention: store.DefaultTombstone}, storedAnswer{encoding: plain}
	if st.Answer != nil {
		var err error
		state, c = store.Completed, *st.Answer
		whole := store.Answer{Status: c.Answer.Status, Header: c.Answer.Header, Body: c.Answer.Body}
		if a, err = s.sealer.answer(ctx, time.Time{}, st.ID, whole); err != nil { // sealed once, in front of the transaction
			return store.Record{}, err
		}
	}
	work := func(q txn.Querier) error {
		before, err := s.find(ctx, q, st.ID)
		if err != nil {
			return err
		}
		end := func() error {
			n, err := s.db.Exec(ctx, q, settle, st.ID[:], st.Fence, int64(state), int64(a.status), a.headers, a.body,
				c.Retention.Microseconds(), (c.Retention + c.Tombstone).Microseconds(), txn.Micros(st.Window.From),
				txn.Latest(st.Window), before.EndsBefore(), a.encoding)
			if err == nil && n == 0 {
				err = errUnchanged
			}
			return err
		}
		taken := true
		if st.Proposal == ([16]byte{}) {
			err = end()
		} else {
			taken, err = s.endProposal(ctx, q, st.ID, st.Proposal, st.Fence, store.CarriedOut, st.Who, end)
		}
		refused := errors.Is(err, errUnchanged) || err == nil && !taken
		if err != nil && !refused {
			return err
		}
		if settled, err = s.find(ctx, q, st.ID); err != nil {
			return err
		}
		if refused {
			err = unsettled(settled, st.Fence, st.Window)
			if errors.Is(err, store.ErrStale) && settled.Fence == st.Fence && st.Proposal == ([16]byte{}) {
				err = heldError{err}
			}
			return err
		}
		_, err = s.db.Exec(ctx, q, appendSettlement, st.ID[:], st.Who, st.Why, before.Fence, int64(before.Stored),
			settled.Fence, int64(settled.Stored), int64(settled.Answer.Status), st.Undone)
		return err
	}
	if err := s.joined(ctx, work); err != nil {
		return store.Record{}, err
	}
	return settled, nil
}

// heldError says that another transaction has the record, where nobody waits for that. It counts as a conflict, and is tried
// again: the owner may be recording its answer.
type heldError struct{ error }

// Unwrap returns what it is if the record stays held.
func (e heldError) Unwrap() error { return e.error }

// SQLState is that of a conflict.
func (heldError) SQLState() string { return "40001" }

// errUnchanged: the statement that settles has changed nothing.
var errUnchanged = errors.New("idem: gormstore: nothing was settled")

// unsettled is why a record as it is now was not settled, or could not be proposed to be. If it could be, the decision was
// about another fence, or a proposal was in the way, or gone.
func unsettled(r store.Record, fence int64, w store.Window) error {
	switch {
	case !w.Has(r.Now):
		return store.ErrClock
	case r.State() == store.Unknown && (r.Fence != fence || r.LeaseExpired() && !r.Now.Before(r.Deadline)):
		return store.ErrStale
	}
	return store.ErrNotSettleable
}

// joined runs work in the transaction of the attempt that ctx is of, or in one of its own, which is durable.
func (s *Store) joined(ctx context.Context, work func(q txn.Querier) error) error {
	durably := func(q txn.Querier) error {
		if err := s.db.Durably(ctx, q); err != nil {
			return err
		}
		return work(q)
	}
	if t := txn.TxFrom(ctx); t != nil && t.DB == s.db {
		t.MarkWrote()
		return durably(t.Use())
	}
	return s.db.InTx(ctx, durably)
}

// Intervene implements [store.Operations]. Its statements are those of the owner: they compare owner and fence.
func (s *Store) Intervene(ctx context.Context, i store.Intervention) (after store.Record, err error) {
	err = s.joined(ctx, func(q txn.Querier) error {
		before, err := s.find(ctx, q, i.ID)
		switch {
		case err != nil:
			return err
		case !i.Window.Has(before.Now):
			return store.ErrClock
		case !before.HalfDone():
			return store.ErrNotSettleable
		case before.Fence != i.Fence:
			return store.ErrStale
		}
		args := append(ownedBy(before.Ticket), before.EndsBefore())
		if i.GiveUp {
			_, err = s.db.Exec(ctx, q, park, args...)
		} else { // its lease ends earlier: before it, the record keeps when it really ended
			_, err = s.db.Exec(ctx, q, yield, append(args, before.NextAttempt(i.Pause).Sub(before.LeaseUntil).Microseconds())...)
		}
		if err != nil {
			return err
		}
		if after, err = s.find(ctx, q, i.ID); err != nil {
			return err
		}
		if after.Fence != before.Fence || i.GiveUp != (after.Stored == store.Unknown) { // another attempt was quicker
			return store.ErrStale
		}
		_, err = s.db.Exec(ctx, q, appendSettlement, i.ID[:], i.Who, i.Why, before.Fence, int64(before.Stored), after.Fence,
			int64(after.Stored), int64(0), "")
		return err
	})
	return after, err
}
