package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
)

var surveyChecks = []check{
	{"Survey/States", surveyStates},
	{"Survey/Limit", surveyLimit},
	{"Survey/Within", surveyWithin},
	{"Survey/Cancelled", surveyCancelled},
}

// surveyed is what all instances say of the backlog, without the times.
func (s *fixture) surveyed(t *testing.T, within []byte, limit int) (all []store.Backlog) {
	t.Helper()
	for i, store := range s.surveyors {
		found, err := store.Survey(s.ctx, within, limit)
		require.NoError(t, err)
		for at := range found {
			require.False(t, found[at].Oldest.IsZero())
			found[at].Oldest = time.Time{}
		}
		if i == 0 {
			all = found
		}
		require.ElementsMatch(t, all, found)
	}
	return all
}

// on is a backlog of routes of the suite.
func on(c store.Claim, halfDone bool, count int) store.Backlog {
	return store.Backlog{HalfDone: halfDone, Method: c.Method, Route: c.Route, Count: count}
}

// Counted are unknown operations and, where the store keeps steps, half-done ones, from then on until they are settled or
// completed. What runs, or is done, is not counted.
//
// CONTRACT T-4, X-10
func surveyStates(t *testing.T, s *fixture) {
	parked, left, half, refund := s.command(store.Park), s.command(store.Park), s.command(store.Resume), s.command(store.Park)
	refund.Method, refund.Route = "PUT", "/v1/refunds/:id"
	s.done(t, "paid")
	s.win(t, left)
	s.win(t, half)
	require.Empty(t, s.surveyed(t, nil, 100))

	won := s.win(t, parked)
	require.NoError(t, s.Store.Park(s.ctx, won.Ticket))
	require.Equal(t, []store.Backlog{on(parked, false, 1)}, s.surveyed(t, nil, 100), "at once")
	refunded := s.win(t, refund)
	require.NoError(t, s.Store.Park(s.ctx, refunded.Ticket))
	s.pause(t)
	s.Advance(t, 2*lease)
	s.pause(t)
	require.ElementsMatch(t, []store.Backlog{on(parked, false, 2), on(refund, false, 1)}, s.surveyed(t, nil, 100))
	s.Advance(t, deadline)
	s.pause(t)
	require.ElementsMatch(t, []store.Backlog{on(parked, false, 2), on(refund, false, 1), on(half, true, 1)},
		s.surveyed(t, nil, 100))

	require.NoError(t, s.Store.Complete(s.ctx, won.Ticket, kept(answerOf("late"))))
	_, err := s.Store.Settle(s.ctx, notApplied(refunded))
	require.NoError(t, err)
	resumed := s.win(t, repeat(half))
	require.ElementsMatch(t, []store.Backlog{on(left, false, 1)}, s.surveyed(t, nil, 100), "somebody is at the other again")
	require.NoError(t, s.Store.Complete(s.ctx, resumed.Ticket, kept(answerOf("paid"))))
	s.Advance(t, forever)
	s.sweep(t)
	require.Equal(t, []store.Backlog{on(left, false, 1)}, s.surveyed(t, nil, 100))
}

// The oldest ones are counted, and the age of each state and route is that of its oldest.
func surveyLimit(t *testing.T, s *fixture) {
	var first store.Record
	for i := range 5 {
		c := s.command(store.Park)
		if i >= 3 {
			c.Route = "/v1/newer"
		}
		won := s.win(t, c)
		if i == 0 {
			first = won
		}
		require.NoError(t, s.Store.Park(s.ctx, won.Ticket))
		s.Advance(t, time.Hour)
	}
	older, newer := s.command(store.Park), s.command(store.Park)
	newer.Route = "/v1/newer"
	require.Empty(t, s.surveyed(t, nil, 0))
	require.Equal(t, []store.Backlog{on(older, false, 2)}, s.surveyed(t, nil, 2))
	require.ElementsMatch(t, []store.Backlog{on(older, false, 3), on(newer, false, 1)}, s.surveyed(t, nil, 4))
	found, err := s.surveyors[0].Survey(s.ctx, nil, 100)
	require.NoError(t, err)
	oldest := s.find(t, first.ID).CreatedAt
	for _, b := range found {
		if b.Route == older.Route {
			require.WithinDuration(t, oldest, b.Oldest, time.Second)
		} else {
			require.WithinDuration(t, oldest.Add(3*time.Hour), b.Oldest, 10*time.Minute)
		}
	}
}

// CONTRACT S-4
func surveyWithin(t *testing.T, s *fixture) {
	ours, theirs := s.command(store.Park), s.command(store.Park)
	other := core.Scoping{Namespace: "another service"}
	theirs.Realm = other.PrincipalRealm(core.Principal{Issuer: "https://issuer.example", Subject: "u-1"})
	for _, c := range []store.Claim{ours, theirs, theirs} {
		c.ID = s.command(store.Park).ID
		require.NoError(t, s.Store.Park(s.ctx, s.win(t, c).Ticket))
	}
	require.Equal(t, []store.Backlog{on(ours, false, 3)}, s.surveyed(t, nil, 100))
	require.Equal(t, []store.Backlog{on(ours, false, 1)}, s.surveyed(t, ours.Realm[:8], 100))
	require.Equal(t, []store.Backlog{on(ours, false, 2)}, s.surveyed(t, theirs.Realm[:8], 100))
}

func surveyCancelled(t *testing.T, s *fixture) {
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	_, err := s.surveyors[0].Survey(ctx, nil, 1)
	noSentinel(t, err)
}
