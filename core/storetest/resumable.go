package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/store"
)

// resumable: lists Resume attempts whose lease has run out, in pages, and nothing else.
//
// CONTRACT X-2, T-4
func resumable(t *testing.T, s *fixture) {
	stepper := s.Store.(store.Stepper)
	want := make([]store.ID, 0, 3)
	for range 3 {
		c := s.command(store.Resume)
		s.win(t, c)
		want = append(want, c.ID)
	}
	parked := s.command(store.Resume)
	require.NoError(t, s.Store.Park(s.ctx, s.win(t, parked).Ticket))
	s.win(t, s.command(store.Park))
	page, err := stepper.Resumable(s.ctx, nil, store.ID{}, 10)
	require.NoError(t, err)
	require.Empty(t, page, "their owners are alive")

	s.Advance(t, 2*lease)
	s.win(t, s.command(store.Resume)) // alive
	var got []store.ID
	for last := (store.ID{}); ; last = got[len(got)-1] {
		page, err := stepper.Resumable(s.ctx, nil, last, 2)
		require.NoError(t, err)
		if len(page) == 0 {
			break
		}
		for _, r := range page {
			require.Equal(t, store.Running, r.State())
			got = append(got, r.ID)
		}
	}
	require.ElementsMatch(t, want, got)
}

// halfDone: lists those of them that are past their deadline too, oldest first, in pages.
//
// CONTRACT X-10
func halfDone(t *testing.T, s *fixture) {
	var want []store.ID
	for range 3 {
		want = append(want, s.win(t, s.command(store.Resume)).ID)
		s.Advance(t, time.Second)
	}
	parked := s.win(t, s.command(store.Resume))
	require.NoError(t, s.Store.Park(s.ctx, parked.Ticket))
	s.win(t, s.command(store.Park))
	list := func(after store.ID, limit int) (found []store.Record) {
		for _, store := range s.steppers {
			page, err := store.HalfDone(s.ctx, nil, after, limit)
			require.NoError(t, err)
			found = page
		}
		return found
	}
	s.Advance(t, 2*lease)
	require.Empty(t, list(store.ID{}, 10), "their handlers may still be at work")
	s.Advance(t, deadline)
	taken := s.win(t, s.command(store.Resume))
	require.Equal(t, want[:2], idsOf(list(store.ID{}, 2)))
	require.Equal(t, want[2:], idsOf(list(want[1], 2)))
	for _, r := range list(store.ID{}, 10) {
		require.True(t, r.HalfDone())
		require.Equal(t, store.Running, r.State())
	}
	require.False(t, s.find(t, taken.ID).HalfDone())
	require.False(t, s.find(t, parked.ID).HalfDone())
	for _, st := range s.steppers {
		_, err := st.HalfDone(s.ctx, nil, s.command(store.Resume).ID, 10)
		require.ErrorIs(t, err, store.ErrNotFound)
		over, cancel := context.WithCancel(s.ctx)
		cancel()
		_, err = st.HalfDone(over, nil, store.ID{}, 10)
		noSentinel(t, err)
	}
}

// attempts: are counted from the first one of the key's life, whatever the fence says. A claim that was taken back does
// not count.
//
// CONTRACT X-10
func attempts(t *testing.T, s *fixture) {
	c := s.command(store.Resume)
	for want := 1; want <= 3; want++ {
		won := s.win(t, repeat(c))
		require.Equal(t, want, won.Attempts)
		require.Equal(t, want, s.find(t, c.ID).Attempts)
		s.Advance(t, 2*lease)
	}
	back := repeat(c)
	require.Equal(t, 4, s.win(t, back).Attempts)
	require.NoError(t, s.Store.Release(s.ctx, store.Ticket{ID: c.ID, Owner: back.Owner}))
	last := s.win(t, repeat(c))
	require.Equal(t, 4, last.Attempts)
	require.NoError(t, s.Store.Release(s.ctx, last.Ticket))
	next := s.win(t, repeat(c))
	require.Equal(t, 1, next.Attempts, "the key was free: this is another operation")
	require.Greater(t, next.Fence, last.Fence)
}
