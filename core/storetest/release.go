package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/store"
)

var releaseChecks = []check{
	{"Release/Frees", releaseFrees},
	{"Release/ByOwnerAlone", releaseByOwnerAlone},
	{"Release/Several", releaseSeveral},
	{"Release/OfAnother", releaseOfAnother},
	{"Release/Late", releaseLate},
	{"Release/NotRunning", releaseNotRunning},
	{"Release/AfterLostClaim", releaseAfterLostClaim},
}

// The fence goes on rising although the key was free in between: a settlement of the first attempt must not settle the
// second one.
//
// CONTRACT
func releaseFrees(t *testing.T, s *fixture) {
	for _, r := range []store.Recovery{store.Park, store.Resume} {
		c, won := s.won(t, r)
		require.NoError(t, s.Store.End(s.ctx, won.Ticket, asFree))
		s.requireGoneOrFree(t, c.ID)
		require.NotContains(t, s.listed(t), c.ID)
		require.NoError(t, s.Store.End(s.ctx, won.Ticket, asFree), "again: what is not there is released")
		require.ErrorIs(t, s.Store.End(s.ctx, won.Ticket, answered(kept(answerOf("late")))), store.ErrStale)
		require.ErrorIs(t, s.Store.Renew(s.ctx, won.Ticket, lease), store.ErrStale)
		require.ErrorIs(t, s.Store.End(s.ctx, won.Ticket, asUnknown), store.ErrStale)

		next := s.requireFree(t, c.ID)
		require.Greater(t, next.Fence, won.Fence, "the fence rises with every attempt of a key")
		s.requireStale(t, won.Ticket)
		requireSame(t, next, s.find(t, c.ID))
	}
}

// A release without a fence takes back a claim that may have taken effect. If it took over a Resume attempt, steps of
// that attempt may be finished: the key is not free, but waits for its repeat again.
//
// CONTRACT F-1, X-2
func releaseByOwnerAlone(t *testing.T, s *fixture) {
	for _, r := range []store.Recovery{store.Park, store.Resume} {
		c := s.command(r)
		s.win(t, c)
		require.NoError(t, s.Store.Release(s.ctx, []store.Ticket{{ID: c.ID, Owner: c.Owner}}))
		require.NoError(t, s.Store.Release(s.ctx, []store.Ticket{{ID: c.ID, Owner: c.Owner}}), "again")
		s.requireFree(t, c.ID)
	}

	first := s.command(store.Resume)
	s.win(t, first)
	s.Advance(t, 2*lease)
	lost := repeat(first)
	taken := s.win(t, lost)
	for range 2 { // the answer to the first one was lost
		require.NoError(t, s.Store.Release(s.ctx, []store.Ticket{{ID: lost.ID, Owner: lost.Owner}}))
	}
	require.Equal(t, store.Running, s.lose(t, otherCommand(first)).State())
	next := s.win(t, repeat(first))
	require.Greater(t, next.Fence, taken.Fence, "the next repeat need not wait for a lease")
	require.Equal(t, 2, next.Attempts, "the first attempt has run, and counts; with 1, its steps would run again")
}

// Several claims are taken back at once, in whatever state each of them is. One that is another's by now stays, and keeps
// the others from nothing. Two that have lost one key count as one.
//
// CONTRACT F-1, X-2, X-15
func releaseSeveral(t *testing.T, s *fixture) {
	var lost []store.Ticket
	lose := func(c store.Claim) { lost = append(lost, store.Ticket{ID: c.ID, Owner: c.Owner}) }
	landed, late, freed, over, half := s.command(store.Park), s.command(store.Park), s.command(store.Park),
		s.command(store.Park), s.command(store.Resume)
	first := s.win(t, half)
	require.NoError(t, s.Store.End(s.ctx, s.win(t, freed).Ticket, asFree))
	short := store.Completion{Answer: answerOf("done"), Retention: time.Hour}
	require.NoError(t, s.Store.End(s.ctx, s.win(t, over).Ticket, answered(short)))
	s.Advance(t, 2*time.Hour) // which ends the lease, too
	s.win(t, landed)
	for _, c := range []store.Claim{landed, late, repeat(late), repeat(freed), repeat(over), repeat(half)} {
		lose(c)
	}
	others, done := s.win(t, s.command(store.Park)), s.command(store.Park)
	require.NoError(t, s.Store.End(s.ctx, s.win(t, done).Ticket, answered(kept(answerOf("done")))))
	require.NoError(t, s.Store.Release(s.ctx, lost))
	require.NoError(t, s.Store.Release(s.ctx, lost), "again")
	require.NoError(t, s.Store.Release(s.ctx, nil))

	next := s.command(store.Park)
	s.win(t, next)
	require.ErrorIs(t, s.Store.Release(s.ctx, []store.Ticket{
		{ID: others.ID, Owner: newOwner()}, {ID: done.ID, Owner: newOwner()}, {ID: next.ID, Owner: next.Owner}}), store.ErrStale)
	requireSame(t, others, s.find(t, others.ID))
	for _, c := range []store.Claim{landed, late, freed, over, next} {
		s.requireFree(t, c.ID)
	}
	s.requireState(t, store.Completed, done)
	again := s.win(t, repeat(half))
	require.Greater(t, again.Fence, first.Fence)
	require.Equal(t, 2, again.Attempts, "it has not become a new one")
}

