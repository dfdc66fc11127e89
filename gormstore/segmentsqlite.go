package gormstore

import (
	"cmp"
	"context"
	"errors"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// On SQLite the set of running ids is the claim of a Resume attempt, and its first segment opens when it is needed: it is
// the one writer from then on. The first segment writes the record at once, as a Rollback attempt does; the later ones a
// step without a name, which is deleted at their end. The row shows whether the transaction is still open (see
// txn.Tx.alive).

// wouldWin says how a claim would end that has reserved its key. It writes nothing.
func (s *Store) wouldWin(ctx context.Context, c store.Claim) (store.Claimed, error) {
	now, floor, err := s.readFloor(ctx, s.db.Pool, c)
	if err != nil {
		return store.Claimed{}, err
	}
	rec, err := s.find(ctx, s.db.Pool, c.ID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		rec = store.Record{}
		if !c.Trusts(now) {
			return store.Claimed{}, store.ErrClock
		}
		if !c.Key.Allows(now, floor.Time) {
			return keyRefused(now), nil
		}
	case err != nil, !takeable(rec, c) || rec.State() != store.Free:
		return store.Claimed{Record: rec}, err
	default:
		if hidden, err := outside(rec, c); hidden {
			return store.Claimed{Record: rec}, err
		}
		if refuses(rec, c, floor) {
			return keyRefused(rec.Now), nil
		}
	}
	won := wonRecord(c, rec.Fence+1, now)
	won.Timed = rec.Timed || c.Key.Timed
	return store.Claimed{Won: true, Record: won}, nil
}

// beginSQLite opens a segment.
func (s *segments) beginSQLite(ctx context.Context, t *txn.Tx) error {
	st, own, ticket := s.store, t.Conn.SQL, s.answer.ticket()
	if !s.sealed {
		first, claimed, err := st.beginSQLite(ctx, own, s.answer.claim)
		switch {
		case err != nil:
			return err
		case !claimed.Won || claimed.Record.Ticket != ticket: // the free record was dropped, or imported over
			return store.ErrRetryable
		}
		t.Entry = firstOf{first.Entry.(*answer)}
		return nil
	}
	if _, err := own.ExecContext(ctx, st.db.Dialect.Begin); err != nil {
		return err
	}
	if n, err := st.db.Exec(ctx, own, ownRecord, ownedBy(ticket)...); err != nil || n == 0 {
		return cmp.Or(err, store.ErrStale)
	}
	_, err := st.db.Exec(ctx, own, beginTrace, ticket.ID[:], ticket.Fence)
	if err == nil {
		_, err = own.ExecContext(ctx, txn.SetSavepoint)
	}
	return err
}

// firstOf is the entry of a first segment. Its key is given free once, by segments.free: a second time it may be another
// attempt's already.
type firstOf struct{ *answer }

func (firstOf) Leave() {}

func (e *sealing) Trace() (txn.Statement, []any) {
	t := e.segments.answer.ticket()
	return traceSegment, []any{t.ID[:], t.Fence}
}

// lastSQLite writes what a segment seals, and returns its last message.
func (e *sealing) lastSQLite(ctx context.Context, t *txn.Tx) (txn.LastCalls, error) {
	a, own := e.segments.answer, t.Conn.SQL
	if e.seal.Answer != nil && e.first {
		args, err := completionArgs(*e.seal.Answer)
		if err != nil {
			return txn.LastCalls{}, txn.NotCommitted(err)
		}
		last, err := rollbackTx{t, a}.recordSQLite(ctx, args, e.seal.Alone)
		if err == nil {
			err = e.putSteps(ctx, t)
		}
		return last, err
	}
	if err := t.StillOpen(ctx); err != nil {
		return txn.LastCalls{}, err
	}
	err := e.putSteps(ctx, t)
	if err != nil {
		return txn.LastCalls{}, err
	}
	if _, err = t.DB.Exec(ctx, own, endTrace, a.claim.ID[:]); err != nil {
		return txn.LastCalls{}, txn.NotCommitted(err)
	}
	if err = t.DB.QueryRow(ctx, own, txn.Clock).Scan(&e.now); err != nil {
		return txn.LastCalls{}, txn.NotCommitted(err)
	}
	name, args := sealRunning, append(ownedBy(a.ticket()), a.claim.Lease.Microseconds(), e.now, nil)
	switch {
	case e.seal.Answer != nil:
		name = complete
		answer, err := completionArgs(*e.seal.Answer)
		if err != nil {
			return txn.LastCalls{}, txn.NotCommitted(err)
		}
		args = append(ownedBy(a.ticket()), answer...)
	case !e.seal.Window.Has(txn.Time(e.now)):
		return txn.LastCalls{}, store.ErrClock
	case e.first:
		args[len(args)-1] = a.claim.Deadline.Microseconds()
	}
	n, err := t.DB.Exec(ctx, own, name, args...)
	switch {
	case err != nil:
		return txn.LastCalls{}, txn.NotCommitted(err)
	case n != 1:
		return txn.LastCalls{}, store.ErrStale
	}
	return txn.Committing(), nil
}

// putSteps writes the steps of a segment.
func (e *sealing) putSteps(ctx context.Context, t *txn.Tx) error {
	ticket := e.segments.answer.ticket()
	for _, step := range e.steps() {
		args := append([]any{ticket.ID[:]}, step.args(ticket.Fence)...)
		switch n, err := t.DB.Exec(ctx, t.Conn.SQL, putStep, args...); {
		case err != nil:
			return txn.NotCommitted(err)
		case n == 0:
			return store.ErrStale
		}
	}
	return nil
}
