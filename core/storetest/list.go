package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/store"
)

var listChecks = []check{
	{"Find/NotFound", findNotFound},
	{"List/OldestFirst", listOldestFirst},
	{"List/SameAge", listSameAge},
	{"List/NoSuchRecord", listNoSuchRecord},
	{"List/Within", listWithin},
	{"List/Swept", listSwept},
	{"List/ClockBack", listClockBack},
}

// CONTRACT M-7
func findNotFound(t *testing.T, s *fixture) {
	for _, st := range s.instances {
		_, err := st.Find(s.ctx, s.command(store.Park).ID)
		require.ErrorIs(t, err, store.ErrNotFound)
	}
}

// CONTRACT T-4, M-7
func listOldestFirst(t *testing.T, s *fixture) {
	require.Empty(t, s.listed(t))
	var want []store.Record
	for range 5 {
		want = append(want, s.win(t, s.command(store.Park))) // unknown once its lease is over
		s.Advance(t, time.Minute)
		s.done(t, "paid")
		parked := s.win(t, s.command(store.Resume))
		require.NoError(t, s.Store.Park(s.ctx, parked.Ticket))
		parked.Stored = store.Unknown
		want = append(want, parked)
		s.Advance(t, time.Minute)
	}
	s.Advance(t, 2*lease)
	running := s.win(t, s.command(store.Park))

	for _, limit := range []int{1, 3, 5, 10, 11} {
		got := s.pages(t, limit)
		require.Equal(t, idsOf(want), idsOf(got), "limit %d", limit)
		for i := range got {
			require.Equal(t, store.Unknown, got[i].State())
			requireSame(t, want[i], got[i])
		}
	}

	// All records of a page are settled before the next page is asked for.
	s.Advance(t, 2*deadline)
	for _, w := range want[:3] {
		_, err := s.Store.Settle(s.ctx, notApplied(w))
		require.NoError(t, err)
	}
	rest, err := s.Store.List(s.ctx, nil, want[2].ID, 100)
	require.NoError(t, err)
	require.Equal(t, append(idsOf(want[3:]), running.ID), idsOf(rest), "with the one that was still running before")
}

// pages lists everything, limit records at a time.
func (s *fixture) pages(t *testing.T, limit int) (all []store.Record) {
	t.Helper()
	for after := (store.ID{}); ; after = all[len(all)-1].ID {
		page, err := s.Store.List(s.ctx, nil, after, limit)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page), limit)
		if all = append(all, page...); len(page) == 0 {
			return all
		}
		require.Less(t, len(all), 100, "the pages repeat themselves")
	}
}

// A page may end among records of the same age: none is left out, none comes twice.
//
// CONTRACT T-4
func listSameAge(t *testing.T, s *fixture) {
	var want []store.ID
	for range 7 {
		want = append(want, s.win(t, s.command(store.Park)).ID)
	}
	s.Advance(t, 2*lease)
	require.ElementsMatch(t, want, idsOf(s.pages(t, 2)))
}

// An empty page would say that no operation is unknown any more.
//
// CONTRACT T-4
func listNoSuchRecord(t *testing.T, s *fixture) {
	s.lost(t, store.Park)
	_, err := s.Store.List(s.ctx, nil, s.command(store.Park).ID, 10)
	require.ErrorIs(t, err, store.ErrNotFound)
}

// Sweeps change neither what is listed, nor when, nor in which order, on any page.
//
// CONTRACT T-4, X-10
func listSwept(t *testing.T, s *fixture) {
	var want, half []store.ID
	for i := range 9 {
		s.counted = i%3 == 0
		half = append(half, s.lasting(t, store.Resume))
		want = append(want, s.lasting(t, store.Park))
		s.counted = false
		s.Advance(t, time.Second)
		parked := s.win(t, s.command(store.Resume))
		want = append(want, parked.ID)
		if i%2 == 0 {
			s.pause(t)
		}
		require.NoError(t, s.Store.Park(s.ctx, parked.Ticket))
		s.done(t, "paid")
		if i%4 == 0 {
			s.sweep(t)
		}
	}
	requireListed := func() {
		t.Helper()
		for _, limit := range []int{1, 2, 7, 18, 100} {
			require.Equal(t, want, idsOf(s.pages(t, limit)), "limit %d", limit)
		}
	}
	s.Advance(t, 2*lease)
	requireListed()
	for _, stepper := range s.steppers {
		resumable, err := stepper.Resumable(s.ctx, nil, store.ID{}, 100)
		require.NoError(t, err)
		require.Equal(t, half, idsOf(resumable))
	}
	s.pause(t)
	requireListed()
	s.Advance(t, 2*deadline)
	want = s.end(t, want, 3)
	requireListed()
	for range 2 {
		s.Advance(t, forever) // they outlive everything else
		s.sweep(t)
		requireListed()
	}
	for _, stepper := range s.steppers {
		found, err := stepper.HalfDone(s.ctx, nil, store.ID{}, 100)
		require.NoError(t, err)
		require.Equal(t, half, idsOf(found))
	}
}

