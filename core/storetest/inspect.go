package storetest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
)

var inspectChecks = []check{
	{"Inspect/Unsettled", inspectUnsettled},
	{"Inspect/Filters", inspectFilters},
	{"Inspect/Within", inspectWithin},
	{"Inspect/Pages", inspectPages},
	{"Inspect/Counts", inspectCounts},
	{"Inspect/History", inspectHistory},
	{"Inspect/Cancelled", inspectCancelled},
}

// everyOne asks for everything that needs somebody.
func everyOne() core.UnsettledQuery {
	return core.UnsettledQuery{Unknown: true, HalfDone: true, Limit: 1000}
}

// unsettled returns what a query finds, the same on every instance.
func (s *fixture) unsettled(t *testing.T, q core.UnsettledQuery) []core.ID {
	t.Helper()
	var ids []core.ID
	for i, store := range s.inspectables {
		found, err := store.Unsettled(s.ctx, q)
		require.NoError(t, err)
		if i > 0 {
			require.Equal(t, ids, idsOf(found))
		}
		ids = idsOf(found)
	}
	return ids
}

// sums returns the sums of all lines, the same on every instance.
func (s *fixture) sums(t *testing.T) (unknown, halfDone int) {
	t.Helper()
	for i, store := range s.inspectables {
		lines, err := store.CountUnsettled(s.ctx, nil, 1000)
		require.NoError(t, err)
		before := unknown + halfDone
		unknown, halfDone = 0, 0
		for _, c := range lines {
			if c.HalfDone {
				halfDone += c.Count
			} else {
				unknown += c.Count
			}
		}
		if i > 0 {
			require.Equal(t, before, unknown+halfDone)
		}
	}
	return unknown, halfDone
}

// An operation needs somebody while it is unknown or half-done, swept or not, and at no other time.
//
// CONTRACT T-4, X-10
func inspectUnsettled(t *testing.T, s *fixture) {
	require.Empty(t, s.unsettled(t, everyOne()))
	park, resume := s.win(t, s.command(core.Park)), s.win(t, s.command(core.Resume))
	s.done(t, "paid")
	require.Empty(t, s.unsettled(t, everyOne()), "they run")
	s.Advance(t, 2*lease)
	require.Equal(t, []core.ID{park.ID}, s.unsettled(t, everyOne()), "the other may be gone on with")
	s.Advance(t, deadline)
	for range 2 {
		require.ElementsMatch(t, []core.ID{park.ID, resume.ID}, s.unsettled(t, everyOne()))
		unknown, halfDone := s.sums(t)
		require.Equal(t, []int{1, 1}, []int{unknown, halfDone})
		s.sweep(t)
	}
	_, err := s.Store.Settle(s.ctx, notApplied(park))
	require.NoError(t, err)
	require.NoError(t, s.Store.Complete(s.ctx, resume.Ticket, kept(answerOf("refunded"))))
	require.Empty(t, s.unsettled(t, everyOne()))
	unknown, halfDone := s.sums(t)
	require.Zero(t, unknown+halfDone)
}

