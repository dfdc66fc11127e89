package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/store"
)

var referenceChecks = []check{
	{"Reference/Found", referenceFound},
	{"Reference/Within", referenceWithin},
	{"Reference/Two", referenceTwo},
	{"Reference/Pages", referencePages},
	{"Reference/Listed", referenceListed},
	{"Reference/Limits", referenceLimits},
	{"Reference/Transaction", referenceTransaction},
	{"Reference/Retention", referenceRetention},
	{"Reference/Freed", referenceFreed},
	{"Reference/Erased", referenceErased},
	{"Reference/Cancelled", referenceCancelled},
}

func (s *fixture) refer(t *testing.T, r store.Record, refs ...store.Ref) {
	t.Helper()
	for _, ref := range refs {
		require.NoError(t, s.instances[0].Refer(s.ctx, r.ID, r.Realm, ref))
	}
}

// referred returns what has a reference of a value, the same on every instance.
func (s *fixture) referred(t *testing.T, value string) []store.ID {
	t.Helper()
	return s.referredBy(t, store.Query{Refs: []store.Ref{{Value: value}}, Limit: 100})
}

// referredBy returns what a query finds by its references, on all its pages, the same on every instance.
func (s *fixture) referredBy(t *testing.T, q store.Query) (ids []store.ID) {
	t.Helper()
	for i, st := range s.instances {
		found, q := []store.ID(nil), q
		for pages := 0; pages == 0 || q.After != (store.Cursor{}); pages++ {
			require.Less(t, pages, 100, "the pages do not end")
			page, err := st.Referred(s.ctx, q)
			require.NoError(t, err)
			require.LessOrEqual(t, len(page.IDs), q.Limit)
			found, q.After = append(found, page.IDs...), page.Next
		}
		if i > 0 {
			require.Equal(t, ids, found)
		}
		ids = found
	}
	return ids
}

// requireReferences checks the references of one operation, on every instance.
func (s *fixture) requireReferences(t *testing.T, id store.ID, want ...store.Ref) {
	t.Helper()
	for _, st := range s.instances {
		refs, err := st.References(s.ctx, []store.ID{id})
		require.NoError(t, err)
		require.Equal(t, want, refs[id])
	}
}

// A reference is there as soon as it is attached, while the attempt runs, on every instance, and after it is over.
func referenceFound(t *testing.T, s *fixture) {
	charge, amount := store.Ref{Name: "charge", Value: "ch_Ü '1'"}, store.Ref{Name: "amount", Value: "77.10"}
	first, second := s.win(t, s.command(store.Park)), s.win(t, s.command(store.Park))
	s.requireReferences(t, first.ID)
	require.Empty(t, s.referred(t, charge.Value))

	s.refer(t, first, charge, charge)
	s.Advance(t, time.Second)
	s.refer(t, first, amount)
	s.Advance(t, time.Second)
	s.refer(t, second, amount, store.Ref{Name: "total", Value: amount.Value})
	s.requireReferences(t, first.ID, charge, amount)
	require.Equal(t, []store.ID{first.ID}, s.referred(t, charge.Value))
	require.Equal(t, []store.ID{second.ID, first.ID}, s.referred(t, amount.Value), "the last one first, each once")
	require.Empty(t, s.referred(t, "77.1"), "a value is compared as it is")
	require.Empty(t, s.referred(t, charge.Name))
	found, err := s.instances[0].Referred(s.ctx, store.Query{Refs: []store.Ref{{Value: amount.Value}}, Limit: 1})
	require.NoError(t, err)
	require.Equal(t, []store.ID{second.ID}, found.IDs)
	require.NotZero(t, found.Next)

	all, err := s.instances[0].References(s.ctx, []store.ID{first.ID, second.ID, s.command(store.Park).ID})
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.NoError(t, s.Store.End(s.ctx, first.Ticket, asUnknown))
	s.complete(t, second, "paid")
	require.Equal(t, []store.ID{second.ID, first.ID}, s.referred(t, amount.Value))
}

