package storetest

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
)

var eraseChecks = []check{
	{"Erase/Tombstones", eraseMakesTombstones},
	{"Erase/NoTombstone", eraseWithoutTombstone},
	{"Erase/LeavesOpen", eraseLeavesOpen},
	{"Erase/Steps", eraseSteps},
	{"Erase/TakenOver", eraseBeforeATakeover},
	{"Erase/OfOthers", eraseOfOthers},
	{"Erase/StepsOfOthers", eraseStepsOfOthers},
	{"Erase/InBatches", eraseInBatches},
	{"Erase/ManyAtOnce", eraseManyAtOnce},
	{"Erase/Cancelled", eraseCancelled},
}

// erase erases all that can be erased of the principal of s.command, in batches of limit.
func (s *fixture) erase(t *testing.T, limit int) store.ErasedPage {
	t.Helper()
	total, err := eraseAll(s.ctx, s.Store, s.command(store.Park).Scope, limit)
	require.NoError(t, err)
	return total
}

func eraseAll(ctx context.Context, st store.Operations, scope store.Scope, limit int) (total store.ErasedPage, err error) {
	for after := (store.ID{}); ; {
		page, err := st.Erase(ctx, scope, after, limit)
		total.Records += page.Records
		total.Open = append(total.Open, page.Open...)
		if err != nil || page.Next == (store.ID{}) {
			return total, err
		}
		after = page.Next
	}
}

// Only the status is left of an answer. Everything else stays, and so does the key.
//
// CONTRACT K-6, M-1, M-5
func eraseMakesTombstones(t *testing.T, s *fixture) {
	require.Equal(t, store.ErasedPage{}, s.erase(t, 100), "an empty store")
	c, before := s.done(t, "paid")
	partial, won := s.won(t, store.Park)
	require.NoError(t, s.Store.End(s.ctx, won.Ticket, answered(kept(store.Answer{
		Status: http.StatusCreated, Partial: true, Header: http.Header{"Location": {"/v1/payments/7"}},
	}))))
	s.Advance(t, time.Hour)
	require.Equal(t, 2, s.erase(t, 100).Records)

	after := s.find(t, c.ID)
	require.Equal(t, store.Answer{Status: http.StatusCreated}, after.Answer)
	require.Equal(t, before.PurgeAt.Sub(before.CreatedAt).Round(time.Second), after.PurgeAt.Sub(after.CreatedAt).Round(time.Second))
	require.False(t, after.ExpiresAt.After(after.Now), "its retention is over")
	before.Stored, before.Answer = after.Stored, after.Answer
	before.ExpiresAt = before.CreatedAt.Add(after.ExpiresAt.Sub(after.CreatedAt)) // it may have moved its rows
	requireSame(t, before, after)
	for _, c := range []store.Claim{c, partial} {
		s.requireState(t, store.Expired, c)
		s.requireExpired(t, c)
	}

	// The end of its attempt is repeated, late: the answer does not come back.
	s.complete(t, before, "again")
	require.ErrorIs(t, s.Store.End(s.ctx, before.Ticket, asFree), store.ErrStale)
	require.ErrorIs(t, s.Store.End(s.ctx, before.Ticket, asUnknown), store.ErrStale)
	require.Equal(t, after.Answer, s.find(t, c.ID).Answer)
	require.Equal(t, store.ErasedPage{}, s.erase(t, 100), "nothing is erased twice")

	// The sweep comes by as if nothing had happened.
	s.Advance(t, retention)
	s.sweep(t)
	s.requireExpired(t, c)
	s.Advance(t, tombstone-retention/2)
	s.sweep(t)
	s.requireExpired(t, c)
	s.Advance(t, retention)
	require.Equal(t, 2, s.sweep(t).Dropped)
	s.requireFree(t, c.ID)
}

// An answer that leaves no tombstone keeps its key for as long as it would have.
//
// CONTRACT R-7
func eraseWithoutTombstone(t *testing.T, s *fixture) {
	c, won := s.won(t, store.Park)
	refusal := store.Answer{Status: http.StatusUnprocessableEntity, Body: []byte("no such account")}
	require.NoError(t, s.Store.End(s.ctx, won.Ticket, answered(store.Completion{Answer: refusal, Retention: 6 * time.Hour})))
	require.Equal(t, 1, s.erase(t, 100).Records)
	s.Advance(t, 5*time.Hour)
	r := s.lose(t, repeat(c))
	require.Equal(t, store.Expired, r.State())
	require.Equal(t, store.Answer{Status: http.StatusUnprocessableEntity}, r.Answer)
	s.Advance(t, 2*time.Hour)
	s.requireFree(t, c.ID)
}

