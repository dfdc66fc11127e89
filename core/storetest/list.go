package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
)

var listChecks = []check{
	{"Find/NotFound", findNotFound},
	{"List/OldestFirst", listOldestFirst},
	{"List/SameAge", listSameAge},
	{"List/NoSuchRecord", listNoSuchRecord},
	{"List/Within", listWithin},
}

// CONTRACT M-7
func findNotFound(t *testing.T, s *fixture) {
	for _, store := range s.instances {
		_, err := store.Find(s.ctx, s.command(core.Park).ID)
		require.ErrorIs(t, err, core.ErrNotFound)
	}
}

// CONTRACT T-4, M-7
func listOldestFirst(t *testing.T, s *fixture) {
	require.Empty(t, s.listed(t))
	var want []core.Record
	for range 5 {
		want = append(want, s.win(t, s.command(core.Park))) // unknown once its lease is over
		s.Advance(t, time.Minute)
		s.done(t, "paid")
		parked := s.win(t, s.command(core.Resume))
		require.NoError(t, s.Store.Park(s.ctx, parked.Ticket))
		parked.Stored = core.Unknown
		want = append(want, parked)
		s.Advance(t, time.Minute)
	}
	s.Advance(t, 2*lease)
	running := s.win(t, s.command(core.Park))

	for _, limit := range []int{1, 3, 5, 10, 11} {
		got := s.pages(t, limit)
		require.Equal(t, idsOf(want), idsOf(got), "limit %d", limit)
		for i := range got {
			require.Equal(t, core.Unknown, got[i].State())
			requireSame(t, want[i], got[i])
		}
	}

	// The records of a page, the last one too, are settled by the time the next page is asked for.
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
func (s *fixture) pages(t *testing.T, limit int) (all []core.Record) {
	t.Helper()
	for after := (core.ID{}); ; after = all[len(all)-1].ID {
		page, err := s.Store.List(s.ctx, nil, after, limit)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page), limit)
		if all = append(all, page...); len(page) == 0 {
			return all
		}
		require.Less(t, len(all), 100, "the pages repeat themselves")
	}
}

// Records of one age are neither left out nor handed out twice where a page ends among them.
//
// CONTRACT T-4
func listSameAge(t *testing.T, s *fixture) {
	var want []core.ID
	for range 7 {
		want = append(want, s.win(t, s.command(core.Park)).ID)
	}
	s.Advance(t, 2*lease)
	require.ElementsMatch(t, want, idsOf(s.pages(t, 2)))
}

// An empty page would say that there is nothing unknown left to look after.
//
// CONTRACT T-4
func listNoSuchRecord(t *testing.T, s *fixture) {
	s.lost(t, core.Park)
	_, err := s.Store.List(s.ctx, nil, s.command(core.Park).ID, 10)
	require.ErrorIs(t, err, core.ErrNotFound)
}

// Of one realm, of all realms that begin alike, or of all.
//
// CONTRACT S-5
func listWithin(t *testing.T, s *fixture) {
	stepper, _ := s.Store.(core.Stepper)
	realms := []core.Realm{{0: 1, 23: 1}, {0: 1, 23: 2}, {0: 2, 23: 1}}
	var lost, parked []core.ID
	for _, realm := range realms {
		c, resume := s.command(core.Park), s.command(core.Resume)
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
		var wantParked, wantLost []core.ID
		for _, i := range tt.want {
			wantParked, wantLost = append(wantParked, parked[i]), append(wantLost, lost[i])
		}
		found, err := s.Store.List(s.ctx, tt.within, core.ID{}, 10)
		require.NoError(t, err)
		require.ElementsMatch(t, wantParked, idsOf(found), "%x", tt.within)
		if len(found) > 1 {
			rest, err := s.Store.List(s.ctx, tt.within, found[0].ID, 10)
			require.NoError(t, err)
			require.Equal(t, idsOf(found[1:]), idsOf(rest))
		}
		if stepper != nil {
			found, err = stepper.Resumable(s.ctx, tt.within, core.ID{}, 10)
			require.NoError(t, err)
			require.ElementsMatch(t, wantLost, idsOf(found), "%x", tt.within)
		}
	}
}