// CONTRACT X-2
func releaseOfAnother(t *testing.T, s *fixture) {
	c, won := s.won(t, store.Park)
	for name, foreign := range map[string]store.Ticket{
		"other owner":           {ID: c.ID, Owner: newOwner(), Fence: won.Fence},
		"other owner, no fence": {ID: c.ID, Owner: newOwner()},
		"no owner":              {ID: c.ID},
		"higher fence":          {ID: c.ID, Owner: won.Owner, Fence: won.Fence + 1},
	} {
		for _, st := range s.instances {
			require.ErrorIs(t, st.End(s.ctx, foreign, asFree), store.ErrStale, name)
		}
		requireSame(t, won, s.find(t, c.ID))
	}
}

// Stale means that somebody took over or settled, not that time has passed. An owner that learns late that nothing was
// applied may still say so.
//
// CONTRACT X-2
func releaseLate(t *testing.T, s *fixture) {
	c, won := s.won(t, store.Park)
	s.Advance(t, 2*deadline)
	s.requireState(t, store.Unknown, c)
	require.NoError(t, s.Store.End(s.ctx, won.Ticket, asFree))
	s.requireFree(t, c.ID)
}

// A release never frees an operation that is completed or unknown, whatever its ticket.
//
// CONTRACT R-6, M-4
func releaseNotRunning(t *testing.T, s *fixture) {
	missing := s.command(store.Park)
	require.NoError(t, s.Store.End(s.ctx, store.Ticket{ID: missing.ID, Owner: missing.Owner, Fence: 1}, asFree))
	require.NoError(t, s.Store.Release(s.ctx, []store.Ticket{{ID: missing.ID, Owner: missing.Owner}}))

	for _, end := range []func(store.Ticket) error{
		func(won store.Ticket) error {
			return s.Store.End(s.ctx, won, answered(kept(answerOf("done"))))
		},
		func(won store.Ticket) error { return s.Store.End(s.ctx, won, asUnknown) },
	} {
		c, won := s.won(t, store.Park)
		require.NoError(t, end(won.Ticket))
		before := s.find(t, c.ID)
		require.ErrorIs(t, s.Store.End(s.ctx, won.Ticket, asFree), store.ErrStale)
		require.ErrorIs(t, s.Store.Release(s.ctx, []store.Ticket{{ID: c.ID, Owner: c.Owner}}), store.ErrStale)
		requireSame(t, before, s.find(t, c.ID))
	}
}

// The context of a claim may end at any moment. In each case a release by the owner frees the key, and the claim has no
// effect afterwards.
//
// CONTRACT F-1
func releaseAfterLostClaim(t *testing.T, s *fixture) {
	for round := range 16 {
		c := s.command(store.Park)
		ctx, cancel := context.WithCancel(s.ctx)
		if round == 0 {
			cancel() // this one is given up for sure, the others by chance
		}
		atOnce(2, func(i int) {
			if i == 0 {
				cancel()
				return
			}
			got, err := s.Store.Claim(ctx, c)
			assert.True(t, err != nil || got.Won, "nobody else wants the key: %s", brief(got))
		})
		require.NoError(t, s.Store.Release(s.ctx, []store.Ticket{{ID: c.ID, Owner: c.Owner}}))
		s.requireFree(t, c.ID)
	}
}
