package storetest

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/store"
)

var settleChecks = []check{
	{"Settle/Applied", settleApplied},
	{"Settle/NotApplied", settleNotApplied},
	{"Settle/TooEarly", settleTooEarly},
	{"Settle/OnlyUnknown", settleOnlyUnknown},
	{"Settle/OldDecision", settleOldDecision},
	{"Settle/Once", settleOnce},
	{"Settle/OwnerWakesUp", settleWhileOwnerWakesUp},
	{"Settle/Intervene", interveneHalfDone},
}

// lost claims a command, loses its attempt, and lets lease and deadline pass.
func (s *fixture) lost(t *testing.T, r store.Recovery) (store.Claim, store.Record) {
	t.Helper()
	c, won := s.won(t, r)
	if r == store.Resume {
		require.NoError(t, s.Store.End(s.ctx, won.Ticket, asUnknown)) // it does not get unknown by itself
	}
	s.Advance(t, 2*deadline)
	s.requireState(t, store.Unknown, c)
	return c, won
}

// CONTRACT
func interveneHalfDone(t *testing.T, s *fixture) {
	const pause = 100 * deadline
	c, _ := s.won(t, store.Resume)
	var won store.Record
	again := func() store.Claim {
		next := repeat(c)
		next.Pause = pause
		return next
	}
	for range 2 {
		s.Advance(t, 2*deadline)
		won = s.win(t, again())
	}
	do := func(i store.Intervention) (store.Record, error) {
		i.ID, i.Pause, i.Who, i.Why = c.ID, pause, "operator", "it is back"
		return s.Store.Intervene(s.ctx, i)
	}
	_, err := do(store.Intervention{Fence: won.Fence})
	require.ErrorIs(t, err, store.ErrNotSettleable, "an attempt runs")
	s.Advance(t, 2*deadline)
	gone := s.lose(t, again())
	_, err = do(store.Intervention{Fence: won.Fence - 1})
	require.ErrorIs(t, err, store.ErrStale)
	retried, err := do(store.Intervention{Fence: won.Fence})
	require.NoError(t, err)
	require.Equal(t, won.Ticket, retried.Ticket)
	require.True(t, retried.LeaseUntil.Before(gone.LeaseUntil), "its pause is over")
	requireDied(t, gone, retried)
	last := s.win(t, again())
	require.Equal(t, 4, last.Attempts)
	requireDied(t, gone, last)

	_, err = do(store.Intervention{Fence: won.Fence, GiveUp: true})
	require.ErrorIs(t, err, store.ErrNotSettleable, "a newer attempt runs")
	s.Advance(t, 2*deadline)
	gone = s.find(t, c.ID)
	parked, err := do(store.Intervention{Fence: last.Fence, GiveUp: true})
	require.NoError(t, err)
	require.Equal(t, store.Unknown, parked.State())
	require.Equal(t, last.Ticket, parked.Ticket)
	requireDied(t, gone, parked)
	requireDied(t, gone, s.find(t, c.ID))
	s.complete(t, last, "the owner was only late")
	history, err := s.Store.History(s.ctx, c.ID)
	require.NoError(t, err)
	require.Len(t, history, 2)
	require.Equal(t, []store.State{store.Running, store.Unknown}, []store.State{history[0].AfterState, history[1].AfterState})
	require.Equal(t, []int64{won.Fence, last.Fence}, []int64{history[0].AfterFence, history[1].BeforeFence})
}

// requireDied: the last of the ends is that of an attempt which is gone since the end of its lease.
func requireDied(t *testing.T, gone, rec store.Record) {
	t.Helper()
	ends := rec.AttemptEnds()
	require.Len(t, ends, int(gone.Fence), "one of each attempt")
	require.Equal(t, store.AttemptEnd{Fence: gone.Fence, At: time.UnixMicro(gone.LeaseUntil.UnixMicro()), How: store.EndGone,
		Instance: gone.Owner.Instance()}, ends[gone.Fence-1])
}

func applied(r store.Record, text string) store.Settlement {
	answer := kept(answerOf(text))
	return store.Settlement{ID: r.ID, Fence: r.Fence, Answer: &answer, Who: "operator", Why: "seen at the provider"}
}

func notApplied(r store.Record) store.Settlement {
	return store.Settlement{ID: r.ID, Fence: r.Fence, Who: "operator", Why: "refused by the provider"}
}