// By state, by route, and by time: the first moment belongs to it, the last one does not.
func inspectFilters(t *testing.T, s *fixture) {
	park, half := s.win(t, s.command(core.Park)), s.win(t, s.command(core.Resume))
	s.Advance(t, time.Hour)
	other := s.command(core.Park)
	other.Method, other.Route = "PUT", "/v1/payouts"
	payout := s.win(t, other)
	s.Advance(t, 2*deadline)

	at := func(id core.ID) time.Time { return s.find(t, id).CreatedAt }
	for name, tt := range map[string]struct {
		change func(q *core.UnsettledQuery)
		want   []core.ID
	}{
		"all":           {func(*core.UnsettledQuery) {}, []core.ID{park.ID, half.ID, payout.ID}},
		"none":          {func(q *core.UnsettledQuery) { q.Unknown, q.HalfDone = false, false }, nil},
		"unknown":       {func(q *core.UnsettledQuery) { q.HalfDone = false }, []core.ID{park.ID, payout.ID}},
		"half-done":     {func(q *core.UnsettledQuery) { q.Unknown = false }, []core.ID{half.ID}},
		"route":         {func(q *core.UnsettledQuery) { q.Method, q.Route = "PUT", "/v1/payouts" }, []core.ID{payout.ID}},
		"other method":  {func(q *core.UnsettledQuery) { q.Method, q.Route = "POST", "/v1/payouts" }, nil},
		"from":          {func(q *core.UnsettledQuery) { q.From = at(payout.ID) }, []core.ID{payout.ID}},
		"until":         {func(q *core.UnsettledQuery) { q.Until = at(payout.ID) }, []core.ID{park.ID, half.ID}},
		"from and rest": {func(q *core.UnsettledQuery) { q.From, q.HalfDone = at(park.ID), false }, []core.ID{park.ID, payout.ID}},
	} {
		q := everyOne()
		tt.change(&q)
		require.ElementsMatch(t, tt.want, s.unsettled(t, q), name)
	}
}

// CONTRACT S-5
func inspectWithin(t *testing.T, s *fixture) {
	realms := []core.Realm{{0: 1, 23: 1}, {0: 1, 23: 2}, {0: 2, 23: 1}}
	var ids []core.ID
	for _, realm := range realms {
		c := s.command(core.Park)
		c.Realm = realm
		ids = append(ids, s.win(t, c).ID)
	}
	s.Advance(t, 2*lease)
	for _, tt := range []struct {
		within []byte
		want   []core.ID
	}{
		{nil, ids}, {[]byte{}, ids}, {[]byte{1}, ids[:2]}, {realms[1][:], ids[1:2]}, {make([]byte, 8), nil},
	} {
		q := everyOne()
		q.Within = tt.within
		require.ElementsMatch(t, tt.want, s.unsettled(t, q), "%x", tt.within)
		lines, err := s.inspectables[0].CountUnsettled(s.ctx, tt.within, 1000)
		require.NoError(t, err)
		n := 0
		for _, c := range lines {
			n += c.Count
		}
		require.Equal(t, len(tt.want), n, "%x", tt.within)
	}
}

// No page leaves one out or repeats one, whatever becomes of the operations of the page before.
func inspectPages(t *testing.T, s *fixture) {
	var want []core.ID
	for i := range 9 {
		want = append(want, s.win(t, s.command([]core.Recovery{core.Park, core.Resume}[i%2])).ID)
		s.Advance(t, time.Second)
	}
	s.Advance(t, 2*deadline)
	for _, limit := range []int{1, 2, 4, 9, 10} {
		var got []core.ID
		q := everyOne()
		q.Limit = limit
		for len(got) <= len(want) {
			page, err := s.inspectables[0].Unsettled(s.ctx, q)
			require.NoError(t, err)
			if len(page) == 0 {
				break
			}
			require.LessOrEqual(t, len(page), limit)
			got = append(got, idsOf(page)...)
			last := page[len(page)-1]
			q.After = core.Place{CreatedAt: last.CreatedAt, ID: last.ID}
		}
		require.Equal(t, want, got, "limit %d", limit)
	}

	// The place of an operation is one, also when the operation is over.
	q := everyOne()
	last := s.find(t, want[4])
	q.After = core.Place{CreatedAt: last.CreatedAt, ID: last.ID}
	_, err := s.Store.Settle(s.ctx, notApplied(last))
	require.NoError(t, err)
	require.Equal(t, want[5:], s.unsettled(t, q))
}

