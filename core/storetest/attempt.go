package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/store"
)

var attemptChecks = []check{
	{"Complete/Idempotent", completeIsIdempotent},
	{"Complete/Late", completeLate},
	{"Complete/Stale", completeStale},
	{"Complete/KeepsItsOwnCopy", completeKeepsItsOwnCopy},
	{"Park/ThenComplete", parkThenComplete},
	{"Park/AfterComplete", parkNeverTakesAnswersBack},
	{"Renew/Extends", renewExtends},
	{"Renew/NotCurrent", renewNotCurrent},
	{"Renew/Lapsed", renewLapsed},
}

// An owner whose first try was answered by an error tries again. The first answer stands: it may have been replayed.
//
// CONTRACT R-2, M-3
func completeIsIdempotent(t *testing.T, s *fixture) {
	c, won := s.won(t, store.Park)
	s.complete(t, won, "first")
	want := s.find(t, c.ID)
	s.Advance(t, lease)
	for _, st := range s.instances {
		require.NoError(t, st.End(s.ctx, won.Ticket, answered(kept(answerOf("first")))))
		require.NoError(t, st.End(s.ctx, won.Ticket, answered(kept(answerOf("second")))))
	}
	requireSame(t, want, s.find(t, c.ID))
	requireSame(t, want, s.lose(t, repeat(c)))
}

// CONTRACT X-2
func completeLate(t *testing.T, s *fixture) {
	for _, r := range []store.Recovery{store.Park, store.Resume} {
		for _, late := range []time.Duration{2 * lease, 2 * deadline, forever} {
			c, won := s.won(t, r)
			s.Advance(t, late)
			s.complete(t, won, "late")
			s.requireState(t, store.Completed, c)
			requireAnswer(t, answerOf("late"), s.find(t, c.ID).Answer)
		}
	}
}

// CONTRACT X-2
func completeStale(t *testing.T, s *fixture) {
	missing := s.command(store.Park)
	none := store.Ticket{ID: missing.ID, Owner: missing.Owner, Fence: 1}
	require.ErrorIs(t, s.Store.End(s.ctx, none, answered(kept(answerOf("none")))), store.ErrStale)
	require.ErrorIs(t, s.Store.Renew(s.ctx, none, lease), store.ErrStale)
	require.ErrorIs(t, s.Store.End(s.ctx, none, asUnknown), store.ErrStale)
	s.requireGoneOrFree(t, missing.ID)

	c, won := s.won(t, store.Park)
	tickets := []store.Ticket{
		{ID: c.ID, Owner: newOwner(), Fence: won.Fence},
		{ID: c.ID, Owner: won.Owner, Fence: won.Fence + 1},
		{ID: c.ID, Owner: won.Owner, Fence: won.Fence - 1}, // 0 means any fence only where a claim is taken back
	}
	for _, stale := range tickets {
		require.ErrorIs(t, s.Store.End(s.ctx, stale, answered(kept(answerOf("stale")))), store.ErrStale)
		require.ErrorIs(t, s.Store.Renew(s.ctx, stale, lease), store.ErrStale)
		require.ErrorIs(t, s.Store.End(s.ctx, stale, asUnknown), store.ErrStale)
	}
	requireSame(t, won, s.find(t, c.ID))

	// An answer that another attempt has recorded is not the stale one's: its client must not get an answer of its own.
	s.complete(t, won, "recorded")
	want := s.find(t, c.ID)
	for _, stale := range tickets {
		require.ErrorIs(t, s.Store.End(s.ctx, stale, answered(kept(answerOf("stale")))), store.ErrStale)
	}
	requireSame(t, want, s.find(t, c.ID))
}

// The buffer that an answer was captured in is written to again.
//
// CONTRACT M-3
func completeKeepsItsOwnCopy(t *testing.T, s *fixture) {
	c, won := s.won(t, store.Park)
	a := answerOf("recorded")
	require.NoError(t, s.Store.End(s.ctx, won.Ticket, answered(kept(a))))
	copy(a.Body, "xxxxxxxx")
	a.Header["Content-Type"][0] = "text/html"
	a.Header.Set("Location", "/elsewhere")
	requireAnswer(t, answerOf("recorded"), s.find(t, c.ID).Answer)
}

