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
	var ids []store.ID
	for i, store := range s.instances {
		found, err := store.Referred(s.ctx, nil, value, 100)
		require.NoError(t, err)
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
	found, err := s.instances[0].Referred(s.ctx, nil, amount.Value, 1)
	require.NoError(t, err)
	require.Len(t, found, 1)

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
		found, err := s.instances[0].Referred(s.ctx, tt.within, "7", 100)
		require.NoError(t, err)
		require.ElementsMatch(t, tt.want, found, "%x", tt.within)
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
	nobody := s.command(store.Park)
	require.ErrorIs(t, s.instances[0].Refer(s.ctx, nobody.ID, nobody.Realm, great), store.ErrStale)
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
	_, err = s.instances[0].Referred(ctx, nil, "v", 1)
	noSentinel(t, err)
}
