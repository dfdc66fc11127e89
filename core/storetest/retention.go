package storetest

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/store"
)

var retentionChecks = []check{
	{"Retention/InTurn", thenTombstoneThenFree},
	{"Retention/Swept", sweptIsTheSame},
	{"Retention/NoTombstone", withoutTombstone},
	{"Retention/ClockBack", retentionAfterClockBack},
	{"Sweep/Limits", sweepLimits},
	{"Sweep/LeavesTheRest", sweepLeavesTheRest},
	{"Sweep/FreedKeys", sweepFreedKeys},
	{"Sweep/HoweverEnded", sweepHoweverEnded},
	{"Sweep/ManyAtOnce", sweepManyAtOnce},
}

// done completes a new command and returns its claim and the row.
func (s *fixture) done(t *testing.T, text string) (store.Claim, store.Record) {
	t.Helper()
	c, won := s.won(t, store.Park)
	s.complete(t, won, text)
	return c, s.find(t, c.ID)
}

// No sweep runs: the state follows from the row and the clock.
//
// CONTRACT T-4, M-3, M-5, R-6
func thenTombstoneThenFree(t *testing.T, s *fixture) {
	c, row := s.done(t, "paid")
	require.WithinDuration(t, row.Now.Add(retention), row.ExpiresAt, lease)
	require.Equal(t, tombstone, row.PurgeAt.Sub(row.ExpiresAt).Round(time.Second))
	s.Advance(t, retention-time.Hour)
	s.requireState(t, store.Completed, c)
	s.Advance(t, 2*time.Hour)
	s.requireState(t, store.Expired, c)
	s.requireExpired(t, c)
	s.Advance(t, tombstone-2*time.Hour)
	s.requireState(t, store.Expired, c)
	s.Advance(t, 2*time.Hour)
	s.requireFree(t, c.ID)
}

// requireExpired checks what a repeat and another command are told about an expired key.
func (s *fixture) requireExpired(t *testing.T, c store.Claim) {
	t.Helper()
	for _, again := range []store.Claim{repeat(c), otherCommand(c)} {
		r := s.lose(t, again)
		require.Equal(t, store.Expired, r.State())
		require.Equal(t, "succeeded", r.OutcomeClass())
		require.Equal(t, http.StatusCreated, r.Answer.Status)
		require.Equal(t, c.Hash, r.Hash)
		require.Equal(t, c.Scope, r.Scope)
	}
}

// The same life as above, with sweeps: readers see the same states, and the tombstone has lost the answer.
//
// CONTRACT T-3, T-4, M-5
func sweptIsTheSame(t *testing.T, s *fixture) {
	c, row := s.done(t, "paid")
	s.Advance(t, retention-time.Hour)
	require.Zero(t, s.sweep(t), "nothing is due")
	requireSame(t, row, s.find(t, c.ID))
	s.Advance(t, 2*time.Hour)
	require.Equal(t, store.Swept{Tombstones: 1}, s.sweep(t))
	s.requireState(t, store.Expired, c)
	s.requireExpired(t, c)

	want := row
	want.Stored, want.Answer = store.Expired, store.Answer{Status: http.StatusCreated}
	requireSame(t, want, s.find(t, c.ID))
	require.NoError(t, s.Store.End(s.ctx, row.Ticket, answered(kept(answerOf("again")))), "completing again is nil")
	requireSame(t, want, s.find(t, c.ID))

	require.Zero(t, s.sweep(t), "nothing is due")
	s.Advance(t, tombstone)
	require.Equal(t, store.Swept{Dropped: 1}, s.sweep(t))
	s.requireGone(t, c.ID)
	s.requireFree(t, c.ID)
}

