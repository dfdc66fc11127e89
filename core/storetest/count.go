package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
)

var countChecks = []check{
	{"Count/States", countStates},
	{"Count/Unswept", countUnswept},
	{"Count/Filters", countFilters},
	{"Count/Ages", countAges},
	{"Count/Limit", countLimit},
	{"Count/Within", countWithin},
	{"Count/Cancelled", countCancelled},
}

// count is what all instances say of a query, without the times.
func (s *fixture) count(t *testing.T, q store.Query) (all []store.Count) {
	t.Helper()
	for i, store := range s.instances {
		found, err := store.Count(s.ctx, q)
		require.NoError(t, err)
		for at := range found {
			require.False(t, found[at].Oldest.IsZero())
			require.False(t, found[at].Now.IsZero())
			found[at].Oldest, found[at].Now, found[at].Hour, found[at].Day = time.Time{}, time.Time{}, 0, 0
		}
		if i == 0 {
			all = found
		}
		require.ElementsMatch(t, all, found)
	}
	return all
}

// needy asks for everything that needs somebody.
func needy(limit int) store.Query { return store.Query{Unknown: true, HalfDone: true, Limit: limit} }

// on is a count of a route of the suite.
func on(c store.Claim, halfDone bool, count int) store.Count {
	return store.Count{HalfDone: halfDone, Method: c.Method, Route: c.Route, Count: count}
}

// Counted are unknown operations and, where the store keeps steps, half-done ones, from then on until they are settled or
// completed. What runs, or is done, is not counted.
//
// CONTRACT T-4, X-10
func countStates(t *testing.T, s *fixture) {
	parked, left, half, refund := s.command(store.Park), s.command(store.Park), s.command(store.Resume), s.command(store.Park)
	refund.Method, refund.Route = "PUT", "/v1/refunds/:id"
	s.done(t, "paid")
	s.win(t, left)
	s.win(t, half)
	require.Empty(t, s.count(t, needy(100)))

	won := s.win(t, parked)
	require.NoError(t, s.Store.End(s.ctx, won.Ticket, asUnknown))
	require.Equal(t, []store.Count{on(parked, false, 1)}, s.count(t, needy(100)), "at once")
	refunded := s.win(t, refund)
	require.NoError(t, s.Store.End(s.ctx, refunded.Ticket, asUnknown))
	s.pause(t)
	s.Advance(t, 2*lease)
	s.pause(t)
	require.ElementsMatch(t, []store.Count{on(parked, false, 2), on(refund, false, 1)}, s.count(t, needy(100)))
	s.Advance(t, deadline)
	s.pause(t)
	require.ElementsMatch(t, []store.Count{on(parked, false, 2), on(refund, false, 1), on(half, true, 1)},
		s.count(t, needy(100)))

	s.complete(t, won, "late")
	_, err := s.Store.Settle(s.ctx, notApplied(refunded))
	require.NoError(t, err)
	resumed := s.win(t, repeat(half))
	require.ElementsMatch(t, []store.Count{on(left, false, 1)}, s.count(t, needy(100)), "somebody is at the other again")
	s.complete(t, resumed, "paid")
	s.Advance(t, forever)
	s.sweep(t)
	require.Equal(t, []store.Count{on(left, false, 1)}, s.count(t, needy(100)))
}

// What no sweep has seen yet is counted, too.
//
// CONTRACT T-4
func countUnswept(t *testing.T, s *fixture) {
	left, half := s.command(store.Park), s.command(store.Resume)
	s.win(t, left)
	s.win(t, half)
	s.Advance(t, 2*lease)
	require.Equal(t, []store.Count{on(left, false, 1)}, s.count(t, everyOne()))
	require.Equal(t, []store.Count{on(half, true, 1)}, s.count(t, store.Query{Resumable: true, Limit: 10}))
	s.Advance(t, deadline)
	require.ElementsMatch(t, []store.Count{on(left, false, 1), on(half, true, 1)}, s.count(t, everyOne()))
	require.Empty(t, s.count(t, store.Query{Limit: 10}), "no state is named")
}

