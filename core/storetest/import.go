package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/store"
)

var importChecks = []check{
	{"Import/RoundTrip", importRoundTrip},
	{"Import/NeverOverwrites", importNeverOverwrites},
	{"Import/ReplacesFree", importReplacesFree},
	{"Import/AttemptUnderWay", importAttemptUnderWay},
	{"Import/Expires", importExpires},
	{"Import/Settled", importSettled},
	{"Import/Cancelled", importCancelled},
}

// imported returns a record as operations.Import makes them, of a command that the store has not seen.
func (s *fixture) imported(t *testing.T, state store.State) store.Record {
	t.Helper()
	c := s.command(store.Park)
	now := s.win(t, s.command(store.Park)).Now // the store's clock
	created := now.Add(-time.Hour).Round(time.Millisecond)
	rec := store.Record{
		Ticket: store.Ticket{ID: c.ID, Owner: c.Owner, Fence: 1}, Scope: c.Scope, Realm: c.Realm, Method: c.Method,
		Route: c.Route, Recovery: c.Recovery, Stored: state, Attempts: 1, CreatedAt: created, LeaseUntil: created, Deadline: created,
	}
	if state != store.Unknown {
		rec.Answer = answerOf("imported")
		rec.ExpiresAt = created.Add(retention)
		rec.PurgeAt = rec.ExpiresAt.Add(tombstone)
	}
	if state == store.Expired {
		rec.Answer = store.Answer{Status: rec.Answer.Status}
		rec.ExpiresAt = created
	}
	return rec
}

func (s *fixture) importAll(t *testing.T, records ...store.Record) store.Imported {
	t.Helper()
	done, err := s.Store.Import(s.ctx, records)
	require.NoError(t, err)
	return done
}

func importRoundTrip(t *testing.T, s *fixture) {
	records := []store.Record{s.imported(t, store.Completed), s.imported(t, store.Unknown), s.imported(t, store.Expired)}
	require.Equal(t, store.Imported{Added: 3}, s.importAll(t, records...))
	for _, rec := range records {
		found := s.find(t, rec.ID)
		requireSame(t, rec, found)
		require.Equal(t, rec.Stored, found.State())
		c := s.command(store.Park)
		c.ID = rec.ID
		requireSame(t, found, s.lose(t, c))
	}
	require.Zero(t, s.importAll(t, records...), "a second time there is nothing to add")
}

// An attempt that has not ended may still give its key back, also one whose lease has run out.
//
// CONTRACT F-4, X-2, M-3
func importNeverOverwrites(t *testing.T, s *fixture) {
	running, completed := s.win(t, s.command(store.Park)), s.win(t, s.command(store.Park))
	s.complete(t, completed, "ours")
	parked := s.win(t, s.command(store.Resume))
	require.NoError(t, s.Store.End(s.ctx, parked.Ticket, asUnknown))
	for _, there := range []store.Record{running, completed, parked} {
		before := s.find(t, there.ID)
		rec := s.imported(t, store.Completed)
		rec.ID = there.ID
		other := s.imported(t, store.Completed)
		want := store.Imported{Added: 1}
		if there.ID == running.ID {
			want.Running = 1
		}
		require.Equal(t, want, s.importAll(t, rec, other), "the one that is there is left, the other is added")
		requireSame(t, before, s.find(t, there.ID))
	}
	rec := s.imported(t, store.Completed)
	rec.ID = running.ID
	s.Advance(t, lease)
	require.Equal(t, store.Unknown, s.find(t, rec.ID).State())
	require.Equal(t, store.Imported{Running: 1}, s.importAll(t, rec))
	require.NoError(t, s.Store.End(s.ctx, running.Ticket, asFree))
	require.Equal(t, store.Imported{Replaced: 1}, s.importAll(t, rec))
}