// By state and route, with the age of the oldest one; and no more than the limit.
func inspectCounts(t *testing.T, s *fixture) {
	first := s.win(t, s.command(core.Park))
	s.win(t, s.command(core.Resume))
	s.Advance(t, 24*time.Hour)
	s.win(t, s.command(core.Park))
	s.Advance(t, 2*time.Hour)
	s.win(t, s.command(core.Park))
	other := s.command(core.Park)
	other.Method, other.Route = "PUT", "/v1/payouts"
	s.win(t, other)
	s.Advance(t, 2*deadline)

	lines, err := s.inspectables[0].CountUnsettled(s.ctx, nil, 1000)
	require.NoError(t, err)
	oldest := s.find(t, first.ID).CreatedAt
	i := slices.IndexFunc(lines, func(c core.UnsettledCount) bool { return !c.HalfDone && c.Method == "POST" })
	require.GreaterOrEqual(t, i, 0)
	require.WithinDuration(t, oldest, lines[i].Oldest, 0)
	require.GreaterOrEqual(t, lines[i].Now.Sub(oldest), 26*time.Hour)
	for i := range lines {
		lines[i].Oldest, lines[i].Now = time.Time{}, time.Time{}
	}
	const route = "/v1/orders/:id/payments"
	require.ElementsMatch(t, []core.UnsettledCount{
		{Method: "POST", Route: route, Count: 3, Hour: 2, Day: 1},
		{HalfDone: true, Method: "POST", Route: route, Count: 1, Hour: 1, Day: 1},
		{Method: "PUT", Route: "/v1/payouts", Count: 1},
	}, lines)

	lines, err = s.inspectables[0].CountUnsettled(s.ctx, nil, 3)
	require.NoError(t, err)
	n := 0
	for _, c := range lines {
		n += c.Count
		require.NotEqual(t, "PUT", c.Method, "the oldest ones are counted")
	}
	require.Equal(t, 3, n)
}

// The history outlives the record and the life of the key.
//
// CONTRACT
func inspectHistory(t *testing.T, s *fixture) {
	history := func(id core.ID) []core.SettlementRecord {
		var first []core.SettlementRecord
		for i, store := range s.inspectables {
			found, err := store.History(s.ctx, id)
			require.NoError(t, err)
			if i > 0 {
				require.Equal(t, first, found)
			}
			first = found
		}
		return first
	}
	c, won := s.lost(t, core.Park)
	require.Empty(t, history(c.ID))
	undone := notApplied(won)
	undone.Undone = "a refund"
	freed, err := s.Store.Settle(s.ctx, undone)
	require.NoError(t, err)
	s.Advance(t, time.Minute)
	again := s.win(t, repeat(c))
	s.Advance(t, 2*deadline)
	done, err := s.Store.Settle(s.ctx, applied(again, "paid"))
	require.NoError(t, err)

	found := history(c.ID)
	require.Len(t, found, 2)
	require.True(t, found[0].At.Before(found[1].At), "oldest first")
	require.WithinDuration(t, done.Now, found[1].At, lease)
	for i := range found {
		found[i].At = time.Time{}
	}
	require.Equal(t, []core.SettlementRecord{
		{Who: "operator", Why: "refused by the provider", Undone: "a refund", BeforeFence: won.Fence,
			BeforeState: core.Unknown, AfterFence: freed.Fence, AfterState: core.Free},
		{Who: "operator", Why: "seen at the provider", BeforeFence: again.Fence, BeforeState: core.Unknown,
			AfterFence: done.Fence, AfterState: core.Completed, AfterStatus: answerOf("").Status},
	}, found)

	s.Advance(t, forever)
	s.sweep(t)
	s.requireGoneOrFree(t, c.ID)
	require.Len(t, history(c.ID), 2)
	require.Empty(t, history(s.command(core.Park).ID))
}

func inspectCancelled(t *testing.T, s *fixture) {
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	_, err := s.inspectables[0].Unsettled(ctx, everyOne())
	noSentinel(t, err)
	_, err = s.inspectables[0].CountUnsettled(ctx, nil, 1)
	noSentinel(t, err)
	_, err = s.inspectables[0].History(ctx, core.ID{1})
	noSentinel(t, err)
}