// CONTRACT R-7, T-4
func withoutTombstone(t *testing.T, s *fixture) {
	var claims []store.Claim
	for range 2 {
		c, won := s.won(t, store.Park)
		short := store.Completion{Answer: store.Answer{Status: http.StatusUnprocessableEntity}, Retention: 6 * time.Hour}
		require.NoError(t, s.Store.End(s.ctx, won.Ticket, answered(short)))
		row := s.find(t, c.ID)
		require.WithinDuration(t, row.ExpiresAt, row.PurgeAt, 0)
		claims = append(claims, c)
	}
	refused, won := s.won(t, store.Park)
	require.NoError(t, s.Store.End(s.ctx, won.Ticket, answered(kept(store.Answer{Status: http.StatusBadRequest}))))
	s.Advance(t, 5*time.Hour)
	s.requireState(t, store.Completed, claims[0])
	s.Advance(t, 2*time.Hour)
	s.requireFree(t, claims[0].ID)
	require.Equal(t, 1, s.sweep(t).Dropped)
	s.requireGone(t, claims[1].ID)
	s.requireFree(t, claims[1].ID)
	s.Advance(t, retention)
	require.Equal(t, 1, s.sweep(t).Tombstones)
	require.Equal(t, "refused", s.lose(t, repeat(refused)).OutcomeClass(), "a 400 with a tombstone")
}

// The clock goes back while the attempt runs: its answer is forgotten no earlier for that.
//
// CONTRACT T-2, T-5
func retentionAfterClockBack(t *testing.T, s *fixture) {
	c, won := s.won(t, store.Park)
	s.Advance(t, -2*time.Hour)
	s.complete(t, won, "paid")
	r := s.find(t, c.ID)
	require.False(t, r.ExpiresAt.Before(r.CreatedAt.Add(retention)), "retention begins no earlier than the claim")
	require.Equal(t, tombstone, r.PurgeAt.Sub(r.ExpiresAt).Round(time.Second))
	s.Advance(t, 2*time.Hour+retention-time.Hour)
	s.sweep(t)
	s.requireState(t, store.Completed, c)
	s.Advance(t, 2*time.Hour)
	require.Equal(t, store.Swept{Tombstones: 1}, s.sweep(t))
	s.requireState(t, store.Expired, c)
}

// CONTRACT T-3
func sweepLimits(t *testing.T, s *fixture) {
	for range 5 {
		s.done(t, "paid")
	}
	s.Advance(t, retention+time.Hour)
	for _, want := range []int{2, 2, 1, 0} {
		swept, err := s.Store.Sweep(s.ctx, 2, store.Window{})
		require.NoError(t, err)
		require.Equal(t, store.Swept{Tombstones: want}, swept)
	}
	s.Advance(t, tombstone)
	for _, want := range []int{2, 2, 1, 0} {
		swept, err := s.Store.Sweep(s.ctx, 2, store.Window{})
		require.NoError(t, err)
		require.Equal(t, store.Swept{Dropped: want}, swept)
	}
}

// Running and unknown records, answers within retention and tombstones within theirs are all there after any number
// of sweeps.
//
// CONTRACT T-3, T-4
func sweepLeavesTheRest(t *testing.T, s *fixture) {
	park, resume, parked := s.command(store.Park), s.command(store.Resume), s.command(store.Resume)
	s.win(t, park)
	s.win(t, resume)
	require.NoError(t, s.Store.End(s.ctx, s.win(t, parked).Ticket, asUnknown))
	s.Advance(t, forever)

	old, _ := s.done(t, "old")
	s.Advance(t, retention+time.Hour)
	recent, _ := s.done(t, "recent")
	running := s.command(store.Park)
	s.win(t, running)
	require.Equal(t, store.Swept{Tombstones: 1}, s.sweep(t))

	for _, want := range []struct {
		claim store.Claim
		state store.State
	}{
		{park, store.Unknown}, {parked, store.Unknown}, {old, store.Expired}, {recent, store.Completed}, {running, store.Running},
	} {
		s.requireState(t, want.state, want.claim)
	}
	require.Equal(t, store.Running, s.find(t, resume.ID).State())
	requireAnswer(t, answerOf("recent"), s.find(t, recent.ID).Answer)
	require.EqualValues(t, 2, s.win(t, repeat(resume)).Fence, "a Resume attempt waits for its repeat, however long")
}