// CONTRACT X-2, M-4
func parkThenComplete(t *testing.T, s *fixture) {
	for _, r := range []store.Recovery{store.Park, store.Resume} {
		c, won := s.won(t, r)
		require.NoError(t, s.Store.End(s.ctx, won.Ticket, asUnknown))
		s.requireState(t, store.Unknown, c)
		require.NoError(t, s.Store.End(s.ctx, won.Ticket, asUnknown), "again")
		require.ErrorIs(t, s.Store.Renew(s.ctx, won.Ticket, lease), store.ErrStale, "a renewal that was under way")
		s.requireState(t, store.Unknown, c)
		s.Advance(t, 2*deadline)
		require.NoError(t, s.Store.End(s.ctx, won.Ticket, answered(kept(answerOf("known")))), "unknown becomes known")
		s.requireState(t, store.Completed, c)
		requireAnswer(t, answerOf("known"), s.find(t, c.ID).Answer)
	}
}

// An owner whose completion got no reply parks the record. The answer is recorded, and stays.
//
// CONTRACT M-3, R-2
func parkNeverTakesAnswersBack(t *testing.T, s *fixture) {
	c, won := s.won(t, store.Park)
	s.complete(t, won, "done")
	want := s.find(t, c.ID)
	require.ErrorIs(t, s.Store.End(s.ctx, won.Ticket, asUnknown), store.ErrStale)
	require.ErrorIs(t, s.Store.Renew(s.ctx, won.Ticket, lease), store.ErrStale)
	requireSame(t, want, s.find(t, c.ID))
	s.requireState(t, store.Completed, c)
}

// CONTRACT X-1, T-1
func renewExtends(t *testing.T, s *fixture) {
	c, won := s.won(t, store.Park)
	passed := time.Duration(0)
	for ; passed < deadline-lease; passed += lease / 2 {
		require.NoError(t, s.Store.Renew(s.ctx, won.Ticket, lease))
		s.Advance(t, lease/2)
		s.requireState(t, store.Running, c)
	}
	require.NoError(t, s.Store.Renew(s.ctx, won.Ticket, lease))
	got := s.find(t, c.ID)
	require.False(t, got.LeaseUntil.After(got.Deadline), "no renewal beyond the deadline")
	require.NoError(t, s.Store.Renew(s.ctx, won.Ticket, 2*deadline))
	got = s.find(t, c.ID)
	require.WithinDuration(t, got.Deadline, got.LeaseUntil, time.Second, "a long lease ends with the deadline")
	require.NoError(t, s.Store.Renew(s.ctx, won.Ticket, time.Millisecond))
	require.Equal(t, got.LeaseUntil, s.find(t, c.ID).LeaseUntil, "no renewal ends it earlier: the clock may be behind")
	require.WithinDuration(t, got.CreatedAt.Add(deadline), got.Deadline, time.Second, "no renewal moves the deadline")
	s.Advance(t, 2*lease)
	s.requireState(t, store.Unknown, c)
}

// CONTRACT
func renewNotCurrent(t *testing.T, s *fixture) {
	c, won := s.won(t, store.Park)
	foreign := won.Ticket
	foreign.Owner = newOwner()
	s.Advance(t, lease/2)
	require.ErrorIs(t, s.Store.Renew(s.ctx, foreign, deadline), store.ErrStale)
	requireSame(t, won, s.find(t, c.ID))
	s.Advance(t, lease)
	s.requireState(t, store.Unknown, c)
}

// A lease that has run out begins anew, as long as nobody has taken over.
//
// CONTRACT
func renewLapsed(t *testing.T, s *fixture) {
	for _, r := range []store.Recovery{store.Park, store.Resume} {
		c, won := s.won(t, r)
		s.Advance(t, 2*lease)
		require.NoError(t, s.Store.Renew(s.ctx, won.Ticket, lease))
		s.requireState(t, store.Running, c)
	}
}
