package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/store"
)

var markChecks = []check{
	{"Mark/Lost", markLost},
	{"Mark/LeavesRecords", markLeavesRecords},
	{"Mark/Adopted", markAdopted},
	{"Mark/Window", markWindow},
}

func (s *fixture) marking(c store.Claim, ids ...store.ID) store.Marking {
	m := store.Marking{IDs: ids, Who: "supervisor", Why: "the provider's list"}
	copy(m.Realm[:8], c.Realm[:8])
	return m
}

func (s *fixture) mark(t *testing.T, c store.Claim, ids ...store.ID) store.Imported {
	t.Helper()
	done, err := s.Store.Mark(s.ctx, s.marking(c, ids...))
	require.NoError(t, err)
	return done
}

// What the database has lost is unknown for everybody: no claim and no sweep takes it, and it can be settled.
//
// CONTRACT F-4, T-4, X-7
func markLost(t *testing.T, s *fixture) {
	for _, recovery := range []store.Recovery{store.Park, store.Resume} {
		c, key := s.command(recovery), s.command(recovery)
		require.Equal(t, store.Imported{Added: 2}, s.mark(t, c, c.ID, key.ID))
		require.Zero(t, s.mark(t, c, c.ID, key.ID), "a second time there is nothing to mark")
		marked := s.find(t, c.ID)
		require.True(t, marked.Ownerless())
		require.Equal(t, store.Unknown, marked.State())
		require.True(t, marked.Realm.Within(c.Realm[:8]))
		require.NotEqual(t, c.Realm, marked.Realm, "only supervisors see it")
		require.Contains(t, s.listed(t), c.ID)
		n, err := s.Store.CountOpen(s.ctx, c.Scope, 1000)
		require.NoError(t, err)
		require.Zero(t, n)
		s.Advance(t, forever)
		s.sweep(t)
		lost := s.lose(t, c)
		require.Equal(t, store.Unknown, lost.State())
		require.True(t, lost.Ownerless())

		settled, err := s.Store.Settle(s.ctx, applied(marked, "settled"))
		require.NoError(t, err)
		requireAnswer(t, answerOf("settled"), settled.Answer)
		hidden, err := s.Store.Find(s.ctx, c.ID, store.Viewer{Realm: c.Realm[:]})
		require.NoError(t, err)
		require.Empty(t, hidden.Answer.Body, "no principal is the one of a mark")
		history, err := s.Store.History(s.ctx, c.ID)
		require.NoError(t, err)
		require.Len(t, history, 2)
		require.True(t, history[0].Marked())
		require.False(t, history[1].Marked())
		require.Equal(t, []store.State{store.Free, store.Unknown}, []store.State{history[0].BeforeState, history[0].AfterState})
		require.Equal(t, []string{"supervisor", "the provider's list"}, []string{history[0].Who, history[0].Why})
		require.Equal(t, marked.Fence, history[0].AfterFence)
	}
}

// CONTRACT F-4, X-2
func markLeavesRecords(t *testing.T, s *fixture) {
	done, running := s.win(t, s.command(store.Park)), s.win(t, s.command(store.Park))
	s.complete(t, done, "ours")
	freed, fresh := s.win(t, s.command(store.Park)), s.command(store.Park)
	require.NoError(t, s.Store.End(s.ctx, freed.Ticket, asFree))
	before := []store.Record{s.find(t, done.ID), s.find(t, running.ID)}

	require.Equal(t, store.Imported{Added: 1, Replaced: 1, Running: 1},
		s.mark(t, fresh, done.ID, running.ID, freed.ID, fresh.ID))
	for _, rec := range before {
		requireSame(t, rec, s.find(t, rec.ID))
		history, err := s.Store.History(s.ctx, rec.ID)
		require.NoError(t, err)
		require.Empty(t, history)
	}
	marked := s.find(t, freed.ID)
	require.Equal(t, store.Unknown, marked.State(), "a key that is free is taken")
	require.Greater(t, marked.Fence, freed.Fence)
	history, err := s.Store.History(s.ctx, freed.ID)
	require.NoError(t, err)
	require.Equal(t, marked.Fence, history[0].AfterFence)
}

// CONTRACT S-1, S-5
func markAdopted(t *testing.T, s *fixture) {
	c := s.command(store.Park)
	c.Key.Timed = true
	other := s.command(store.Park)
	other.Scope[0]++
	require.NoError(t, s.Store.Adopt(s.ctx, c), "there is nothing to adopt")
	s.mark(t, c, c.ID)
	require.NoError(t, s.Store.Adopt(s.ctx, c))
	other.ID = c.ID
	require.NoError(t, s.Store.Adopt(s.ctx, other))
	rec := s.find(t, c.ID)
	require.False(t, rec.Ownerless())
	require.Equal(t, []any{c.Scope, c.Realm, c.Method, c.Route, true},
		[]any{rec.Scope, rec.Realm, rec.Method, rec.Route, rec.Timed})
	require.Equal(t, store.Unknown, rec.State())
	n, err := s.Store.CountOpen(s.ctx, c.Scope, 1000)
	require.NoError(t, err)
	require.Equal(t, 1, n)

	imported := s.imported(t, store.Completed)
	s.importAll(t, imported)
	other.ID = imported.ID
	require.NoError(t, s.Store.Adopt(s.ctx, other))
	requireSame(t, imported, s.find(t, imported.ID))
}

// CONTRACT T-5
func markWindow(t *testing.T, s *fixture) {
	c := s.command(store.Park)
	now := s.win(t, s.command(store.Park)).Now
	m := s.marking(c, c.ID)
	m.Window = store.Window{From: now.Add(time.Hour), To: now.Add(2 * time.Hour)}
	_, err := s.Store.Mark(s.ctx, m)
	require.ErrorIs(t, err, store.ErrClock)
	_, err = s.Store.Find(s.ctx, c.ID, store.Viewer{All: true})
	require.ErrorIs(t, err, store.ErrNotFound)
}