// A key of the old system is not free, even if it was given back here or its tombstone is over.
//
// CONTRACT F-4, X-2
func importReplacesFree(t *testing.T, s *fixture) {
	released := s.win(t, s.command(store.Park))
	require.NoError(t, s.Store.End(s.ctx, released.Ticket, asFree))
	forgotten := s.win(t, s.command(store.Park))
	completion := kept(answerOf("ours"))
	completion.Tombstone = 0
	require.NoError(t, s.Store.End(s.ctx, forgotten.Ticket, answered(completion)))
	s.Advance(t, retention)
	require.Equal(t, store.Free, s.find(t, forgotten.ID).State())

	for _, free := range []store.Record{released, forgotten} {
		for _, state := range []store.State{store.Completed, store.Unknown} {
			rec := s.imported(t, state)
			rec.ID = free.ID
			require.Equal(t, store.Imported{Replaced: 1}, s.importAll(t, rec))
			require.Zero(t, s.importAll(t, rec), "a second time there is nothing to replace")
			found := s.find(t, rec.ID)
			require.Greater(t, found.Fence, free.Fence)
			free, rec.Fence = found, found.Fence
			requireSame(t, rec, found)
			c := s.command(store.Park)
			c.ID = rec.ID
			requireSame(t, found, s.lose(t, c))
			if state == store.Completed { // it is free again in the end, and imported once more
				s.Advance(t, forever)
			}
		}
	}
	require.ErrorIs(t, s.Store.End(s.ctx, released.Ticket, answered(kept(answerOf("late")))), store.ErrStale)
}

// An attempt that is under way and not visible keeps its key, and the import costs it nothing.
//
// CONTRACT F-4, X-15
func importAttemptUnderWay(t *testing.T, s *fixture) {
	if s.unlocked {
		return
	}
	if len(s.attempts) > 0 {
		c := s.command(store.Resume)
		rec := s.importedAs(t, c)
		won := s.open(t, c)
		s.requireNotImported(t, rec)
		answer := kept(answerOf("ours"))
		_, err := won.segments.Seal(s.ctx, store.Seal{Answer: &answer})
		require.NoError(t, err)
		requireAnswer(t, answerOf("ours"), s.find(t, c.ID).Answer)
		require.Zero(t, s.importAll(t, rec))
	}
	if !s.rows || s.Twin == nil {
		return // one process, one writer: it waits for the attempt
	}
	c := s.command(store.Rollback)
	rec := s.importedAs(t, c)
	tx, _ := s.begin(t, c)
	s.requireNotImported(t, rec)
	require.NoError(t, conclude(s.ctx, tx, kept(answerOf("ours")), false))
	requireAnswer(t, answerOf("ours"), s.find(t, c.ID).Answer)
}

// importedAs is a record with the id of c. It asks the store for its time with a claim, so it is made before the attempt
// begins: where transactions are serializable, two that write into one page may cost each other a conflict.
func (s *fixture) importedAs(t *testing.T, c store.Claim) store.Record {
	t.Helper()
	rec := s.imported(t, store.Completed)
	rec.ID = c.ID
	return rec
}

func (s *fixture) requireNotImported(t *testing.T, rec store.Record) {
	t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, 20*time.Second)
	defer cancel()
	done, err := s.instances[len(s.instances)-1].Import(ctx, []store.Record{rec})
	require.NoError(t, err, "it does not wait for the attempt")
	require.Equal(t, store.Imported{Running: 1}, done)
}

// CONTRACT T-2, T-3, M-5
func importExpires(t *testing.T, s *fixture) {
	rec := s.imported(t, store.Completed)
	require.Equal(t, store.Imported{Added: 1}, s.importAll(t, rec))
	s.Advance(t, retention)
	require.Equal(t, store.Expired, s.find(t, rec.ID).State())
	require.Equal(t, 1, s.sweep(t).Tombstones)
	s.Advance(t, tombstone)
	s.sweep(t)
	s.requireFree(t, rec.ID)
}

// CONTRACT X-7
func importSettled(t *testing.T, s *fixture) {
	rec := s.imported(t, store.Unknown)
	require.Equal(t, store.Imported{Added: 1}, s.importAll(t, rec))
	require.Contains(t, s.listed(t), rec.ID)
	answer := kept(answerOf("settled"))
	_, err := s.Store.Settle(s.ctx, store.Settlement{ID: rec.ID, Fence: 1, Answer: &answer, Who: "operator", Why: "asked"})
	require.NoError(t, err)
	requireAnswer(t, answer.Answer, s.find(t, rec.ID).Answer)
}

func importCancelled(t *testing.T, s *fixture) {
	rec := s.imported(t, store.Completed)
	ctx := s.over()
	_, err := s.Store.Import(ctx, []store.Record{rec})
	noSentinel(t, err)
	s.requireGoneOrFree(t, rec.ID)
}
