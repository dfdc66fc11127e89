package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/store"
)

var listChecks = []check{
	{"Find/NotFound", findNotFound},
	{"Find/For", findFor},
	{"List/OldestFirst", listOldestFirst},
	{"List/SameAge", listSameAge},
	{"List/States", listStates},
	{"List/Filters", listFilters},
	{"List/Within", listWithin},
	{"List/Pages", listPages},
	{"List/Swept", listSwept},
	{"List/ClockBack", listClockBack},
}

// CONTRACT M-7
func findNotFound(t *testing.T, s *fixture) {
	for _, st := range s.instances {
		_, err := st.Find(s.ctx, s.command(store.Park).ID, store.Viewer{All: true})
		require.ErrorIs(t, err, store.ErrNotFound)
	}
}

// Who may not see a record gets nothing of its answer.
//
// CONTRACT S-5, M-7
func findFor(t *testing.T, s *fixture) {
	c, whole := s.done(t, "paid")
	require.NotEmpty(t, whole.Answer.Body)
	hidden := whole
	hidden.Answer.Header, hidden.Answer.Body = nil, nil
	for _, test := range []struct {
		viewer store.Viewer
		want   store.Record
	}{
		{store.Viewer{Scope: c.Scope}, whole},
		{store.Viewer{Realm: c.Realm[:]}, whole},
		{store.Viewer{Realm: c.Realm[:8]}, whole},
		{store.Viewer{}, hidden},
		{store.Viewer{Scope: store.Scope{1}, Realm: append([]byte{c.Realm[0] + 1}, c.Realm[1:]...)}, hidden},
	} {
		for _, st := range s.instances {
			got, err := st.Find(s.ctx, c.ID, test.viewer)
			require.NoError(t, err)
			require.Equal(t, test.want.Answer.Status, got.Answer.Status)
			require.Equal(t, test.want.Answer.Body, got.Answer.Body)
			require.Len(t, got.Answer.Header, len(test.want.Answer.Header))
			require.Equal(t, test.want.ID, got.ID)
		}
	}
	_, err := s.Store.Find(s.ctx, s.command(store.Park).ID, store.Viewer{Scope: c.Scope})
	require.ErrorIs(t, err, store.ErrNotFound)
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
		require.NoError(t, s.Store.End(s.ctx, parked.Ticket, asUnknown))
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
	cursor := s.find(t, want[2].ID).Cursor()
	for _, w := range want[:3] {
		_, err := s.Store.Settle(s.ctx, notApplied(w))
		require.NoError(t, err)
	}
	rest, err := s.Store.List(s.ctx, store.Query{Unknown: true, After: cursor, Limit: 100})
	require.NoError(t, err)
	require.Equal(t, append(idsOf(want[3:]), running.ID), idsOf(rest), "with the one that was still running before")
}

