package storetest

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
)

var settleChecks = []check{
	{"Settle/Applied", settleApplied},
	{"Settle/NotApplied", settleNotApplied},
	{"Settle/TooEarly", settleTooEarly},
	{"Settle/OnlyUnknown", settleOnlyUnknown},
	{"Settle/OldDecision", settleOldDecision},
	{"Settle/Once", settleOnce},
	{"Settle/OwnerWakesUp", settleWhileOwnerWakesUp},
}

// lost claims a command, loses its attempt, and lets lease and deadline pass.
func (s *fixture) lost(t *testing.T, r core.Recovery) (core.Claim, core.Record) {
	t.Helper()
	c := s.command(r)
	won := s.win(t, c)
	if r == core.Resume {
		require.NoError(t, s.Store.Park(s.ctx, won.Ticket)) // it does not get unknown by itself
	}
	s.Advance(t, 2*deadline)
	s.requireState(t, core.Unknown, c)
	return c, won
}

func applied(r core.Record, text string) core.Settlement {
	answer := kept(answerOf(text))
	return core.Settlement{ID: r.ID, Fence: r.Fence, Answer: &answer, Who: "operator", Why: "seen at the provider"}
}

func notApplied(r core.Record) core.Settlement {
	return core.Settlement{ID: r.ID, Fence: r.Fence, Who: "operator", Why: "refused by the provider"}
}

// CONTRACT, M-3
func settleApplied(t *testing.T, s *fixture) {
	for _, r := range []core.Recovery{core.Park, core.Resume} {
		c, won := s.lost(t, r)
		settled, err := s.Store.Settle(s.ctx, applied(won, "settled"))
		require.NoError(t, err)
		require.Equal(t, core.Completed, settled.State())
		require.Greater(t, settled.Fence, won.Fence, "a settlement raises the fence")
		require.WithinDuration(t, settled.Now.Add(retention), settled.ExpiresAt, lease)
		requireAnswer(t, answerOf("settled"), settled.Answer)
		requireSame(t, settled, s.find(t, c.ID))
		s.requireState(t, core.Completed, c)

		s.requireStale(t, won.Ticket) // the owner wakes up, too late
		require.ErrorIs(t, s.Store.Release(s.ctx, core.Ticket{ID: c.ID, Owner: c.Owner}), core.ErrStale)
		requireSame(t, settled, s.find(t, c.ID))

		s.Advance(t, retention+time.Hour)
		s.requireState(t, core.Expired, c)
	}
}

// CONTRACT
func settleNotApplied(t *testing.T, s *fixture) {
	for _, r := range []core.Recovery{core.Park, core.Resume} {
		c, won := s.lost(t, r)
		settled, err := s.Store.Settle(s.ctx, notApplied(won))
		require.NoError(t, err)
		require.Equal(t, core.Free, settled.State())
		require.Equal(t, c.ID, settled.ID)
		require.Greater(t, settled.Fence, won.Fence)
		require.Zero(t, settled.Answer.Status)

		// The owner wakes up too late: the provider was told to refuse the call, so it is not recorded as done.
		require.ErrorIs(t, s.Store.Complete(s.ctx, won.Ticket, kept(answerOf("late"))), core.ErrStale)
		require.ErrorIs(t, s.Store.Renew(s.ctx, won.Ticket, lease), core.ErrStale)
		require.ErrorIs(t, s.Store.Park(s.ctx, won.Ticket), core.ErrStale)

		next := s.requireFree(t, c.ID)
		require.Greater(t, next.Fence, settled.Fence)
		s.requireStale(t, won.Ticket)
		require.ErrorIs(t, s.Store.Release(s.ctx, core.Ticket{ID: c.ID, Owner: c.Owner}), core.ErrStale)
		requireSame(t, next, s.find(t, c.ID))
	}
}

