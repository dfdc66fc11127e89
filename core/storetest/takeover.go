package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/store"
)

var takeoverChecks = []check{
	{"TakeOver/Resume", resumeIsTakenOver},
	{"TakeOver/OneOfManyWins", oneOfManyTakesOver},
	{"TakeOver/Refused", takeOverRefused},
	{"TakeOver/Pause", takeOverRests},
	{"TakeOver/Ends", takeOverKeepsEnds},
}

// CONTRACT X-2, M-6
func resumeIsTakenOver(t *testing.T, s *fixture) {
	c, first := s.won(t, store.Resume)
	s.Advance(t, lease/2)
	requireSame(t, first, s.lose(t, repeat(c)))
	s.Advance(t, lease)
	require.NotContains(t, s.listed(t), c.ID, "it waits for a repeat, not for a settlement")

	next := repeat(c)
	second := s.win(t, next)
	require.Equal(t, first.Fence+1, second.Fence, "the fence rises with every attempt")
	now := s.find(t, c.ID)
	require.Equal(t, second.Ticket, now.Ticket)
	require.Equal(t, next.Traceparent, second.Traceparent, "the trace is that of the attempt that will answer")
	require.Equal(t, next.Traceparent, now.Traceparent)
	require.Equal(t, store.Running, now.State(), "the new attempt has a lease of its own")
	require.WithinDuration(t, now.Now.Add(lease), now.LeaseUntil, lease/2)
	require.WithinDuration(t, now.Now.Add(deadline), now.Deadline, lease/2)
	require.WithinDuration(t, now.CreatedAt.Add(lease+lease/2), now.Now, lease/2, "it is still the same operation")

	// The first owner wakes up.
	s.requireStale(t, first.Ticket)
	requireSame(t, now, s.find(t, c.ID))

	s.Advance(t, 2*lease)
	last := repeat(c)
	last.Traceparent = "" // this one is not traced
	third := s.win(t, last)
	require.Equal(t, second.Fence+1, third.Fence)
	require.Empty(t, s.find(t, c.ID).Traceparent)
	s.requireStale(t, first.Ticket)
	s.requireStale(t, second.Ticket)
	s.requireStale(t, store.Ticket{ID: c.ID, Owner: first.Owner, Fence: third.Fence}) // a fence alone is no proof
	s.complete(t, third, "third")
	requireAnswer(t, answerOf("third"), s.lose(t, repeat(c)).Answer)
}

// Behind the third attempt a pause begins with the end of its lease.
//
// CONTRACT X-10
func takeOverRests(t *testing.T, s *fixture) {
	const pause = 4 * lease
	c, _ := s.won(t, store.Resume)
	next := func() store.Claim {
		again := repeat(c)
		again.Pause = pause
		return again
	}
	for range 2 {
		s.Advance(t, 2*lease)
		s.win(t, next())
	}
	s.Advance(t, 3*lease)
	rec := s.lose(t, next())
	require.True(t, rec.LeaseExpired())
	require.Equal(t, rec.LeaseUntil.Add(pause), rec.NextAttempt(pause))
	require.Equal(t, rec.LeaseUntil, rec.NextAttempt(0))
	s.Advance(t, 3*lease)
	require.Equal(t, 4, s.win(t, next()).Attempts)
}

// requireStale tries every write with a ticket that is not current. The caller checks that nothing has changed.
func (s *fixture) requireStale(t *testing.T, stale store.Ticket) {
	t.Helper()
	for _, st := range s.instances {
		require.ErrorIs(t, st.End(s.ctx, stale, answered(kept(answerOf("stale")))), store.ErrStale, "Complete")
		require.ErrorIs(t, st.Renew(s.ctx, stale, lease), store.ErrStale, "Renew")
		require.ErrorIs(t, st.End(s.ctx, stale, asUnknown), store.ErrStale, "Park")
		require.ErrorIs(t, st.End(s.ctx, stale, asFree), store.ErrStale, "Release")
	}
}

// CONTRACT M-6, X-2
func oneOfManyTakesOver(t *testing.T, s *fixture) {
	for range 3 {
		c, first := s.won(t, store.Resume)
		s.Advance(t, 2*lease)
		winner, _ := s.race(t, func() store.Claim { return repeat(c) })
		require.Equal(t, first.Fence+1, winner.Fence)
		require.Equal(t, winner.Ticket, s.find(t, c.ID).Ticket)
	}
}