// CONTRACT S-5
func referenceWithin(t *testing.T, s *fixture) {
	realms := []store.Realm{{0: 1, 23: 1}, {0: 1, 23: 2}, {0: 2, 23: 1}}
	var ids []store.ID
	for _, realm := range realms {
		c := s.command(store.Park)
		c.Realm = realm
		won := s.win(t, c)
		s.refer(t, won, store.Ref{Name: "order", Value: "7"})
		s.Advance(t, time.Second)
		ids = append([]store.ID{won.ID}, ids...)
	}
	for _, tt := range []struct {
		within []byte
		want   []store.ID
	}{
		{nil, ids}, {[]byte{}, ids}, {[]byte{1}, ids[1:]}, {realms[1][:], ids[1:2]}, {make([]byte, 8), []store.ID{}},
	} {
		found := s.referredBy(t, store.Query{Refs: []store.Ref{{Value: "7"}}, Within: tt.within, Limit: 2})
		require.ElementsMatch(t, tt.want, found, "%x", tt.within)
	}
}

// Two references, their names, a time and a state narrow a search down.
func referenceTwo(t *testing.T, s *fixture) {
	seller, amount := store.Ref{Name: "seller", Value: "seller-1"}, store.Ref{Name: "amount", Value: "77.10"}
	both, one, named := s.win(t, s.command(store.Park)), s.win(t, s.command(store.Park)), s.win(t, s.command(store.Park))
	s.refer(t, both, seller)
	s.Advance(t, time.Minute)
	s.refer(t, both, amount)
	s.refer(t, one, seller)
	s.Advance(t, time.Minute)
	s.refer(t, named, seller, store.Ref{Name: "fee", Value: amount.Value})
	s.complete(t, both, "paid")
	now := s.find(t, both.ID).Now
	later := now.Add(-time.Second)

	someone, paid := store.Ref{Value: seller.Value}, store.Ref{Value: amount.Value} // under any name
	for name, tt := range map[string]struct {
		q    store.Query
		want []store.ID
	}{
		"one":                 {store.Query{Refs: []store.Ref{someone}}, []store.ID{named.ID, one.ID, both.ID}},
		"with its name":       {store.Query{Refs: []store.Ref{amount}}, []store.ID{both.ID}},
		"with another":        {store.Query{Refs: []store.Ref{{Name: "amount", Value: "seller-1"}}}, nil},
		"two":                 {store.Query{Refs: []store.Ref{someone, paid}}, []store.ID{named.ID, both.ID}},
		"turned":              {store.Query{Refs: []store.Ref{paid, someone}}, []store.ID{named.ID, both.ID}},
		"two with names":      {store.Query{Refs: []store.Ref{someone, amount}}, []store.ID{both.ID}},
		"the first's name":    {store.Query{Refs: []store.Ref{amount, seller}}, []store.ID{both.ID}},
		"one that is nowhere": {store.Query{Refs: []store.Ref{someone, {Value: "8"}}}, nil},
		"from":                {store.Query{Refs: []store.Ref{someone}, From: later}, []store.ID{named.ID}},
		"until":               {store.Query{Refs: []store.Ref{someone}, Until: later}, []store.ID{one.ID, both.ID}},
		"between": {store.Query{Refs: []store.Ref{someone}, From: now.Add(-90 * time.Second), Until: later},
			[]store.ID{one.ID}},
		"the first's time":   {store.Query{Refs: []store.Ref{amount, seller}, Until: now.Add(-90 * time.Second)}, nil},
		"completed":          {store.Query{Refs: []store.Ref{someone}, Completed: true}, []store.ID{both.ID}},
		"completed and both": {store.Query{Refs: []store.Ref{paid, seller}, Completed: true}, []store.ID{both.ID}},
	} {
		for _, limit := range []int{1, 2, 10} {
			tt.q.Limit = limit
			require.Equal(t, tt.want, s.referredBy(t, tt.q), "%s, by %d", name, limit)
		}
	}
	s.Advance(t, retention)
	expired := store.Query{Refs: []store.Ref{someone}, Completed: true, Limit: 10}
	require.Empty(t, s.referredBy(t, expired))
}

