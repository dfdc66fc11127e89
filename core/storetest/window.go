package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/store"
)

var windowChecks = []check{
	{"Window/NewKey", windowNewKey},
	{"Window/Freed", windowFreed},
	{"Window/Expired", windowExpired},
	{"Window/Lapsed", windowLapsed},
	{"Window/Settle", windowSettle},
	{"Window/Transaction", windowTransaction},
}

// windows are those of an app to which the store's clock, which shows now, is 40 days ahead, or behind.
func windows(now time.Time) (ahead, behind, right store.Window) {
	around := func(now time.Time) store.Window {
		return store.Window{From: now.Add(-time.Hour), To: now.Add(time.Hour)}
	}
	return around(now.Add(-40 * 24 * time.Hour)), around(now.Add(40 * 24 * time.Hour)), around(now)
}

// now is the store's clock.
func (s *fixture) now(t *testing.T) time.Time {
	t.Helper()
	return s.win(t, s.command(store.Park)).Now
}

// A key that is claimed by a clock which is ahead lives longer. By one that is behind, it would be forgotten too early.
//
// CONTRACT T-5
func windowNewKey(t *testing.T, s *fixture) {
	ahead, behind, right := windows(s.now(t))
	c := s.command(store.Park)
	c.Window = behind
	for _, st := range s.instances {
		_, err := st.Claim(s.ctx, repeat(c))
		require.ErrorIs(t, err, store.ErrClock)
	}
	s.requireGone(t, c.ID)
	for _, w := range []store.Window{ahead, right, {}} {
		c := s.command(store.Park)
		c.Window = w
		s.win(t, c)
	}
}

// A freed key did not become free by time: it may be claimed, but not by a clock that is behind.
//
// CONTRACT T-5
func windowFreed(t *testing.T, s *fixture) {
	ahead, behind, _ := windows(s.now(t))
	c, freed := s.won(t, store.Park)
	require.NoError(t, s.Store.End(s.ctx, freed.Ticket, asFree))
	c.Window = behind
	_, err := s.Store.Claim(s.ctx, repeat(c))
	require.ErrorIs(t, err, store.ErrClock)
	require.Equal(t, store.Free, s.find(t, c.ID).Stored)
	c.Window = ahead
	require.Greater(t, s.win(t, repeat(c)).Fence, freed.Fence)
}

// For a clock that is wrong neither an answer nor a tombstone has ended: no claim gets the key, and no sweep drops it.
//
// CONTRACT T-5, T-3
func windowExpired(t *testing.T, s *fixture) {
	answered, buried := s.command(store.Park), s.command(store.Park)
	for _, c := range []store.Claim{buried, answered} {
		s.complete(t, s.win(t, c), "paid")
		if c.ID == buried.ID {
			s.Advance(t, retention+deadline)
			require.Equal(t, 1, s.sweep(t).Tombstones)
		}
	}
	s.Advance(t, forever)
	ahead, behind, right := windows(s.now(t))
	for _, w := range []store.Window{ahead, behind} {
		for c, stored := range map[*store.Claim]store.State{&answered: store.Completed, &buried: store.Expired} {
			c.Window = w
			for range 2 {
				got := s.lose(t, repeat(*c))
				require.Equal(t, stored, got.Stored)
				require.EqualValues(t, 1, got.Fence)
			}
		}
		requireAnswer(t, answerOf("paid"), s.find(t, answered.ID).Answer)
		_, err := s.Store.Sweep(s.ctx, 100, w)
		require.ErrorIs(t, err, store.ErrClock)
		requireAnswer(t, answerOf("paid"), s.find(t, answered.ID).Answer)
		require.Equal(t, store.Expired, s.find(t, buried.ID).Stored)
	}
	answered.Window = right
	require.EqualValues(t, 2, s.win(t, repeat(answered)).Fence)
	swept, err := s.Store.Sweep(s.ctx, 100, right)
	require.NoError(t, err)
	require.Equal(t, 1, swept.Dropped)
	s.requireGone(t, buried.ID)
}

// CONTRACT T-5, X-2
func windowLapsed(t *testing.T, s *fixture) {
	c := s.command(store.Resume)
	s.win(t, c)
	s.Advance(t, 2*lease)
	ahead, behind, right := windows(s.now(t))
	for _, w := range []store.Window{ahead, behind} {
		c.Window = w
		require.Equal(t, store.Running, s.lose(t, repeat(c)).Stored)
	}
	c.Window = right
	require.EqualValues(t, 2, s.win(t, repeat(c)).Fence)
}

// CONTRACT T-5, X-7
func windowSettle(t *testing.T, s *fixture) {
	r := s.win(t, s.command(store.Park))
	require.NoError(t, s.Store.End(s.ctx, r.Ticket, asUnknown))
	s.Advance(t, 2*deadline)
	ahead, behind, right := windows(s.now(t))
	answer := kept(answerOf("settled"))
	for _, decided := range []*store.Completion{nil, &answer} {
		for _, w := range []store.Window{ahead, behind} {
			_, err := s.Store.Settle(s.ctx, store.Settlement{ID: r.ID, Fence: 1, Answer: decided, Window: w, Who: "w", Why: "y"})
			require.ErrorIs(t, err, store.ErrClock)
			require.Equal(t, store.Unknown, s.find(t, r.ID).Stored)
		}
	}
	_, err := s.Store.Settle(s.ctx, store.Settlement{ID: r.ID, Fence: 1, Window: right, Who: "w", Why: "y"})
	require.NoError(t, err)
}

// CONTRACT T-5, X-0
func windowTransaction(t *testing.T, s *fixture) {
	if !s.rows {
		return
	}
	expired := s.command(store.Rollback)
	tx, _ := s.begin(t, expired)
	require.NoError(t, conclude(s.ctx, tx, kept(answerOf("paid")), false))
	s.Advance(t, forever)
	ahead, behind, right := windows(s.now(t))
	fresh := s.command(store.Rollback)
	fresh.Window = behind
	_, got, err := s.attempts[0].Begin(s.ctx, fresh)
	require.ErrorIs(t, err, store.ErrClock)
	require.False(t, got.Won)
	s.requireGone(t, fresh.ID)
	for _, w := range []store.Window{ahead, behind} {
		expired.Window = w
		tx, got := s.tryBegin(t, s.attempts[0], repeat(expired))
		require.Nil(t, tx)
		require.Equal(t, store.Completed, got.Record.Stored)
	}
	expired.Window = right
	s.begin(t, repeat(expired))
}

// requireGone checks that there is no record.
func (s *fixture) requireGone(t *testing.T, id store.ID) {
	t.Helper()
	_, err := s.Store.Find(s.ctx, id, store.Viewer{All: true})
	require.ErrorIs(t, err, store.ErrNotFound)
}
