package storetest

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/store"
)

var txChecks = []check{
	{"Tx/Visible", txVisibleOnlyAfterCommit},
	{"Tx/Rollback", txRollbackLeavesNothing},
	{"Tx/RollbackRestores", txRollbackRestores},
	{"Tx/Undo", txUndo},
	{"Tx/BusyAtOnce", txBusyAtOnce},
	{"Tx/InFlight", txInFlight},
	{"Tx/BesideEachOther", txBesideEachOther},
	{"Tx/OneOfManyWins", txOneOfManyWins},
	{"Tx/ExistingRow", txExistingRow},
	{"Tx/OverOnce", txOverOnce},
	{"Tx/RollbackDuringCommit", txRollbackDuringCommit},
	{"Tx/ClaimContext", txClaimContext},
	{"Tx/Cancelled", txCancelled},
	{"Tx/Settlement", txSettlement},
	{"Tx/EndedByItsHandler", txEndedByItsHandler},
}

// tryBegin claims c in a transaction. A failed test ends it too, because it would hold locks.
func (s *fixture) tryBegin(t *testing.T, st store.Attempts, c store.Claim) (store.Attempt, store.Claimed) {
	t.Helper()
	tx, got, err := st.Begin(s.ctx, c)
	if tx != nil {
		t.Cleanup(func() { _ = tx.Rollback() })
	}
	require.NoError(t, err)
	return tx, got
}

// begin opens a transaction on the first instance and must win.
func (s *fixture) begin(t *testing.T, c store.Claim) (store.Attempt, store.Record) {
	t.Helper()
	tx, got := s.tryBegin(t, s.attempts[0], c)
	require.True(t, got.Won, "the claim must win; it found %s", brief(got))
	require.False(t, got.Busy)
	require.NotNil(t, tx)
	require.Equal(t, c.ID, got.Record.ID)
	require.Equal(t, c.Owner, got.Record.Owner)
	return tx, got.Record
}

// conclude seals an answer. If it is alone, the transaction's rows are undone.
func conclude(ctx context.Context, tx store.Attempt, c store.Completion, alone bool) error {
	_, err := tx.Seal(ctx, store.Seal{Answer: &c, Alone: alone})
	return err
}

// act writes a business row in tx.
func (s *fixture) act(t *testing.T, tx store.Attempt) {
	t.Helper()
	require.NoError(t, s.Effect(tx.Bind(s.ctx, nil)))
	requireWrote(t, tx, true)
}

// requireWrote checks what a transaction says that can tell whether it has carried a write.
func requireWrote(t *testing.T, tx store.Attempt, wrote bool) {
	t.Helper()
	require.Equal(t, wrote, tx.Statements().Wrote)
}

// CONTRACT, M-3, X-11
func txVisibleOnlyAfterCommit(t *testing.T, s *fixture) {
	c := s.command(store.Rollback)
	tx, won := s.begin(t, c)
	requireNew(t, c, won)
	require.EqualValues(t, 1, won.Fence)
	requireWrote(t, tx, false)
	s.act(t, tx)
	for _, st := range s.instances {
		_, err := st.Find(s.ctx, c.ID, store.Viewer{All: true})
		require.ErrorIs(t, err, store.ErrNotFound)
	}
	require.Zero(t, s.Effects(t))
	require.NoError(t, conclude(s.ctx, tx, kept(answerOf("paid")), false))

	require.Equal(t, 1, s.Effects(t))
	s.requireState(t, store.Completed, c)
	got := s.find(t, c.ID)
	requireAnswer(t, answerOf("paid"), got.Answer)
	require.Equal(t, won.Ticket, got.Ticket)
	require.Equal(t, store.Rollback, got.Recovery)
	require.Equal(t, c.Hash, got.Hash)
	require.WithinDuration(t, got.Now.Add(retention), got.ExpiresAt, lease)
	s.Advance(t, retention+lease)
	s.requireState(t, store.Expired, c)
}