// CONTRACT, M-3
func settleApplied(t *testing.T, s *fixture) {
	for _, r := range []store.Recovery{store.Park, store.Resume} {
		c, won := s.lost(t, r)
		gone := s.find(t, c.ID)
		settled, err := s.Store.Settle(s.ctx, applied(won, "settled"))
		require.NoError(t, err)
		if r == store.Park { // the other one was parked, without an end
			requireDied(t, gone, settled)
		}
		require.Equal(t, store.Completed, settled.State())
		require.Greater(t, settled.Fence, won.Fence, "a settlement raises the fence")
		require.WithinDuration(t, settled.Now.Add(retention), settled.ExpiresAt, lease)
		requireAnswer(t, answerOf("settled"), settled.Answer)
		requireSame(t, settled, s.find(t, c.ID))
		s.requireState(t, store.Completed, c)

		s.requireStale(t, won.Ticket) // the owner wakes up, too late
		require.ErrorIs(t, s.Store.Release(s.ctx, []store.Ticket{{ID: c.ID, Owner: c.Owner}}), store.ErrStale)
		requireSame(t, settled, s.find(t, c.ID))

		s.Advance(t, retention+time.Hour)
		s.requireState(t, store.Expired, c)
	}
}

// CONTRACT
func settleNotApplied(t *testing.T, s *fixture) {
	for _, r := range []store.Recovery{store.Park, store.Resume} {
		c, won := s.lost(t, r)
		settled, err := s.Store.Settle(s.ctx, notApplied(won))
		require.NoError(t, err)
		require.Equal(t, store.Free, settled.State())
		require.Equal(t, c.ID, settled.ID)
		require.Greater(t, settled.Fence, won.Fence)
		require.Zero(t, settled.Answer.Status)

		// The owner wakes up too late: the provider was told to refuse the call, so it is not recorded as done.
		require.ErrorIs(t, s.Store.End(s.ctx, won.Ticket, answered(kept(answerOf("late")))), store.ErrStale)
		require.ErrorIs(t, s.Store.Renew(s.ctx, won.Ticket, lease), store.ErrStale)
		require.ErrorIs(t, s.Store.End(s.ctx, won.Ticket, asUnknown), store.ErrStale)

		next := s.requireFree(t, c.ID)
		require.Greater(t, next.Fence, settled.Fence)
		s.requireStale(t, won.Ticket)
		require.ErrorIs(t, s.Store.Release(s.ctx, []store.Ticket{{ID: c.ID, Owner: c.Owner}}), store.ErrStale)
		requireSame(t, next, s.find(t, c.ID))
	}
}

// The handler may still be running until its deadline, whatever its lease says.
//
// CONTRACT X-7
func settleTooEarly(t *testing.T, s *fixture) {
	parked, lapsed := s.command(store.Resume), s.command(store.Park)
	won := map[store.ID]store.Record{parked.ID: s.win(t, parked), lapsed.ID: s.win(t, lapsed)}
	require.NoError(t, s.Store.End(s.ctx, won[parked.ID].Ticket, asUnknown))
	refused := func() {
		for _, r := range won {
			before := s.find(t, r.ID)
			for _, decision := range []store.Settlement{applied(r, "early"), notApplied(r)} {
				_, err := s.Store.Settle(s.ctx, decision)
				require.ErrorIs(t, err, store.ErrNotSettleable)
			}
			requireSame(t, before, s.find(t, r.ID))
		}
	}
	refused() // parked at once, running
	s.Advance(t, 2*lease)
	refused() // both unknown, both within their deadline
	s.Advance(t, deadline)
	for _, r := range won {
		_, err := s.Store.Settle(s.ctx, applied(r, "in time"))
		require.NoError(t, err)
	}
}