// What is not listed is not counted.
func countFilters(t *testing.T, s *fixture) {
	park, other := s.command(store.Park), s.command(store.Park)
	other.Method, other.Route = "PUT", "/v1/payouts"
	other.Scope[0]++
	s.win(t, park)
	s.Advance(t, time.Hour)
	s.win(t, other)
	s.Advance(t, 2*deadline)
	created := s.find(t, other.ID).CreatedAt
	for name, change := range map[string]func(q *store.Query){
		"state":     func(q *store.Query) { q.Unknown = false },
		"route":     func(q *store.Query) { q.Method, q.Route = "PUT", "/v1/payouts" },
		"principal": func(q *store.Query) { q.Scope = other.Scope },
		"from":      func(q *store.Query) { q.From = created },
		"until":     func(q *store.Query) { q.Until = created },
	} {
		q := everyOne()
		change(&q)
		n := 0
		for _, c := range s.count(t, q) {
			n += c.Count
		}
		require.Len(t, s.selected(t, q), n, name)
		require.Less(t, n, 2, name)
	}
}

// By state and route, with the age of the oldest one; and no more than the limit.
func countAges(t *testing.T, s *fixture) {
	first := s.win(t, s.command(store.Park))
	s.win(t, s.command(store.Resume))
	s.Advance(t, 24*time.Hour)
	s.win(t, s.command(store.Park))
	s.Advance(t, 2*time.Hour)
	s.win(t, s.command(store.Park))
	other := s.command(store.Park)
	other.Method, other.Route = "PUT", "/v1/payouts"
	s.win(t, other)
	s.Advance(t, 2*deadline)

	lines, err := s.instances[0].Count(s.ctx, everyOne())
	require.NoError(t, err)
	oldest := s.find(t, first.ID).CreatedAt
	i := slices.IndexFunc(lines, func(c store.Count) bool { return !c.HalfDone && c.Method == "POST" })
	require.GreaterOrEqual(t, i, 0)
	require.WithinDuration(t, oldest, lines[i].Oldest, 0)
	require.GreaterOrEqual(t, lines[i].Now.Sub(oldest), 26*time.Hour)
	for i := range lines {
		lines[i].Oldest, lines[i].Now = time.Time{}, time.Time{}
	}
	const route = "/v1/orders/:id/payments"
	require.ElementsMatch(t, []store.Count{
		{Method: "POST", Route: route, Count: 3, Hour: 2, Day: 1},
		{HalfDone: true, Method: "POST", Route: route, Count: 1, Hour: 1, Day: 1},
		{Method: "PUT", Route: "/v1/payouts", Count: 1},
	}, lines)

	oldestThree := everyOne()
	oldestThree.Limit = 3
	lines, err = s.instances[0].Count(s.ctx, oldestThree)
	require.NoError(t, err)
	n := 0
	for _, c := range lines {
		n += c.Count
		require.NotEqual(t, "PUT", c.Method, "the oldest ones are counted")
	}
	require.Equal(t, 3, n)
}

// The oldest ones are counted, and the age of each state and route is that of its oldest.
func countLimit(t *testing.T, s *fixture) {
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
		require.NoError(t, s.Store.End(s.ctx, won.Ticket, asUnknown))
		s.Advance(t, time.Hour)
	}
	older, newer := s.command(store.Park), s.command(store.Park)
	newer.Route = "/v1/newer"
	require.Empty(t, s.count(t, needy(0)))
	require.Equal(t, []store.Count{on(older, false, 2)}, s.count(t, needy(2)))
	require.ElementsMatch(t, []store.Count{on(older, false, 3), on(newer, false, 1)}, s.count(t, needy(4)))
	found, err := s.instances[0].Count(s.ctx, needy(100))
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

// CONTRACT S-4, S-5
func countWithin(t *testing.T, s *fixture) {
	realms, _ := s.inThreeRealms(t)
	service := core.Scoping{Namespace: "another service"}
	theirs := s.command(store.Park)
	theirs.Realm = service.PrincipalRealm(core.Principal{Issuer: "https://issuer.example", Subject: "u-1"})
	require.NoError(t, s.Store.End(s.ctx, s.win(t, theirs).Ticket, asUnknown))
	for _, tt := range []struct {
		within []byte
		want   int
	}{
		{nil, 4}, {[]byte{1}, 2}, {realms[1][:], 1}, {make([]byte, 8), 0}, {theirs.Realm[:8], 1},
	} {
		q := everyOne()
		q.Within = tt.within
		var want []store.Count
		if tt.want > 0 {
			want = []store.Count{on(theirs, false, tt.want)}
		}
		require.Equal(t, want, s.count(t, q), "%x", tt.within)
	}
}

func countCancelled(t *testing.T, s *fixture) {
	ctx := s.over()
	_, err := s.instances[0].Count(ctx, needy(1))
	noSentinel(t, err)
}