// The record of an attempt is swept in the end, however the attempt ended: at once, late, after it was listed,
// parked, resumed, or settled.
//
// CONTRACT T-3, T-4
func sweepHoweverEnded(t *testing.T, s *fixture) {
	s.complete(t, s.win(t, s.command(store.Park)), "paid")
	late, resumed := s.win(t, s.command(store.Park)), s.command(store.Resume)
	s.win(t, resumed)
	s.complete(t, s.win(t, s.command(store.Park)), "paid")
	listed := s.win(t, s.command(store.Park))
	parked, settled := s.win(t, s.command(store.Park)), s.win(t, s.command(store.Park))
	require.NoError(t, s.Store.End(s.ctx, parked.Ticket, asUnknown))
	s.pause(t)
	s.complete(t, listed, "paid")
	s.pause(t)
	s.Advance(t, 2*deadline)
	s.sweep(t)
	s.complete(t, late, "paid")
	s.complete(t, parked, "paid")
	s.complete(t, s.win(t, repeat(resumed)), "paid")
	_, err := s.Store.Settle(s.ctx, applied(settled, "charged"))
	require.NoError(t, err)
	require.Zero(t, s.sweep(t), "nothing is due")
	s.Advance(t, retention+time.Hour)
	require.Equal(t, store.Swept{Tombstones: 7}, s.sweep(t))
	require.Zero(t, s.sweep(t))
	s.Advance(t, tombstone)
	require.Equal(t, store.Swept{Dropped: 7}, s.sweep(t))
}

// CONTRACT T-3
func sweepFreedKeys(t *testing.T, s *fixture) {
	released, settled := s.command(store.Park), s.command(store.Park)
	require.NoError(t, s.Store.End(s.ctx, s.win(t, released).Ticket, asFree))
	won := s.win(t, settled)
	s.Advance(t, 2*deadline)
	_, err := s.Store.Settle(s.ctx, store.Settlement{ID: settled.ID, Fence: won.Fence, Who: "op", Why: "no charge"})
	require.NoError(t, err)
	s.Advance(t, forever)
	s.sweep(t)
	for _, c := range []store.Claim{released, settled} {
		s.requireGone(t, c.ID) // the rows of freed keys do not stay for ever
		s.requireFree(t, c.ID)
	}
}

// CONTRACT T-3
func sweepManyAtOnce(t *testing.T, s *fixture) {
	const records = 24
	claims := make([]store.Claim, 0, records)
	for range records {
		c, _ := s.done(t, "paid")
		claims = append(claims, c)
	}
	sweepAll := func() (tombstones, dropped int) {
		var done, gone atomic.Int64
		atOnce(8, func(i int) {
			for range 3 {
				swept, err := s.instances[i%len(s.instances)].Sweep(s.ctx, 2, store.Window{})
				assert.NoError(t, err)
				done.Add(int64(swept.Tombstones))
				gone.Add(int64(swept.Dropped))
			}
		})
		rest := s.sweep(t) // what the others had locked when a sweep came by
		return int(done.Load()) + rest.Tombstones, int(gone.Load()) + rest.Dropped
	}
	s.Advance(t, retention+time.Hour)
	tombstones, dropped := sweepAll()
	require.Equal(t, records, tombstones, "every record is turned into a tombstone once")
	require.Zero(t, dropped)
	for _, c := range claims {
		require.Equal(t, store.Expired, s.find(t, c.ID).Stored)
	}
	s.Advance(t, tombstone)
	tombstones, dropped = sweepAll()
	require.Zero(t, tombstones)
	require.Equal(t, records, dropped, "every tombstone is dropped once")
}