// lasting claims a command whose attempt is lost.
func (s *fixture) lasting(t *testing.T, r store.Recovery) store.ID {
	t.Helper()
	s.Advance(t, time.Second) // each has an age of its own
	return s.win(t, s.command(r)).ID
}

// pause lets a minute go by, with a sweep before and after.
func (s *fixture) pause(t *testing.T) {
	t.Helper()
	s.sweep(t)
	s.Advance(t, time.Minute)
	s.sweep(t)
}

// end settles the first of each three operations, and completes the second. It returns the third ones, which stay open.
func (s *fixture) end(t *testing.T, open []store.ID, every int) (stay []store.ID) {
	t.Helper()
	for i, id := range open {
		row := s.find(t, id)
		switch i % every {
		case 0:
			_, err := s.Store.Settle(s.ctx, notApplied(row))
			require.NoError(t, err)
		case 1:
			require.NoError(t, s.Store.Complete(s.ctx, row.Ticket, kept(answerOf("late"))))
		default:
			stay = append(stay, id)
		}
	}
	return stay
}

// The clock goes back: records that are claimed by the earlier clock are listed like all others.
//
// CONTRACT T-4, T-5
func listClockBack(t *testing.T, s *fixture) {
	for _, back := range []time.Duration{15 * time.Second, 50 * time.Minute} {
		before := s.win(t, s.command(store.Park))
		s.pause(t)
		s.Advance(t, -back)
		claimed := s.command(store.Park)
		after := s.win(t, claimed)
		s.pause(t)
		s.Advance(t, back+2*lease)
		require.ElementsMatch(t, []store.ID{before.ID, after.ID}, s.listed(t))
		s.sweep(t)
		require.ElementsMatch(t, []store.ID{before.ID, after.ID}, s.listed(t))
		s.Advance(t, 2*deadline)
		for _, r := range []store.Record{before, after} {
			_, err := s.Store.Settle(s.ctx, notApplied(r))
			require.NoError(t, err)
		}
	}
}

// Of one realm, of all realms that begin alike, or of all.
//
// CONTRACT S-5
func listWithin(t *testing.T, s *fixture) {
	stepper, _ := s.Store.(store.Stepper)
	realms := []store.Realm{{0: 1, 23: 1}, {0: 1, 23: 2}, {0: 2, 23: 1}}
	var lost, parked []store.ID
	for _, realm := range realms {
		c, resume := s.command(store.Park), s.command(store.Resume)
		c.Realm, resume.Realm = realm, realm
		require.Equal(t, realm, s.win(t, c).Realm)
		s.win(t, resume)
		parked, lost = append(parked, c.ID), append(lost, resume.ID)
	}
	s.Advance(t, 2*lease)
	for _, tt := range []struct {
		within []byte
		want   []int
	}{
		{nil, []int{0, 1, 2}}, {[]byte{}, []int{0, 1, 2}}, {[]byte{1}, []int{0, 1}}, {realms[2][:], []int{2}},
		{realms[1][:], []int{1}}, {make([]byte, 8), nil},
	} {
		var wantParked, wantLost []store.ID
		for _, i := range tt.want {
			wantParked, wantLost = append(wantParked, parked[i]), append(wantLost, lost[i])
		}
		found, err := s.Store.List(s.ctx, tt.within, store.ID{}, 10)
		require.NoError(t, err)
		require.ElementsMatch(t, wantParked, idsOf(found), "%x", tt.within)
		if len(found) > 1 {
			rest, err := s.Store.List(s.ctx, tt.within, found[0].ID, 10)
			require.NoError(t, err)
			require.Equal(t, idsOf(found[1:]), idsOf(rest))
		}
		if stepper != nil {
			found, err = stepper.Resumable(s.ctx, tt.within, store.ID{}, 10)
			require.NoError(t, err)
			require.ElementsMatch(t, wantLost, idsOf(found), "%x", tt.within)
		}
	}
}