// A takeover runs the handler again. Only a Resume attempt knows which of its steps are finished, and only the same
// command has the same steps; everything else must get the row back untouched.
//
// CONTRACT M-1, H-4, X-2
func takeOverRefused(t *testing.T, s *fixture) {
	claims := map[string]func(*store.Claim){
		"other command":      func(c *store.Claim) { c.Hash = hashOf("another command") },
		"other hash version": func(c *store.Claim) { c.Hash.Version++ },
		"Park claim":         func(c *store.Claim) { c.Recovery = store.Park },
		"Rollback claim":     func(c *store.Claim) { c.Recovery = store.Rollback },
	}
	for name, change := range claims {
		t.Run(name, func(t *testing.T) {
			c, first := s.won(t, store.Resume)
			s.Advance(t, 2*deadline)
			other := repeat(c)
			change(&other)
			requireSame(t, first, s.lose(t, other))
			requireSame(t, first, s.find(t, c.ID))
			require.NoError(t, s.Store.End(s.ctx, first.Ticket, answered(kept(answerOf("first")))), "the owner is not disturbed")
		})
	}
	t.Run("parked", func(t *testing.T) {
		c, first := s.won(t, store.Resume)
		require.NoError(t, s.Store.End(s.ctx, first.Ticket, asUnknown))
		s.Advance(t, 2*deadline)
		s.requireState(t, store.Unknown, c)
	})
	t.Run("Park record", func(t *testing.T) {
		c, first := s.won(t, store.Park)
		s.Advance(t, 2*deadline)
		c.Recovery = store.Resume
		requireSame(t, first, s.lose(t, repeat(c)))
	})
}

// A record keeps how its attempts have ended: what they say, and of one that says nothing, that it is gone. The key's next
// life begins without.
//
// CONTRACT X-10
func takeOverKeepsEnds(t *testing.T, s *fixture) {
	with := func(rec store.Record) []byte {
		return rec.WithEnd(store.AttemptEnd{Fence: rec.Fence, At: rec.Now, How: store.EndAnswered, Status: 502,
			Instance: rec.Owner.Instance()})
	}
	c, first := s.won(t, store.Resume)
	require.Nil(t, s.find(t, c.ID).Ends)
	yielded := store.Ending{State: store.Running, Ends: with(first)}
	require.NoError(t, s.Store.End(s.ctx, first.Ticket, yielded))
	require.NoError(t, s.Store.End(s.ctx, first.Ticket, yielded), "again")
	require.Equal(t, yielded.Ends, s.find(t, c.ID).Ends)
	second := s.win(t, repeat(c)) // its lease has ended
	require.Equal(t, yielded.Ends, second.Ends)
	require.ErrorIs(t, s.Store.End(s.ctx, first.Ticket, yielded), store.ErrStale)

	s.Advance(t, 2*lease)
	gone := s.find(t, c.ID)
	third := s.win(t, repeat(c))
	ends := third.AttemptEnds()
	require.Len(t, ends, 2)
	require.Equal(t, store.AttemptEnd{Fence: second.Fence, At: ends[1].At, How: store.EndGone,
		Instance: second.Owner.Instance()}, ends[1])
	require.True(t, gone.LeaseUntil.Truncate(time.Microsecond).Equal(ends[1].At))
	require.Equal(t, third.Ends, s.find(t, c.ID).Ends)

	parked := with(third)
	require.NoError(t, s.Store.End(s.ctx, third.Ticket, store.Ending{State: store.Unknown, Ends: parked}))
	require.ErrorIs(t, s.Store.End(s.ctx, third.Ticket, yielded), store.ErrStale, "it does not go on any more")
	require.NoError(t, s.Store.End(s.ctx, third.Ticket, asUnknown), "again")
	require.Equal(t, parked, s.find(t, c.ID).Ends)
	s.complete(t, third, "known")
	require.Equal(t, parked, s.find(t, c.ID).Ends)

	// What takes a key that is free writes over the ends.
	free := func() store.Claim {
		c, won := s.won(t, store.Resume)
		require.NoError(t, s.Store.End(s.ctx, won.Ticket, store.Ending{State: store.Unknown, Ends: with(won)}))
		s.Advance(t, 2*deadline)
		_, err := s.Store.Settle(s.ctx, notApplied(won))
		require.NoError(t, err)
		return c
	}
	for _, r := range []store.Recovery{store.Park, store.Resume} {
		c := repeat(free())
		c.Recovery = r
		again := s.win(t, c)
		require.Nil(t, again.Ends)
		require.Nil(t, s.find(t, c.ID).Ends)
		s.complete(t, again, "without")
		require.Nil(t, s.find(t, c.ID).Ends)
	}
	past := s.imported(t, store.Completed)
	past.ID = free().ID
	require.Equal(t, store.Imported{Replaced: 1}, s.importAll(t, past))
	require.Nil(t, s.find(t, past.ID).Ends)
}