// CONTRACT X-0
func txRollbackLeavesNothing(t *testing.T, s *fixture) {
	c := s.command(store.Rollback)
	tx, _ := s.begin(t, c)
	s.act(t, tx)
	require.NoError(t, tx.Rollback())
	s.requireGoneOrFree(t, c.ID)
	require.Zero(t, s.Effects(t))

	tx, _ = s.begin(t, repeat(c)) // free at once
	s.act(t, tx)
	require.NoError(t, conclude(s.ctx, tx, kept(answerOf("second")), false))
	require.Equal(t, 1, s.Effects(t))
	requireAnswer(t, answerOf("second"), s.find(t, c.ID).Answer)
}

// A transaction that claimed the freed row of an earlier life, and was rolled back, leaves the key free.
//
// CONTRACT X-0, T-4
func txRollbackRestores(t *testing.T, s *fixture) {
	expired, _ := s.done(t, "old")
	s.Advance(t, retention+tombstone+lease)
	released := s.command(store.Park)
	require.NoError(t, s.Store.End(s.ctx, s.win(t, released).Ticket, asFree))
	for _, c := range []store.Claim{expired, released} {
		c.Recovery = store.Rollback
		tx, won := s.begin(t, repeat(c))
		require.Zero(t, won.Answer.Status, "nothing is left of the old life")
		s.act(t, tx)
		require.NoError(t, tx.Rollback())
		s.requireGoneOrFree(t, c.ID)
		require.Zero(t, s.Effects(t))
		s.requireFree(t, c.ID)
	}
}

// A refusal is recorded, and the rows the handler wrote before it refused are not kept.
//
// CONTRACT X-0
func txUndo(t *testing.T, s *fixture) {
	c := s.command(store.Rollback)
	tx, _ := s.begin(t, c)
	s.act(t, tx)
	refusal := store.Answer{Status: http.StatusPaymentRequired, Body: []byte("declined")}
	require.NoError(t, conclude(s.ctx, tx, kept(refusal), true))
	s.requireState(t, store.Completed, c)
	requireAnswer(t, refusal, s.find(t, c.ID).Answer)
	require.Zero(t, s.Effects(t))
}

// The transaction stays open until all the others have their answer. A claim that waited for it would wait until its
// context ends, and fail.
//
// CONTRACT M-2, M-6
func txBusyAtOnce(t *testing.T, s *fixture) {
	c := s.command(store.Rollback)
	tx, _ := s.begin(t, c)
	s.act(t, tx)
	for _, again := range []store.Claim{repeat(c), otherCommand(c)} {
		if s.unlocked {
			break
		}
		for _, st := range s.attempts {
			other, got := s.tryBegin(t, st, again)
			require.Nil(t, other, "no transaction without the claim")
			require.Equal(t, store.Claimed{Busy: true}, got)
			again.Recovery = store.Park
			got, err := st.Claim(s.ctx, again)
			require.NoError(t, err)
			require.Equal(t, store.Claimed{Busy: true}, got)
		}
	}
	require.NoError(t, conclude(s.ctx, tx, kept(answerOf("paid")), false))
	require.Equal(t, 1, s.Effects(t))
	requireAnswer(t, answerOf("paid"), s.lose(t, repeat(c)).Answer)
}

// Where nothing keeps attempts apart, the first that commits is the one. The others are told so, whether they end with an
// answer, without rows, or with nothing.
//
// CONTRACT M-6
func txBesideEachOther(t *testing.T, s *fixture) {
	switch {
	case s.nodes:
		s.besideOnAnotherNode(t)
		return
	case !s.unlocked:
		return
	}
	freed := s.command(store.Park)
	require.NoError(t, s.Store.End(s.ctx, s.win(t, freed).Ticket, asFree))
	freed.Recovery = store.Rollback
	for i, c := range []store.Claim{s.command(store.Rollback), repeat(freed)} {
		first, _ := s.begin(t, c)
		s.act(t, first)
		var beside [3]store.Attempt
		for i := range beside {
			elsewhere, able := s.Twin(t).(store.Attempts) // an instance knows what it runs
			require.True(t, able)
			beside[i], _ = s.tryBegin(t, elsewhere, repeat(c))
			require.NotNil(t, beside[i])
			s.act(t, beside[i])
		}
		require.NoError(t, conclude(s.ctx, first, kept(answerOf("paid")), false))
		require.ErrorIs(t, conclude(s.ctx, beside[0], kept(answerOf("again")), false), store.ErrStale)
		require.ErrorIs(t, conclude(s.ctx, beside[1], kept(answerOf("declined")), true), store.ErrStale)
		require.ErrorIs(t, beside[2].Rollback(), store.ErrStale)
		require.Equal(t, i+1, s.Effects(t))
		requireAnswer(t, answerOf("paid"), s.lose(t, repeat(c)).Answer)
	}
}