// The handler may still be running until its deadline, whatever its lease says.
//
// CONTRACT X-7
func settleTooEarly(t *testing.T, s *fixture) {
	parked, lapsed := s.command(core.Resume), s.command(core.Park)
	won := map[core.ID]core.Record{parked.ID: s.win(t, parked), lapsed.ID: s.win(t, lapsed)}
	require.NoError(t, s.Store.Park(s.ctx, won[parked.ID].Ticket))
	refused := func() {
		for _, r := range won {
			before := s.find(t, r.ID)
			for _, decision := range []core.Settlement{applied(r, "early"), notApplied(r)} {
				_, err := s.Store.Settle(s.ctx, decision)
				require.ErrorIs(t, err, core.ErrNotSettleable)
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
	missing := core.Record{Ticket: core.Ticket{ID: s.command(core.Park).ID, Fence: 1}}
	_, err := s.Store.Settle(s.ctx, applied(missing, "x"))
	require.ErrorIs(t, err, core.ErrNotFound)
	_, err = s.Store.Settle(s.ctx, notApplied(missing))
	require.ErrorIs(t, err, core.ErrNotFound)
	s.requireGoneOrFree(t, missing.ID)

	resume := s.command(core.Resume)
	s.win(t, resume)
	s.Advance(t, 2*deadline) // waits for its repeat
	_, completed := s.done(t, "paid")
	_, lost := s.lost(t, core.Park)
	settled, err := s.Store.Settle(s.ctx, applied(lost, "settled"))
	require.NoError(t, err)
	s.Advance(t, 2*deadline)

	for name, r := range map[string]core.Record{
		"waiting Resume": s.find(t, resume.ID), "completed": completed, "settled": settled, "settled, seen before": lost,
	} {
		before := s.find(t, r.ID)
		for _, decision := range []core.Settlement{applied(r, "again"), notApplied(r)} {
			_, err := s.Store.Settle(s.ctx, decision)
			require.ErrorIs(t, err, core.ErrNotSettleable, name)
		}
		requireSame(t, before, s.find(t, r.ID))
	}
}

// A decision is about one attempt. It must not settle a later one, not even if the key was free in between.
//
// CONTRACT X-7
func settleOldDecision(t *testing.T, s *fixture) {
	refused := func(old, current core.Record) {
		t.Helper()
		for _, decision := range []core.Settlement{applied(old, "old"), notApplied(old)} {
			_, err := s.Store.Settle(s.ctx, decision)
			require.ErrorIs(t, err, core.ErrStale)
		}
		requireSame(t, current, s.find(t, current.ID))
		_, err := s.Store.Settle(s.ctx, applied(current, "new"))
		require.NoError(t, err)
	}

	c, first := s.lost(t, core.Park)
	require.NoError(t, s.Store.Release(s.ctx, first.Ticket))
	again := repeat(c)
	s.win(t, again)
	s.Advance(t, 2*deadline)
	refused(first, s.find(t, c.ID))

	resume := s.command(core.Resume)
	first = s.win(t, resume)
	s.Advance(t, 2*deadline)
	second := s.win(t, repeat(resume))
	require.NoError(t, s.Store.Park(s.ctx, second.Ticket))
	s.Advance(t, 2*deadline)
	refused(first, s.find(t, resume.ID))

	c, first = s.lost(t, core.Park)
	ahead := first
	ahead.Fence++
	refused(ahead, s.find(t, c.ID))
}

// CONTRACT X-7
func settleOnce(t *testing.T, s *fixture) {
	for range 3 {
		c, won := s.lost(t, core.Park)
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
			case !errors.Is(err, core.ErrStale):
				assert.ErrorIs(t, err, core.ErrNotSettleable)
			}
		})
		require.EqualValues(t, 1, settled.Load(), "settlements")
		requireSame(t, final.Load().(core.Record), s.find(t, c.ID))
	}
}

// Either the owner's answer counts or the settlement, never both, and both callers are told.
//
// CONTRACT
func settleWhileOwnerWakesUp(t *testing.T, s *fixture) {
	for round := range 8 {
		c, won := s.lost(t, core.Park)
		decision := applied(won, "settled")
		if round%2 == 0 {
			decision = notApplied(won)
		}
		var completeErr, settleErr error
		atOnce(2, func(i int) {
			if i == 0 {
				completeErr = s.instances[len(s.instances)-1].Complete(s.ctx, won.Ticket, kept(answerOf("owner")))
			} else {
				_, settleErr = s.Store.Settle(s.ctx, decision)
			}
		})
		got := s.find(t, c.ID)
		if completeErr == nil {
			require.ErrorIs(t, settleErr, core.ErrNotSettleable)
			requireAnswer(t, answerOf("owner"), got.Answer)
			continue
		}
		require.ErrorIs(t, completeErr, core.ErrStale)
		require.NoError(t, settleErr)
		require.Greater(t, got.Fence, won.Fence)
		if decision.Answer == nil {
			require.Equal(t, core.Free, got.State())
		} else {
			requireAnswer(t, decision.Answer.Answer, got.Answer)
		}
	}
}