// pages lists everything, limit records at a time.
func (s *fixture) pages(t *testing.T, limit int) (all []store.Record) {
	t.Helper()
	for q := (store.Query{Unknown: true, Limit: limit}); ; q.After = all[len(all)-1].Cursor() {
		page, err := s.Store.List(s.ctx, q)
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

// Sweeps change neither what is listed, nor when, nor in which order, on any page.
//
// CONTRACT T-4, X-10
func listSwept(t *testing.T, s *fixture) {
	var want, half []store.ID
	for i := range 9 {
		half = append(half, s.lasting(t, store.Resume))
		want = append(want, s.lasting(t, store.Park))
		s.Advance(t, time.Second)
		parked := s.win(t, s.command(store.Resume))
		want = append(want, parked.ID)
		if i%2 == 0 {
			s.pause(t)
		}
		require.NoError(t, s.Store.End(s.ctx, parked.Ticket, asUnknown))
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
	require.Equal(t, half, s.selected(t, store.Query{Resumable: true, Limit: 100}))
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
	require.Equal(t, half, s.selected(t, store.Query{HalfDone: true, Limit: 100}))
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
			s.complete(t, row, "late")
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
		_, after := s.won(t, store.Park)
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

// everyOne asks for everything that needs somebody.
func everyOne() store.Query { return store.Query{Unknown: true, HalfDone: true, Limit: 1000} }

// selected returns what a query finds, the same on every instance.
func (s *fixture) selected(t *testing.T, q store.Query) []store.ID {
	t.Helper()
	var ids []store.ID
	for i, store := range s.instances {
		found, err := store.List(s.ctx, q)
		require.NoError(t, err)
		if i > 0 {
			require.Equal(t, ids, idsOf(found))
		}
		ids = idsOf(found)
	}
	return ids
}

// An operation is listed while it is unknown, resumable or half-done, swept or not, and at no other time.
//
// CONTRACT T-4, X-10
func listStates(t *testing.T, s *fixture) {
	every := store.Query{Unknown: true, Resumable: true, HalfDone: true, Limit: 10}
	require.Empty(t, s.selected(t, every))
	park, resume := s.win(t, s.command(store.Park)), s.win(t, s.command(store.Resume))
	s.done(t, "paid")
	require.Empty(t, s.selected(t, every), "they run")
	s.Advance(t, 2*lease)
	alive := s.win(t, s.command(store.Resume))
	for range 2 {
		require.Equal(t, []store.ID{park.ID}, s.selected(t, everyOne()), "the other may be gone on with")
		require.Equal(t, []store.ID{resume.ID}, s.selected(t, store.Query{Resumable: true, Limit: 10}))
		require.ElementsMatch(t, []store.ID{park.ID, resume.ID}, s.selected(t, every))
		s.sweep(t)
	}
	require.NoError(t, s.Store.End(s.ctx, alive.Ticket, asFree))
	s.Advance(t, deadline)
	for range 2 {
		require.ElementsMatch(t, []store.ID{park.ID, resume.ID}, s.selected(t, everyOne()))
		require.Equal(t, []store.ID{resume.ID}, s.selected(t, store.Query{HalfDone: true, Limit: 10}))
		require.Equal(t, []store.ID{resume.ID}, s.selected(t, store.Query{Resumable: true, Limit: 10}))
		require.Empty(t, s.selected(t, store.Query{Limit: 10}), "no state is named")
		s.sweep(t)
	}
	_, err := s.Store.Settle(s.ctx, notApplied(park))
	require.NoError(t, err)
	s.complete(t, resume, "refunded")
	require.Empty(t, s.selected(t, every))
}

// By state, by route, and by time: the first moment belongs to it, the last one does not.
func listFilters(t *testing.T, s *fixture) {
	park, half := s.win(t, s.command(store.Park)), s.win(t, s.command(store.Resume))
	s.Advance(t, time.Hour)
	other := s.command(store.Park)
	other.Method, other.Route = "PUT", "/v1/payouts"
	other.Scope[0]++
	payout := s.win(t, other)
	s.Advance(t, 2*deadline)

	at := func(id store.ID) time.Time { return s.find(t, id).CreatedAt }
	for name, tt := range map[string]struct {
		change func(q *store.Query)
		want   []store.ID
	}{
		"all":           {func(*store.Query) {}, []store.ID{park.ID, half.ID, payout.ID}},
		"none":          {func(q *store.Query) { q.Unknown, q.HalfDone = false, false }, nil},
		"unknown":       {func(q *store.Query) { q.HalfDone = false }, []store.ID{park.ID, payout.ID}},
		"half-done":     {func(q *store.Query) { q.Unknown = false }, []store.ID{half.ID}},
		"route":         {func(q *store.Query) { q.Method, q.Route = "PUT", "/v1/payouts" }, []store.ID{payout.ID}},
		"principal":     {func(q *store.Query) { q.Scope = other.Scope }, []store.ID{payout.ID}},
		"other one":     {func(q *store.Query) { q.Scope = park.Scope }, []store.ID{park.ID, half.ID}},
		"nobody":        {func(q *store.Query) { q.Scope = store.Scope{1} }, nil},
		"other method":  {func(q *store.Query) { q.Method, q.Route = "POST", "/v1/payouts" }, nil},
		"from":          {func(q *store.Query) { q.From = at(payout.ID) }, []store.ID{payout.ID}},
		"until":         {func(q *store.Query) { q.Until = at(payout.ID) }, []store.ID{park.ID, half.ID}},
		"from and rest": {func(q *store.Query) { q.From, q.HalfDone = at(park.ID), false }, []store.ID{park.ID, payout.ID}},
	} {
		q := everyOne()
		tt.change(&q)
		require.ElementsMatch(t, tt.want, s.selected(t, q), name)
	}
}

// Of one realm, of all realms that begin alike, or of all.
//
// CONTRACT S-5
func listWithin(t *testing.T, s *fixture) {
	realms, ids := s.inThreeRealms(t)
	for _, tt := range []struct {
		within []byte
		want   []store.ID
	}{
		{nil, ids}, {[]byte{}, ids}, {[]byte{1}, ids[:2]}, {realms[2][:], ids[2:]}, {realms[1][:], ids[1:2]}, {make([]byte, 8), nil},
	} {
		q := everyOne()
		q.Within = tt.within
		require.ElementsMatch(t, tt.want, s.selected(t, q), "%x", tt.within)
	}
}

// inThreeRealms makes a lost operation in each of three realms. The first two realms begin alike.
func (s *fixture) inThreeRealms(t *testing.T) (realms []store.Realm, ids []store.ID) {
	t.Helper()
	realms = []store.Realm{{0: 1, 23: 1}, {0: 1, 23: 2}, {0: 2, 23: 1}}
	for _, realm := range realms {
		c := s.command(store.Park)
		c.Realm = realm
		won := s.win(t, c)
		require.Equal(t, realm, won.Realm)
		ids = append(ids, won.ID)
	}
	s.Advance(t, 2*lease)
	return realms, ids
}

// No page leaves one out or repeats one, whatever becomes of the operations of the page before.
func listPages(t *testing.T, s *fixture) {
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
			page, err := s.Store.List(s.ctx, q)
			require.NoError(t, err)
			if len(page) == 0 {
				break
			}
			require.LessOrEqual(t, len(page), q.Limit)
			got = append(got, idsOf(page)...)
			q.After = page[len(page)-1].Cursor()
		}
		require.Equal(t, order, got, "limit %d", limit)
	}

	// The place of an operation is one, also when the operation is over.
	q := everyOne()
	last := s.find(t, want[4])
	q.After = last.Cursor()
	_, err := s.Store.Settle(s.ctx, notApplied(last))
	require.NoError(t, err)
	require.Equal(t, want[5:], s.selected(t, q))
}
