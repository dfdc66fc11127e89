package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/store"
)

var noteChecks = []check{
	{"Note/Appended", noteAppended},
	{"Note/Open", noteOpen},
	{"Note/Retention", noteRetention},
	{"Note/Erased", noteErased},
	{"Note/Cancelled", noteCancelled},
}

// noteOf is a note of a record, by olga.
func noteOf(r store.Record, token byte, text string) store.Note {
	return store.Note{ID: r.ID, Token: [16]byte{token}, Who: "olga", Text: text}
}

// requireNotes checks the texts of the notes of an operation, on every instance, and that olga has written all of them.
func (s *fixture) requireNotes(t *testing.T, id store.ID, want ...string) {
	t.Helper()
	for _, st := range s.instances {
		notes, err := st.Notes(s.ctx, []store.ID{{1}, id})
		require.NoError(t, err)
		var texts []string
		for _, n := range notes[id] {
			texts = append(texts, n.Text)
			require.Equal(t, "olga", n.Who)
			require.Equal(t, id, n.ID)
			require.False(t, n.At.IsZero())
		}
		require.Equal(t, want, texts)
	}
}

// Notes are kept in their order, with the store's time. What is sent twice is kept once, as it came first.
func noteAppended(t *testing.T, s *fixture) {
	first, second := s.win(t, s.command(store.Park)), s.win(t, s.command(store.Resume))
	s.requireNotes(t, first.ID)
	long := noteOf(first, 1, "I am on it, Ü ''")
	for range 2 {
		require.NoError(t, s.Store.Annotate(s.ctx, long))
	}
	again := long
	again.Text = "otherwise"
	require.NoError(t, s.instances[len(s.instances)-1].Annotate(s.ctx, again))
	s.Advance(t, time.Minute)
	require.NoError(t, s.Store.Annotate(s.ctx, noteOf(first, 2, "asked the provider")))
	require.NoError(t, s.Store.Annotate(s.ctx, noteOf(second, 1, "another one")))
	s.requireNotes(t, first.ID, long.Text, "asked the provider")
	s.requireNotes(t, second.ID, "another one")
	notes, err := s.Store.Notes(s.ctx, []store.ID{first.ID, second.ID})
	require.NoError(t, err)
	require.Len(t, notes, 2)
	require.WithinDuration(t, s.find(t, first.ID).Now.Add(-time.Minute), notes[first.ID][0].At, 20*time.Second)
	require.True(t, notes[first.ID][1].At.After(notes[first.ID][0].At))
	_, err = s.Store.Notes(s.ctx, nil)
	require.NoError(t, err)
}

// Only an open operation takes notes. They outlive its settlement, and the next life of its key.
func noteOpen(t *testing.T, s *fixture) {
	none := store.Record{Ticket: store.Ticket{ID: s.command(store.Park).ID}}
	require.ErrorIs(t, s.Store.Annotate(s.ctx, noteOf(none, 1, "n")), store.ErrNotFound)
	_, done := s.done(t, "paid")
	require.ErrorIs(t, s.Store.Annotate(s.ctx, noteOf(done, 1, "n")), store.ErrNotSettleable)
	s.requireNotes(t, done.ID)

	c, lost := s.won(t, store.Park)
	require.NoError(t, s.Store.Annotate(s.ctx, noteOf(lost, 1, "while it runs")))
	require.NoError(t, s.Store.End(s.ctx, lost.Ticket, asUnknown))
	require.NoError(t, s.Store.Annotate(s.ctx, noteOf(lost, 2, "while it is unknown")))
	s.Advance(t, 2*deadline)
	_, err := s.Store.Settle(s.ctx, notApplied(lost))
	require.NoError(t, err)
	require.ErrorIs(t, s.Store.Annotate(s.ctx, noteOf(lost, 3, "n")), store.ErrNotSettleable)
	require.NoError(t, s.Store.Annotate(s.ctx, noteOf(lost, 2, "n")), "it is there already")
	again := s.win(t, repeat(c))
	require.NoError(t, s.Store.Annotate(s.ctx, noteOf(again, 3, "again")))
	s.requireNotes(t, lost.ID, "while it runs", "while it is unknown", "again")
}

// The text goes with the answer. Who and when stay.
//
// CONTRACT T-3
func noteRetention(t *testing.T, s *fixture) {
	open, done, freed := s.win(t, s.command(store.Park)), s.win(t, s.command(store.Park)), s.win(t, s.command(store.Park))
	for _, r := range []store.Record{open, done, freed} {
		require.NoError(t, s.Store.Annotate(s.ctx, noteOf(r, 1, "I am on it")))
	}
	s.complete(t, done, "paid")
	require.NoError(t, s.Store.End(s.ctx, freed.Ticket, asFree))
	s.sweep(t)
	s.requireNotes(t, done.ID, "I am on it")
	s.Advance(t, retention+time.Minute)
	s.sweep(t)
	s.requireNotes(t, done.ID, "")
	s.Advance(t, forever)
	s.sweep(t)
	s.requireNotes(t, done.ID, "")
	s.requireNotes(t, freed.ID, "")
	s.requireNotes(t, open.ID, "I am on it")
}

// An erasure takes the texts of what it erases, and of nothing else.
func noteErased(t *testing.T, s *fixture) {
	open, done, freed := s.win(t, s.command(store.Park)), s.win(t, s.command(store.Park)), s.win(t, s.command(store.Park))
	c := s.command(store.Park)
	c.Scope[0]++
	others := s.win(t, c)
	for _, r := range []store.Record{open, done, freed, others} {
		require.NoError(t, s.Store.Annotate(s.ctx, noteOf(r, 1, "I am on it")))
	}
	s.complete(t, done, "paid")
	s.complete(t, others, "paid")
	require.NoError(t, s.Store.End(s.ctx, freed.Ticket, asFree))
	for _, want := range []int{2, 0} {
		erased, err := eraseAll(s.ctx, s.Store, done.Scope, 100)
		require.NoError(t, err)
		require.Equal(t, want, erased.Records)
	}
	s.requireNotes(t, done.ID, "")
	s.requireNotes(t, freed.ID, "")
	s.requireNotes(t, open.ID, "I am on it")
	s.requireNotes(t, others.ID, "I am on it")
}

func noteCancelled(t *testing.T, s *fixture) {
	won := s.win(t, s.command(store.Park))
	ctx := s.over()
	noSentinel(t, s.Store.Annotate(ctx, noteOf(won, 1, "n")))
	_, err := s.Store.Notes(ctx, []store.ID{won.ID})
	noSentinel(t, err)
}