// No page leaves one out or repeats one, also where an operation has the value twice, under two names or at two times.
func referencePages(t *testing.T, s *fixture) {
	var want []store.ID
	for i := range 7 {
		won := s.win(t, s.command(store.Park))
		want = append([]store.ID{won.ID}, want...)
		if i%2 == 0 {
			s.refer(t, won, store.Ref{Name: "total", Value: "7"})
			s.Advance(t, time.Second)
		}
		for _, name := range []string{"amount", "net", "due"} {
			s.refer(t, won, store.Ref{Name: name, Value: "7"})
		}
		s.Advance(t, time.Second)
	}
	for _, limit := range []int{1, 2, 3, 7, 8} {
		require.Equal(t, want, s.referredBy(t, store.Query{Refs: []store.Ref{{Value: "7"}}, Limit: limit}), limit)
		both := []store.Ref{{Value: "7"}, {Name: "net", Value: "7"}}
		require.Equal(t, want, s.referredBy(t, store.Query{Refs: both, Limit: limit}), limit)
	}
}

// What needs somebody is listed by references, too.
func referenceListed(t *testing.T, s *fixture) {
	seller, amount := store.Ref{Name: "seller", Value: "seller-1"}, store.Ref{Name: "amount", Value: "77.10"}
	first, second, done := s.win(t, s.command(store.Park)), s.win(t, s.command(store.Park)), s.win(t, s.command(store.Park))
	for _, r := range []store.Record{first, second, done} {
		s.refer(t, r, seller)
	}
	s.refer(t, second, amount)
	s.complete(t, done, "paid")
	s.Advance(t, 2*lease)
	for name, tt := range map[string]struct {
		refs []store.Ref
		want []store.ID
	}{
		"one":          {[]store.Ref{{Value: "seller-1"}}, []store.ID{first.ID, second.ID}},
		"its name":     {[]store.Ref{{Name: "amount", Value: "seller-1"}}, nil},
		"two":          {[]store.Ref{seller, {Value: "77.10"}}, []store.ID{second.ID}},
		"another name": {[]store.Ref{seller, {Name: "fee", Value: "77.10"}}, nil},
	} {
		for _, newest := range []bool{false, true} {
			q := everyOne()
			q.Refs, q.Newest = tt.refs, newest
			require.ElementsMatch(t, tt.want, s.selected(t, q), name)
		}
	}
}

// The greatest texts have room, and one reference too many is refused by name. An operation that is not there has none.
func referenceLimits(t *testing.T, s *fixture) {
	won := s.win(t, s.command(store.Park))
	great := store.Ref{Name: strings.Repeat("n", store.MaxReferenceName), Value: strings.Repeat("v", store.MaxReferenceValue)}
	s.refer(t, won, great)
	for i := 1; i < store.MaxReferences; i++ {
		s.refer(t, won, store.Ref{Name: "order", Value: fmt.Sprint(i)})
	}
	s.refer(t, won, great)
	tooMany := store.Ref{Name: "order", Value: "x"}
	require.ErrorIs(t, s.instances[0].Refer(s.ctx, won.ID, won.Realm, tooMany), store.ErrReferences)
	require.Empty(t, s.referred(t, "x"))
	require.Equal(t, []store.ID{won.ID}, s.referred(t, great.Value))
	none := s.command(store.Park)
	require.ErrorIs(t, s.instances[0].Refer(s.ctx, none.ID, none.Realm, great), store.ErrStale)
}

// In a transaction a reference commits with the answer, or not at all.
//
// CONTRACT X-0
func referenceTransaction(t *testing.T, s *fixture) {
	if !s.rows {
		t.Skip("the store has no transactions")
	}
	for _, commit := range []bool{true, false} {
		c := s.command(store.Rollback)
		tx, got, err := s.attempts[0].Begin(s.ctx, c)
		require.NoError(t, err)
		require.True(t, got.Won)
		ctx := tx.Bind(s.ctx, nil)
		ref := store.Ref{Name: "booking", Value: fmt.Sprint("b-", commit)}
		require.NoError(t, s.instances[0].Refer(ctx, c.ID, c.Realm, ref))
		require.NoError(t, s.instances[0].Refer(ctx, c.ID, c.Realm, ref))
		require.Empty(t, s.referred(t, ref.Value), "others do not see it before")
		if !commit {
			require.NoError(t, tx.Rollback())
			require.Empty(t, s.referred(t, ref.Value))
			continue
		}
		require.NoError(t, conclude(s.ctx, tx, kept(answerOf("booked")), false))
		require.Equal(t, []store.ID{c.ID}, s.referred(t, ref.Value))
	}
}