// What is running or unknown is named, and goes on as if nothing had happened.
//
// CONTRACT
func eraseLeavesOpen(t *testing.T, s *fixture) {
	lostClaim, lost := s.lost(t, store.Park)
	running := s.win(t, s.command(store.Park))
	parked := s.win(t, s.command(store.Park))
	require.NoError(t, s.Store.End(s.ctx, parked.Ticket, asUnknown))
	released := s.win(t, s.command(store.Park))
	require.NoError(t, s.Store.End(s.ctx, released.Ticket, asFree))
	open := []store.ID{lost.ID, running.ID, parked.ID}
	before := []store.Record{s.find(t, lost.ID), s.find(t, running.ID), s.find(t, parked.ID)}

	for _, limit := range []int{1, 2, 100} {
		erased := s.erase(t, limit)
		require.Zero(t, erased.Records)
		require.ElementsMatch(t, open, erased.Open)
	}
	for _, r := range before {
		requireSame(t, r, s.find(t, r.ID))
	}
	s.complete(t, running, "paid")
	requireAnswer(t, answerOf("paid"), s.find(t, running.ID).Answer)
	_, err := s.Store.Settle(s.ctx, applied(lost, "settled"))
	require.NoError(t, err)
	s.requireState(t, store.Completed, lostClaim)

	erased := s.erase(t, 100)
	require.Equal(t, 2, erased.Records)
	require.Equal(t, []store.ID{parked.ID}, erased.Open)
	s.requireExpired(t, lostClaim)
}

// The steps of what has ended go with the answer, also those of a free record. The steps of what is open stay: without them
// a provider would be called again.
//
// CONTRACT X-3
func eraseSteps(t *testing.T, s *fixture) {
	if s.attempts == nil {
		return
	}
	stepped := func() store.Record {
		won := s.resume(t, s.command(store.Resume))
		s.start(t, won, call("charge"))
		s.finish(t, won, call("charge"), `"receipt of somebody"`)
		return won.Record
	}
	done, undone, open := stepped(), stepped(), stepped()
	s.complete(t, done, "refunded")
	require.NoError(t, s.Store.End(s.ctx, undone.Ticket, asUnknown))
	require.NoError(t, s.Store.End(s.ctx, open.Ticket, asUnknown))
	s.Advance(t, 2*deadline)
	_, err := s.Store.Settle(s.ctx, notApplied(undone))
	require.NoError(t, err)

	erased := s.erase(t, 2)
	require.Equal(t, 2, erased.Records)
	require.Equal(t, []store.ID{open.ID}, erased.Open)
	require.Empty(t, s.steps(t, done.ID))
	require.Empty(t, s.steps(t, undone.ID))
	require.Len(t, s.steps(t, open.ID), 1)
	require.Zero(t, s.erase(t, 2).Records)

	// The free key is taken, and its new steps stay.
	s.requireGoneOrFree(t, undone.ID)
	again := s.command(store.Resume)
	again.ID = undone.ID
	won := s.resume(t, again)
	require.Greater(t, won.Fence, undone.Fence+1, "the fence goes on rising")
	s.start(t, won, call("charge"))
	require.Zero(t, s.erase(t, 2).Records)
	require.Len(t, s.steps(t, undone.ID), 1)
}

// An attempt was lost, and its operation erased as far as it can be: the next attempt goes on with the finished steps.
//
// CONTRACT
func eraseBeforeATakeover(t *testing.T, s *fixture) {
	if s.attempts == nil {
		return
	}
	c, first := s.resumed(t)
	s.start(t, first, call("charge"))
	s.finish(t, first, call("charge"), `"receipt"`)
	s.Advance(t, 2*lease)
	require.Equal(t, []store.ID{c.ID}, s.erase(t, 100).Open)

	second := s.win(t, repeat(c))
	steps := s.steps(t, c.ID)
	require.Len(t, steps, 1)
	require.True(t, steps[0].Finished)
	require.Equal(t, `"receipt"`, string(steps[0].Result))
	require.Equal(t, []store.ID{c.ID}, s.erase(t, 100).Open)
	s.complete(t, second, "refunded")
	require.Equal(t, 1, s.erase(t, 100).Records)
	s.requireStale(t, first.Ticket)
	s.requireExpired(t, c)
}