// besideOnAnotherNode is txBesideEachOther where one attempt can run on each node.
func (s *fixture) besideOnAnotherNode(t *testing.T) {
	t.Helper()
	for i, end := range []func(store.Attempt) error{
		func(a store.Attempt) error { return conclude(s.ctx, a, kept(answerOf("again")), false) },
		func(a store.Attempt) error { return conclude(s.ctx, a, kept(answerOf("declined")), true) },
		store.Attempt.Rollback,
	} {
		c := s.command(store.Rollback)
		first, _ := s.begin(t, c)
		s.act(t, first)
		beside, _ := s.tryBegin(t, s.attempts[1], repeat(c))
		require.NotNil(t, beside)
		s.act(t, beside)
		for _, node := range s.attempts {
			other, got := s.tryBegin(t, node, repeat(c))
			require.Nil(t, other)
			require.Equal(t, store.Claimed{Busy: true}, got)
		}
		require.NoError(t, conclude(s.ctx, first, kept(answerOf("paid")), false))
		require.ErrorIs(t, end(beside), store.ErrStale)
		require.Equal(t, i+1, s.Effects(t))
		requireAnswer(t, answerOf("paid"), s.lose(t, repeat(c)).Answer)
	}
}

// CONTRACT M-6
func txOneOfManyWins(t *testing.T, s *fixture) {
	for round := range 5 {
		c := s.command(store.Rollback)
		var committed atomic.Int64
		atOnce(burst*len(s.instances), func(i int) {
			store := s.attempts[i%len(s.attempts)]
			for s.ctx.Err() == nil {
				ok, again, err := s.attempt(store, repeat(c), answerOf("paid"))
				if again { // rolled back by a conflict: the key is free, and the client repeats
					continue
				}
				assert.NoError(t, err)
				if ok {
					committed.Add(1)
				}
				return
			}
		})
		require.EqualValues(t, 1, committed.Load(), "executions")
		require.Equal(t, round+1, s.Effects(t), "effects")
		requireAnswer(t, answerOf("paid"), s.find(t, c.ID).Answer)
	}
}

// attempt makes a whole attempt with one effect. It reports whether the attempt was committed, or may be repeated. One that
// has lost to another attempt is neither (M-6).
func (s *fixture) attempt(st store.Attempts, c store.Claim, a store.Answer) (committed, again bool, err error) {
	tx, got, err := st.Begin(s.ctx, c)
	if err != nil || !got.Won {
		return false, errors.Is(err, store.ErrRetryable), err
	}
	if err := s.Effect(tx.Bind(s.ctx, nil)); err != nil {
		rollbackErr := tx.Rollback()
		return false, errors.Is(rollbackErr, store.ErrRetryable), unlessStale(rollbackErr, errors.Join(err, rollbackErr))
	}
	err = conclude(s.ctx, tx, kept(a), false)
	return err == nil, errors.Is(err, store.ErrRetryable), unlessStale(err, err)
}

func unlessStale(end, err error) error {
	if errors.Is(end, store.ErrStale) {
		return nil
	}
	return err
}