// A reference lives as long as the answer, and open operations keep theirs.
//
// CONTRACT T-2, T-3
func referenceRetention(t *testing.T, s *fixture) {
	ref := store.Ref{Name: "order", Value: "7"}
	open, done := s.win(t, s.command(store.Park)), s.win(t, s.command(store.Park))
	s.refer(t, open, ref)
	s.refer(t, done, ref)
	s.complete(t, done, "paid")
	s.Advance(t, retention-time.Hour)
	s.sweep(t)
	require.ElementsMatch(t, []store.ID{open.ID, done.ID}, s.referred(t, ref.Value))
	s.Advance(t, retention)
	s.sweep(t)
	require.Equal(t, []store.ID{open.ID}, s.referred(t, ref.Value))
	s.requireReferences(t, done.ID)
	s.Advance(t, forever)
	s.sweep(t)
	s.requireReferences(t, open.ID, ref)
}

// What was attached before a key was freed stays with it, and goes when the row of the freed key goes.
func referenceFreed(t *testing.T, s *fixture) {
	before, after := store.Ref{Name: "charge", Value: "refused"}, store.Ref{Name: "charge", Value: "made"}
	c, won := s.won(t, store.Park)
	s.refer(t, won, before)
	require.NoError(t, s.Store.End(s.ctx, won.Ticket, asFree))
	again := s.win(t, repeat(c))
	s.Advance(t, time.Second)
	s.refer(t, again, after)
	s.requireReferences(t, c.ID, before, after)
	require.NoError(t, s.Store.End(s.ctx, again.Ticket, asFree))
	s.Advance(t, forever)
	s.sweep(t)
	require.Empty(t, s.referred(t, before.Value))
	require.Empty(t, s.referred(t, after.Value))
}

// The references of a principal's completed and freed operations are erased, and nobody else's.
func referenceErased(t *testing.T, s *fixture) {
	ref := store.Ref{Name: "order", Value: "7"}
	open, done, freed := s.win(t, s.command(store.Park)), s.win(t, s.command(store.Park)), s.win(t, s.command(store.Park))
	c := s.command(store.Park)
	c.Scope[0]++
	others := s.win(t, c)
	for _, r := range []store.Record{open, done, freed, others} {
		s.refer(t, r, ref)
	}
	s.complete(t, done, "paid")
	s.complete(t, others, "paid")
	require.NoError(t, s.Store.End(s.ctx, freed.Ticket, asFree))
	erased, err := eraseAll(s.ctx, s.Store, done.Scope, 100)
	require.NoError(t, err)
	require.Equal(t, 2, erased.Records)
	require.Equal(t, []store.ID{open.ID}, erased.Open)
	require.ElementsMatch(t, []store.ID{open.ID, others.ID}, s.referred(t, ref.Value))
	erased, err = eraseAll(s.ctx, s.Store, done.Scope, 100)
	require.NoError(t, err)
	require.Zero(t, erased.Records, "nothing is erased twice")
}

func referenceCancelled(t *testing.T, s *fixture) {
	ctx := s.over()
	noSentinel(t, s.instances[0].Refer(ctx, store.ID{1}, store.Realm{}, store.Ref{Name: "n", Value: "v"}))
	_, err := s.instances[0].References(ctx, []store.ID{{1}})
	noSentinel(t, err)
	_, err = s.instances[0].Referred(ctx, store.Query{Refs: []store.Ref{{Value: "v"}}, Limit: 1})
	noSentinel(t, err)
}
