package storetest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/store"
)

var inspectChecks = []check{
	{"Inspect/Unsettled", inspectUnsettled},
	{"Inspect/Filters", inspectFilters},
	{"Inspect/Within", inspectWithin},
	{"Inspect/Pages", inspectPages},
	{"Inspect/Counts", inspectCounts},
	{"Inspect/OpenSteps", inspectOpenSteps},
	{"Inspect/Near", inspectNear},
	{"Inspect/LastSettled", inspectLastSettled},
	{"Inspect/LastAnswered", inspectLastAnswered},
	{"Inspect/History", inspectHistory},
	{"Inspect/Cancelled", inspectCancelled},
}

// everyOne asks for everything that needs somebody.
func everyOne() store.UnsettledQuery {
	return store.UnsettledQuery{Unknown: true, HalfDone: true, Limit: 1000}
}

// unsettled returns what a query finds, the same on every instance.
func (s *fixture) unsettled(t *testing.T, q store.UnsettledQuery) []store.ID {
	t.Helper()
	var ids []store.ID
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
		lines, err := store.CountUnsettled(s.ctx, everyOne())
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
	park, resume := s.win(t, s.command(store.Park)), s.win(t, s.command(store.Resume))
	s.done(t, "paid")
	require.Empty(t, s.unsettled(t, everyOne()), "they run")
	s.Advance(t, 2*lease)
	require.Equal(t, []store.ID{park.ID}, s.unsettled(t, everyOne()), "the other may be gone on with")
	s.Advance(t, deadline)
	for range 2 {
		require.ElementsMatch(t, []store.ID{park.ID, resume.ID}, s.unsettled(t, everyOne()))
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
	park, half := s.win(t, s.command(store.Park)), s.win(t, s.command(store.Resume))
	s.Advance(t, time.Hour)
	other := s.command(store.Park)
	other.Method, other.Route = "PUT", "/v1/payouts"
	other.Scope[0]++
	payout := s.win(t, other)
	s.Advance(t, 2*deadline)

	at := func(id store.ID) time.Time { return s.find(t, id).CreatedAt }
	for name, tt := range map[string]struct {
		change func(q *store.UnsettledQuery)
		want   []store.ID
	}{
		"all":           {func(*store.UnsettledQuery) {}, []store.ID{park.ID, half.ID, payout.ID}},
		"none":          {func(q *store.UnsettledQuery) { q.Unknown, q.HalfDone = false, false }, nil},
		"unknown":       {func(q *store.UnsettledQuery) { q.HalfDone = false }, []store.ID{park.ID, payout.ID}},
		"half-done":     {func(q *store.UnsettledQuery) { q.Unknown = false }, []store.ID{half.ID}},
		"route":         {func(q *store.UnsettledQuery) { q.Method, q.Route = "PUT", "/v1/payouts" }, []store.ID{payout.ID}},
		"principal":     {func(q *store.UnsettledQuery) { q.Scope = other.Scope }, []store.ID{payout.ID}},
		"other one":     {func(q *store.UnsettledQuery) { q.Scope = park.Scope }, []store.ID{park.ID, half.ID}},
		"nobody":        {func(q *store.UnsettledQuery) { q.Scope = store.Scope{1} }, nil},
		"other method":  {func(q *store.UnsettledQuery) { q.Method, q.Route = "POST", "/v1/payouts" }, nil},
		"from":          {func(q *store.UnsettledQuery) { q.From = at(payout.ID) }, []store.ID{payout.ID}},
		"until":         {func(q *store.UnsettledQuery) { q.Until = at(payout.ID) }, []store.ID{park.ID, half.ID}},
		"from and rest": {func(q *store.UnsettledQuery) { q.From, q.HalfDone = at(park.ID), false }, []store.ID{park.ID, payout.ID}},
	} {
		q := everyOne()
		tt.change(&q)
		require.ElementsMatch(t, tt.want, s.unsettled(t, q), name)
		counts, err := s.inspectables[0].CountUnsettled(s.ctx, q)
		require.NoError(t, err)
		n := 0
		for _, c := range counts {
			n += c.Count
		}
		require.Equal(t, len(tt.want), n, name)
	}
}

// CONTRACT S-5
func inspectWithin(t *testing.T, s *fixture) {
	realms := []store.Realm{{0: 1, 23: 1}, {0: 1, 23: 2}, {0: 2, 23: 1}}
	var ids []store.ID
	for _, realm := range realms {
		c := s.command(store.Park)
		c.Realm = realm
		ids = append(ids, s.win(t, c).ID)
	}
	s.Advance(t, 2*lease)
	for _, tt := range []struct {
		within []byte
		want   []store.ID
	}{
		{nil, ids}, {[]byte{}, ids}, {[]byte{1}, ids[:2]}, {realms[1][:], ids[1:2]}, {make([]byte, 8), nil},
	} {
		q := everyOne()
		q.Within = tt.within
		require.ElementsMatch(t, tt.want, s.unsettled(t, q), "%x", tt.within)
		lines, err := s.inspectables[0].CountUnsettled(s.ctx, q)
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
	var want []store.ID
	for i := range 9 {
		want = append(want, s.win(t, s.command([]store.Recovery{store.Park, store.Resume}[i%2])).ID)
		s.Advance(t, time.Second)
	}
	s.Advance(t, 2*deadline)
	for _, limit := range []int{1, 2, 4, 9, 10, -1, -2, -4, -9, -10} { // below zero: the newest first
		var got []store.ID
		q := everyOne()
		q.Newest, q.Limit = limit < 0, max(limit, -limit)
		order := slices.Clone(want)
		if q.Newest {
			slices.Reverse(order)
		}
		for len(got) <= len(want) {
			page, err := s.inspectables[0].Unsettled(s.ctx, q)
			require.NoError(t, err)
			if len(page) == 0 {
				break
			}
			require.LessOrEqual(t, len(page), q.Limit)
			got = append(got, idsOf(page)...)
			last := page[len(page)-1]
			q.After = store.Place{CreatedAt: last.CreatedAt, ID: last.ID}
		}
		require.Equal(t, order, got, "limit %d", limit)
	}

	// The place of an operation is one, also when the operation is over.
	q := everyOne()
	last := s.find(t, want[4])
	q.After = store.Place{CreatedAt: last.CreatedAt, ID: last.ID}
	_, err := s.Store.Settle(s.ctx, notApplied(last))
	require.NoError(t, err)
	require.Equal(t, want[5:], s.unsettled(t, q))
}

// By state and route, with the age of the oldest one; and no more than the limit.
func inspectCounts(t *testing.T, s *fixture) {
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

	lines, err := s.inspectables[0].CountUnsettled(s.ctx, everyOne())
	require.NoError(t, err)
	oldest := s.find(t, first.ID).CreatedAt
	i := slices.IndexFunc(lines, func(c store.UnsettledCount) bool { return !c.HalfDone && c.Method == "POST" })
	require.GreaterOrEqual(t, i, 0)
	require.WithinDuration(t, oldest, lines[i].Oldest, 0)
	require.GreaterOrEqual(t, lines[i].Now.Sub(oldest), 26*time.Hour)
	for i := range lines {
		lines[i].Oldest, lines[i].Now = time.Time{}, time.Time{}
	}
	const route = "/v1/orders/:id/payments"
	require.ElementsMatch(t, []store.UnsettledCount{
		{Method: "POST", Route: route, Count: 3, Hour: 2, Day: 1},
		{HalfDone: true, Method: "POST", Route: route, Count: 1, Hour: 1, Day: 1},
		{Method: "PUT", Route: "/v1/payouts", Count: 1},
	}, lines)

	oldestThree := everyOne()
	oldestThree.Limit = 3
	lines, err = s.inspectables[0].CountUnsettled(s.ctx, oldestThree)
	require.NoError(t, err)
	n := 0
	for _, c := range lines {
		n += c.Count
		require.NotEqual(t, "PUT", c.Method, "the oldest ones are counted")
	}
	require.Equal(t, 3, n)
}

// Every open operation is there, running or not, with the calls that it has begun, finished or not.
//
// CONTRACT S-5
func inspectOpenSteps(t *testing.T, s *fixture) {
	open := func(within []byte, limit int) []store.OpenStep {
		steps, err := s.inspectables[0].OpenSteps(s.ctx, within, limit)
		require.NoError(t, err)
		return steps
	}
	require.Empty(t, open(nil, 10))
	running, lost := s.win(t, s.command(store.Park)), s.win(t, s.command(store.Park))
	require.NoError(t, s.Store.Park(s.ctx, lost.Ticket))
	s.done(t, "paid")
	require.ElementsMatch(t, []store.OpenStep{{ID: running.ID}, {ID: lost.ID}}, open(nil, 10))
	require.Len(t, open(nil, 1), 1)
	require.Len(t, open(lost.Realm[:], 10), 2)
	require.Empty(t, open(make([]byte, 8), 10))
	if s.steppers == nil {
		return
	}
	resume := s.resume(t, s.command(store.Resume))
	require.NoError(t, s.Store.Complete(s.ctx, running.Ticket, kept(answerOf("paid"))))
	for _, name := range []string{"charge", "refund"} {
		s.start(t, resume, store.StepRecord{Name: name, Kind: store.ProviderStep})
	}
	require.ElementsMatch(t, []store.OpenStep{{ID: lost.ID}, {ID: resume.ID, Step: "charge"}, {ID: resume.ID, Step: "refund"}},
		open(nil, 10))
}

// By the first digits, and by the last ones.
//
// CONTRACT S-5
func inspectNear(t *testing.T, s *fixture) {
	var ids []store.ID
	for i := range 6 {
		c := s.command(store.Park)
		c.ID = store.ID{0: 7, 1: byte(i), 31: byte(i % 2)}
		if i == 5 {
			c.Realm[0]++
		}
		ids = append(ids, s.win(t, c).ID)
	}
	realm := s.command(store.Park).Realm
	for name, tt := range map[string]struct {
		n      store.Near
		within []byte
		limit  int
		want   []store.ID
	}{
		"all":       {store.Near{Last: store.ID{0: 8}}, nil, 10, ids},
		"its realm": {store.Near{Last: store.ID{0: 8}}, realm[:], 10, ids[:5]},
		"limit":     {store.Near{Last: store.ID{0: 8}}, nil, 2, ids[:2]},
		"the ends":  {store.Near{First: ids[1], Last: ids[3]}, nil, 10, ids[1:4]},
		"end":       {store.Near{Last: store.ID{0: 8}, End: []byte{0, 1}}, nil, 10, []store.ID{ids[1], ids[3], ids[5]}},
		"whole end": {store.Near{Last: store.ID{0: 8}, End: ids[2][:]}, nil, 10, ids[2:3]},
		"none":      {store.Near{First: store.ID{0: 8}, Last: store.ID{0: 9}}, nil, 10, nil},
	} {
		found, err := s.inspectables[0].Near(s.ctx, tt.within, tt.n, tt.limit)
		require.NoError(t, err)
		require.Equal(t, tt.want, append([]store.ID(nil), found...), name)
	}
}

// The history outlives the record and the life of the key.
//
// CONTRACT
func inspectHistory(t *testing.T, s *fixture) {
	history := func(id store.ID) []store.SettlementRecord {
		var first []store.SettlementRecord
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
	c, won := s.lost(t, store.Park)
	require.Empty(t, history(c.ID))
	undone := notApplied(won)
	undone.Undone = "a refund"
	freed, err := s.Store.Settle(s.ctx, undone)
	require.NoError(t, err)
	s.Advance(t, time.Minute)
	again := s.win(t, repeat(c))
	require.NoError(t, s.Store.Park(s.ctx, again.Ticket))
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
	require.Equal(t, []store.SettlementRecord{
		{Who: "operator", Why: "refused by the provider", Undone: "a refund", BeforeFence: won.Fence,
			BeforeState: store.Unknown, BeforeStored: store.Running, AfterFence: freed.Fence, AfterState: store.Free},
		{Who: "operator", Why: "seen at the provider", BeforeFence: again.Fence, BeforeState: store.Unknown,
			BeforeStored: store.Unknown,
			AfterFence:   done.Fence, AfterState: store.Completed, AfterStatus: answerOf("").Status},
	}, found)

	s.Advance(t, forever)
	s.sweep(t)
	s.requireGoneOrFree(t, c.ID)
	require.Len(t, history(c.ID), 2)
	require.Empty(t, history(s.command(store.Park).ID))
}

func inspectCancelled(t *testing.T, s *fixture) {
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	_, err := s.inspectables[0].Unsettled(ctx, everyOne())
	noSentinel(t, err)
	_, err = s.inspectables[0].CountUnsettled(ctx, everyOne())
	noSentinel(t, err)
	_, err = s.inspectables[0].OpenSteps(ctx, nil, 1)
	noSentinel(t, err)
	_, err = s.inspectables[0].Near(ctx, nil, store.Near{}, 1)
	noSentinel(t, err)
	_, err = s.inspectables[0].History(ctx, store.ID{1})
	noSentinel(t, err)
}

// The last settlements, the newest first: of a realm, by somebody, and no more than the limit.
//
// CONTRACT S-5, X-7
func inspectLastSettled(t *testing.T, s *fixture) {
	last := func(within []byte, by string, limit int) (found []store.SettledOperation) {
		for i, store := range s.inspectables {
			all, err := store.LastSettled(s.ctx, within, by, limit)
			require.NoError(t, err)
			if i > 0 {
				require.Len(t, all, len(found))
			}
			found = all
		}
		return found
	}
	require.Empty(t, last(nil, "", 10))
	var won []store.Record
	for i := range 3 {
		c := s.command(store.Park)
		c.Realm[0] = byte(i)
		won = append(won, s.win(t, c))
	}
	s.Advance(t, 2*deadline)
	for i, r := range won {
		d := notApplied(r)
		if i == 1 {
			d = applied(r, "paid")
			d.Who = "somebody else"
		}
		_, err := s.Store.Settle(s.ctx, d)
		require.NoError(t, err)
		s.Advance(t, time.Second)
	}
	ids := func(found []store.SettledOperation) (ids []store.ID) {
		for _, f := range found {
			ids = append(ids, f.ID)
		}
		return ids
	}
	all := last(nil, "", 10)
	require.Equal(t, []store.ID{won[2].ID, won[1].ID, won[0].ID}, ids(all))
	require.Equal(t, []store.ID{won[2].ID, won[1].ID}, ids(last(nil, "", 2)))
	require.Equal(t, []store.ID{won[1].ID}, ids(last(nil, "somebody else", 10)))
	require.Equal(t, []store.ID{won[0].ID}, ids(last([]byte{0}, "", 10)))
	require.Equal(t, won[1].Route, all[1].Route)
	require.Equal(t, won[1].Method, all[1].Method)
	history, err := s.inspectables[0].History(s.ctx, won[1].ID)
	require.NoError(t, err)
	require.Equal(t, []store.SettlementRecord{all[1].SettlementRecord}, history)
}

// The last success of a route, and of its realm.
//
// CONTRACT S-5
func inspectLastAnswered(t *testing.T, s *fixture) {
	c := s.command(store.Park)
	last := func(within []byte) string {
		rec, err := s.inspectables[0].LastAnswered(s.ctx, within, c.Method, c.Route)
		if err != nil {
			require.ErrorIs(t, err, store.ErrNotFound)
			return ""
		}
		return string(rec.Answer.Body)
	}
	require.Empty(t, last(nil))
	answer := func(c store.Claim, a store.Answer) {
		won := s.win(t, c)
		require.NoError(t, s.Store.Complete(s.ctx, won.Ticket, kept(a)))
		s.Advance(t, time.Minute)
	}
	first := s.command(store.Park)
	first.Realm[0]++
	answer(first, answerOf("another realm"))
	answer(s.command(store.Park), answerOf("first"))
	answer(s.command(store.Park), answerOf("second"))
	refused, partial, other := answerOf("refused"), answerOf("partial"), otherCommand(s.command(store.Park))
	refused.Status, partial.Partial = 402, true
	answer(s.command(store.Park), refused)
	answer(s.command(store.Park), partial)
	answer(other, answerOf("another route"))
	s.win(t, s.command(store.Park))
	require.Equal(t, "second", last(nil))
	require.Equal(t, "second", last(c.Realm[:]))
	require.Equal(t, "another realm", last(first.Realm[:]))
	s.Advance(t, retention)
	require.Empty(t, last(make([]byte, 24)))
}