// CONTRACT M-3, M-4, M-5
func txExistingRow(t *testing.T, s *fixture) {
	expired, _ := s.done(t, "expired")
	s.Advance(t, retention+lease)
	completed, _ := s.done(t, "completed")
	resume := s.command(store.Resume)
	s.win(t, resume)
	_, unknown := s.lost(t, store.Park)
	running := s.command(store.Park)
	s.win(t, running)

	for _, want := range []struct {
		id    store.ID
		state store.State
	}{
		{expired.ID, store.Expired}, {completed.ID, store.Completed}, {unknown.ID, store.Unknown}, {running.ID, store.Running},
		{resume.ID, store.Running}, // its steps may have been finished: no transaction may run the command from the start
	} {
		row := s.find(t, want.id)
		c := store.Claim{ID: row.ID, Owner: newOwner(), Scope: row.Scope, Method: row.Method, Route: row.Route,
			Recovery: store.Rollback, Hash: row.Hash, Lease: lease, Deadline: deadline}
		tx, got := s.tryBegin(t, s.attempts[0], c)
		require.Nil(t, tx)
		require.False(t, got.Won || got.Busy, "there is a row: %s", brief(got))
		require.Equal(t, want.state, got.Record.State())
		requireSame(t, row, got.Record)
		requireSame(t, row, s.find(t, row.ID))
	}
}

// CONTRACT X-0
func txOverOnce(t *testing.T, s *fixture) {
	c := s.command(store.Rollback)
	tx, _ := s.begin(t, c)
	s.act(t, tx)
	require.NoError(t, tx.Rollback())
	require.NoError(t, tx.Rollback(), "again")
	err := conclude(s.ctx, tx, kept(answerOf("late")), false)
	require.Error(t, err, "a commit after the rollback")
	require.NotErrorIs(t, err, store.ErrUnconfirmed, "it is certain that nothing was committed")
	require.Error(t, conclude(s.ctx, tx, kept(answerOf("late")), true))
	s.requireGoneOrFree(t, c.ID)
	require.Zero(t, s.Effects(t))

	tx, _ = s.begin(t, repeat(c))
	s.act(t, tx)
	require.NoError(t, conclude(s.ctx, tx, kept(answerOf("paid")), false))
	require.NoError(t, tx.Rollback(), "nothing is left to be undone")
	s.requireState(t, store.Completed, c)
	require.Equal(t, 1, s.Effects(t))
}

// The deadline rolls back from another goroutine while the handler's answer is being committed. The first of the two
// decides, and Seal tells which one it was.
//
// CONTRACT
func txRollbackDuringCommit(t *testing.T, s *fixture) {
	effects := 0
	for range 12 {
		c := s.command(store.Rollback)
		tx, _ := s.begin(t, c)
		s.act(t, tx)
		var commitErr error
		atOnce(3, func(i int) {
			if i == 0 {
				commitErr = conclude(s.ctx, tx, kept(answerOf("paid")), false)
			} else {
				assert.NoError(t, tx.Rollback())
			}
		})
		if commitErr == nil {
			effects++
			s.requireState(t, store.Completed, c)
			requireAnswer(t, answerOf("paid"), s.find(t, c.ID).Answer)
		} else {
			require.NotErrorIs(t, commitErr, store.ErrUnconfirmed)
			s.requireFree(t, c.ID)
		}
		require.Equal(t, effects, s.Effects(t), "the rows are there if and only if the answer is")
	}
}

// The context of Begin bounds the claim alone.
//
// CONTRACT
func txClaimContext(t *testing.T, s *fixture) {
	ctx, cancel := context.WithCancel(s.ctx)
	c := s.command(store.Rollback)
	tx, _, err := s.attempts[0].Begin(ctx, c)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	cancel()
	s.act(t, tx)
	require.NoError(t, conclude(s.ctx, tx, kept(answerOf("paid")), false))
	require.Equal(t, 1, s.Effects(t))
	s.requireState(t, store.Completed, c)
}