// CONTRACT X-7
func settleOnlyUnknown(t *testing.T, s *fixture) {
	missing := store.Record{Ticket: store.Ticket{ID: s.command(store.Park).ID, Fence: 1}}
	_, err := s.Store.Settle(s.ctx, applied(missing, "x"))
	require.ErrorIs(t, err, store.ErrNotFound)
	_, err = s.Store.Settle(s.ctx, notApplied(missing))
	require.ErrorIs(t, err, store.ErrNotFound)
	s.requireGoneOrFree(t, missing.ID)

	resume := s.command(store.Resume)
	s.win(t, resume)
	s.Advance(t, 2*deadline) // waits for its repeat
	_, completed := s.done(t, "paid")
	_, lost := s.lost(t, store.Park)
	settled, err := s.Store.Settle(s.ctx, applied(lost, "settled"))
	require.NoError(t, err)
	s.Advance(t, 2*deadline)

	for name, r := range map[string]store.Record{
		"waiting Resume": s.find(t, resume.ID), "completed": completed, "settled": settled, "settled, seen before": lost,
	} {
		before := s.find(t, r.ID)
		for _, decision := range []store.Settlement{applied(r, "again"), notApplied(r)} {
			_, err := s.Store.Settle(s.ctx, decision)
			require.ErrorIs(t, err, store.ErrNotSettleable, name)
		}
		requireSame(t, before, s.find(t, r.ID))
	}
}

// A decision is about one attempt. It must not settle a later one, not even if the key was free in between.
//
// CONTRACT X-7
func settleOldDecision(t *testing.T, s *fixture) {
	refused := func(old, current store.Record) {
		t.Helper()
		for _, decision := range []store.Settlement{applied(old, "old"), notApplied(old)} {
			_, err := s.Store.Settle(s.ctx, decision)
			require.ErrorIs(t, err, store.ErrStale)
		}
		requireSame(t, current, s.find(t, current.ID))
		_, err := s.Store.Settle(s.ctx, applied(current, "new"))
		require.NoError(t, err)
	}

	c, first := s.lost(t, store.Park)
	require.NoError(t, s.Store.End(s.ctx, first.Ticket, asFree))
	again := repeat(c)
	s.win(t, again)
	s.Advance(t, 2*deadline)
	refused(first, s.find(t, c.ID))

	resume := s.command(store.Resume)
	first = s.win(t, resume)
	s.Advance(t, 2*deadline)
	second := s.win(t, repeat(resume))
	require.NoError(t, s.Store.End(s.ctx, second.Ticket, asUnknown))
	s.Advance(t, 2*deadline)
	refused(first, s.find(t, resume.ID))

	c, first = s.lost(t, store.Park)
	ahead := first
	ahead.Fence++
	refused(ahead, s.find(t, c.ID))
}

// CONTRACT X-7
func settleOnce(t *testing.T, s *fixture) {
	for range 3 {
		c, won := s.lost(t, store.Park)
		var settled atomic.Int64
		var final atomic.Value
		atOnce(16, func(i int) {
			decision := notApplied(won)
			if i%2 == 0 {
				decision = applied(won, "settled")
			}
			r, err := s.instances[i%len(s.instances)].Settle(s.ctx, decision)
			switch {
			case err == nil:
				settled.Add(1)
				final.Store(r)
			case !errors.Is(err, store.ErrStale):
				assert.ErrorIs(t, err, store.ErrNotSettleable)
			}
		})
		require.EqualValues(t, 1, settled.Load(), "settlements")
		requireSame(t, final.Load().(store.Record), s.find(t, c.ID))
	}
}

// Either the owner's answer counts or the settlement, never both, and both callers are told.
//
// CONTRACT
func settleWhileOwnerWakesUp(t *testing.T, s *fixture) {
	for round := range 8 {
		c, won := s.lost(t, store.Park)
		decision := applied(won, "settled")
		if round%2 == 0 {
			decision = notApplied(won)
		}
		var completeErr, settleErr error
		atOnce(2, func(i int) {
			if i == 0 {
				completeErr = s.instances[len(s.instances)-1].End(s.ctx, won.Ticket, answered(kept(answerOf("owner"))))
			} else {
				_, settleErr = s.Store.Settle(s.ctx, decision)
			}
		})
		got := s.find(t, c.ID)
		if completeErr == nil {
			require.ErrorIs(t, settleErr, store.ErrNotSettleable)
			requireAnswer(t, answerOf("owner"), got.Answer)
			continue
		}
		require.ErrorIs(t, completeErr, store.ErrStale)
		require.NoError(t, settleErr)
		require.Greater(t, got.Fence, won.Fence)
		if decision.Answer == nil {
			require.Equal(t, store.Free, got.State())
		} else {
			requireAnswer(t, decision.Answer.Answer, got.Answer)
		}
	}
}