// CONTRACT S-1
func eraseOfOthers(t *testing.T, s *fixture) {
	other := s.command(store.Park)
	p := core.Principal{Issuer: "https://issuer.example", Tenant: "t-1", Subject: "u-2"}
	other.ID, other.Scope = core.Scoping{}.RecordID(p, s.key(1)), core.Scoping{}.PrincipalScope(p)
	won := s.win(t, other)
	s.complete(t, won, "theirs")
	running := s.command(store.Park)
	running.ID, running.Scope = core.Scoping{}.RecordID(p, s.key(2)), other.Scope
	s.win(t, running)
	s.done(t, "ours")

	require.Equal(t, store.ErasedPage{Records: 1}, s.erase(t, 100))
	requireAnswer(t, answerOf("theirs"), s.find(t, other.ID).Answer)
	s.requireState(t, store.Completed, other)
}

// The steps and references of others stay, also those of a free record.
//
// CONTRACT S-1
func eraseStepsOfOthers(t *testing.T, s *fixture) {
	if s.attempts == nil {
		return
	}
	stepped := func() store.Record {
		c := s.command(store.Resume)
		c.Scope[0]++
		won := s.resume(t, c)
		s.finish(t, won, call("charge"), `"receipt of somebody else"`)
		s.refer(t, won.Record, store.Ref{Name: "order", Value: "7"})
		return won.Record
	}
	done, freed := stepped(), stepped()
	s.complete(t, done, "theirs")
	require.NoError(t, s.Store.End(s.ctx, freed.Ticket, asFree))
	s.done(t, "ours")
	steps, referred := s.steps(t, freed.ID), s.referred(t, "7")

	require.Equal(t, store.ErasedPage{Records: 1}, s.erase(t, 100))
	require.Len(t, s.steps(t, done.ID), 1)
	require.Equal(t, plainSteps(steps), plainSteps(s.steps(t, freed.ID)))
	require.Equal(t, referred, s.referred(t, "7"))
}

// A process that dies between two batches leaves the rest to the next call.
func eraseInBatches(t *testing.T, s *fixture) {
	const records = 25
	for range records {
		s.done(t, "paid")
	}
	st, scope := s.Store, s.command(store.Park).Scope
	first, err := st.Erase(s.ctx, scope, store.ID{}, 10)
	require.NoError(t, err)
	for _, again := range s.instances { // the cursor is not one of the process that died
		if first.Next == (store.ID{}) {
			break
		}
		next, err := again.Erase(s.ctx, scope, first.Next, 5)
		require.NoError(t, err)
		first.Records, first.Next = first.Records+next.Records, next.Next
	}
	require.Equal(t, records, first.Records+s.erase(t, 7).Records)
	require.Zero(t, s.erase(t, 1).Records)
}

// Erasures at the same time, with sweeps, and while attempts end: each record is counted once, and nothing that has ended
// before is left.
//
// CONTRACT M-6
func eraseManyAtOnce(t *testing.T, s *fixture) {
	var claims []store.Claim
	for range burst {
		c, _ := s.done(t, "paid")
		claims = append(claims, c)
	}
	var ending []store.Record
	for range burst {
		ending = append(ending, s.win(t, s.command(store.Park)))
	}
	scope := claims[0].Scope
	var records atomic.Int64
	atOnce(burst, func(i int) {
		st := s.instances[i%len(s.instances)]
		switch i % 8 {
		case 0:
			total, err := eraseAll(s.ctx, st, scope, 1+i)
			assert.NoError(t, err)
			records.Add(int64(total.Records))
		case 1:
			_, err := st.Sweep(s.ctx, 10, store.Window{})
			assert.NoError(t, err)
		}
		assert.NoError(t, st.End(s.ctx, ending[i].Ticket, answered(kept(answerOf("late")))))
		got, err := st.Claim(s.ctx, repeat(claims[i]))
		assert.NoError(t, err)
		assert.False(t, got.Won || got.Busy, "no key becomes free")
	})
	for _, c := range claims {
		s.requireExpired(t, c)
	}
	require.Equal(t, 2*burst, int(records.Load())+s.erase(t, 50).Records)
	for _, r := range ending {
		require.Equal(t, store.Expired, s.find(t, r.ID).State())
	}
}

func eraseCancelled(t *testing.T, s *fixture) {
	c, _ := s.done(t, "paid")
	over := s.over()
	for _, st := range s.instances {
		_, err := st.Erase(over, c.Scope, store.ID{}, 100)
		noSentinel(t, err)
	}
	requireAnswer(t, answerOf("paid"), s.find(t, c.ID).Answer)
}