// CONTRACT F-1
func txCancelled(t *testing.T, s *fixture) {
	for round := range 16 {
		c := s.command(store.Rollback)
		ctx, cancel := context.WithCancel(s.ctx)
		if round == 0 {
			cancel()
		}
		var tx store.Attempt
		var err error
		atOnce(2, func(i int) {
			if i == 0 {
				cancel()
			} else {
				tx, _, err = s.attempts[0].Begin(ctx, c)
			}
		})
		if round == 0 {
			noSentinel(t, err)
		}
		if err == nil {
			require.NotNil(t, tx, "nobody else wants the key")
			require.NoError(t, tx.Rollback())
		} else {
			require.Nil(t, tx)
		}
		// After an error nothing is left, as soon as the server has noticed that its client is gone.
		for won := false; !won; {
			got, err := s.Store.Claim(s.ctx, repeat(c))
			require.NoError(t, err)
			require.Zero(t, got.Record.Answer)
			won = got.Won
		}
	}
}

// An operator's settlement is a guarded command itself: it is committed or rolled back with its attempt.
//
// CONTRACT
func txSettlement(t *testing.T, s *fixture) {
	for _, commit := range []bool{false, true} {
		c, lost := s.lost(t, store.Park)
		tx, _ := s.begin(t, s.command(store.Rollback))
		settled, err := s.Store.Settle(tx.Bind(s.ctx, nil), applied(lost, "settled"))
		require.NoError(t, err)
		requireWrote(t, tx, true)
		require.Equal(t, store.Completed, settled.State())
		require.Equal(t, store.Unknown, s.find(t, c.ID).State(), "not before the commit")
		if commit {
			require.NoError(t, conclude(s.ctx, tx, kept(answerOf("done")), false))
			s.requireState(t, store.Completed, c)
			requireSame(t, settled, s.find(t, c.ID))
		} else {
			require.NoError(t, tx.Rollback())
			s.requireState(t, store.Unknown, c)
			requireSame(t, lost, s.find(t, c.ID))
		}
	}
}

// An attempt that is not visible is in flight from its claim to its end, whether its key is new or was free.
//
// CONTRACT M-8
func txInFlight(t *testing.T, s *fixture) {
	requireInFlight := func(id store.ID, want bool) {
		t.Helper()
		for i, store := range s.attempts {
			got, err := store.InFlight(s.ctx, id)
			require.NoError(t, err)
			require.Equal(t, want && (!s.unlocked || s.nodes && i == 0), got)
		}
	}
	fresh, freed := s.command(store.Rollback), s.command(store.Park)
	require.NoError(t, s.Store.End(s.ctx, s.win(t, freed).Ticket, asFree))
	freed.Recovery = store.Rollback
	for _, c := range []store.Claim{fresh, repeat(freed)} {
		requireInFlight(c.ID, false)
		tx, _ := s.begin(t, c)
		requireInFlight(c.ID, true)
		requireInFlight(s.command(store.Rollback).ID, false)
		require.NoError(t, tx.Rollback())
		requireInFlight(c.ID, false)

		tx, _ = s.begin(t, repeat(c))
		requireInFlight(c.ID, true)
		require.NoError(t, conclude(s.ctx, tx, kept(answerOf("paid")), false))
		requireInFlight(c.ID, false)
	}
	over := s.over()
	if _, err := s.attempts[0].InFlight(over, fresh.ID); err == nil {
		t.Error("a call whose context is over is an error")
	}
}

// If others can see a Rollback record, its own handler has committed. Claim leaves the same, because it commits.
//
// CONTRACT X-8, T-4
func txEndedByItsHandler(t *testing.T, s *fixture) {
	c, won := s.won(t, store.Rollback)
	s.requireState(t, store.Unknown, c)
	for _, st := range s.attempts {
		_, got := s.tryBegin(t, st, repeat(c))
		require.False(t, got.Won)
		require.Equal(t, store.Unknown, got.Record.State())
	}
	_, err := s.Store.Settle(s.ctx, applied(won, "early"))
	require.ErrorIs(t, err, store.ErrNotSettleable, "its handler may still be at work")
	s.Advance(t, 2*deadline)
	s.requireState(t, store.Unknown, c)
	require.Zero(t, s.sweep(t))
	_, err = s.Store.Settle(s.ctx, applied(won, "settled"))
	require.NoError(t, err)
	s.requireState(t, store.Completed, c)
	requireAnswer(t, answerOf("settled"), s.find(t, c.ID).Answer)
}
