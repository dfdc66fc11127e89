package storetest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/store"
)

var segmentChecks = []check{
	{"Segment/Unseen", segmentUnseen},
	{"Segment/Rollback", segmentRollback},
	{"Segment/Over", segmentOver},
	{"Segment/Together", segmentTogether},
	{"Segment/Alone", segmentAlone},
	{"Segment/AnswerStands", segmentAnswerStands},
	{"Segment/Parked", segmentParked},
	{"Segment/Undone", segmentUndone},
	{"Segment/Opening", segmentOpening},
	{"Segment/TakenOver", segmentTakenOver},
	{"Segment/Held", segmentHeld},
	{"Segment/Stale", segmentStale},
	{"Segment/Times", segmentTimes},
	{"Segment/Clock", segmentClock},
	{"Segment/ClaimContext", segmentClaimContext},
	{"Segment/SealContext", segmentSealContext},
	{"Segment/KeepsItsOwnCopy", segmentKeepsItsOwnCopy},
	{"Segment/HotKey", segmentHotKey},
	{"Segment/QuestionsClaimNothing", segmentQuestions},
	{"Segment/OneOfManyRuns", segmentOneOfManyRuns},
}

// open wins a Resume attempt of which nothing is sealed, if it is the first one.
func (s *fixture) open(t *testing.T, c store.Claim) resumed {
	t.Helper()
	segments, got, err := s.attempts[0].Begin(s.ctx, c)
	if segments != nil {
		t.Cleanup(func() { _ = segments.Rollback() })
	}
	require.NoError(t, err)
	require.True(t, got.Won, "the claim must win; it found %s", brief(got))
	require.NotNil(t, segments)
	require.Equal(t, store.Ticket{ID: c.ID, Owner: c.Owner, Fence: got.Record.Fence}, got.Record.Ticket)
	return resumed{got.Record, segments}
}

// opened is a new command that has been opened.
func (s *fixture) opened(t *testing.T) (store.Claim, resumed) {
	t.Helper()
	c := s.command(store.Resume)
	return c, s.open(t, c)
}

// work writes a row in the open segment, if the store has transactions.
func (s *fixture) work(ctx context.Context) error {
	if s.Effect == nil {
		return nil
	}
	return s.Effect(ctx)
}

// write runs a database step.
func (s *fixture) write(t *testing.T, won resumed) {
	t.Helper()
	require.NoError(t, won.segments.Step(s.ctx, s.work))
}

// requireEffects checks how many rows are committed, if the store has transactions.
func (s *fixture) requireEffects(t *testing.T, want int) {
	t.Helper()
	if s.Effects != nil {
		require.Equal(t, want, s.Effects(t))
	}
}

// rows is a database step that has finished.
func rows(name string) store.StepRecord {
	return store.StepRecord{Name: name, Kind: store.DatabaseStep, Result: []byte(`{}`)}
}

func result(name, json string) store.StepRecord {
	step := call(name)
	step.Result = []byte(json)
	return step
}

// requireInFlight checks that all others are told that an attempt is at it, by a claim and by a question, if they can see
// it.
func (s *fixture) requireInFlight(t *testing.T, c store.Claim) {
	t.Helper()
	if s.unlocked {
		return
	}
	for _, again := range []store.Claim{repeat(c), otherCommand(c)} {
		for _, st := range s.attempts {
			segments, got, err := st.Begin(s.ctx, again)
			require.NoError(t, err)
			require.Nil(t, segments)
			require.Equal(t, store.Claimed{Busy: true}, got)
			again.Recovery = store.Park
			got, err = st.Claim(s.ctx, again)
			require.NoError(t, err)
			require.Equal(t, store.Claimed{Busy: true}, got)
			again.Recovery = store.Resume
			running, err := st.InFlight(s.ctx, c.ID)
			require.NoError(t, err)
			require.True(t, running, "InFlight")
		}
	}
}

// A first attempt leaves nothing to be seen before its first seal. Others are told that it is at work.
//
// CONTRACT, M-2, M-6, M-8
func segmentUnseen(t *testing.T, s *fixture) {
	freed := s.command(store.Park)
	require.NoError(t, s.Store.End(s.ctx, s.win(t, freed).Ticket, asFree))
	freed.Recovery = store.Resume
	for _, c := range []store.Claim{s.command(store.Resume), repeat(freed)} {
		won := s.open(t, c)
		requireNew(t, c, won.Record)
		s.requireInFlight(t, c)
		s.write(t, won)
		s.requireInFlight(t, c)
		s.requireGoneOrFree(t, c.ID)
		require.Empty(t, s.steps(t, c.ID))
		s.requireEffects(t, 0)
		running, err := s.attempts[0].InFlight(s.ctx, s.command(store.Resume).ID)
		require.NoError(t, err)
		require.False(t, running, "another key")
		require.NoError(t, won.segments.Rollback())
	}
}

// CONTRACT
func segmentRollback(t *testing.T, s *fixture) {
	freed := s.command(store.Park)
	require.NoError(t, s.Store.End(s.ctx, s.win(t, freed).Ticket, asFree))
	freed.Recovery = store.Resume
	for _, c := range []store.Claim{s.command(store.Resume), repeat(freed)} {
		won := s.open(t, c)
		s.write(t, won)
		require.NoError(t, won.segments.Rollback())
		require.NoError(t, won.segments.Rollback(), "again")
		for _, store := range s.attempts {
			running, err := store.InFlight(s.ctx, c.ID)
			require.NoError(t, err)
			require.False(t, running)
		}
		require.ErrorIs(t, won.segments.Step(s.ctx, s.work), store.ErrStale)
		for _, seal := range []store.Seal{{}, {Steps: []store.StepRecord{rows("reserve")}}, {Alone: true}} {
			_, err := won.segments.Seal(s.ctx, seal)
			require.ErrorIs(t, err, store.ErrStale)
		}
		s.requireEffects(t, 0)
		s.requireFree(t, c.ID)
	}
}

// An attempt that is over takes nothing from the next one of its key, whatever it is asked to do again.
//
// CONTRACT
func segmentOver(t *testing.T, s *fixture) {
	c, over := s.opened(t)
	s.write(t, over)
	require.NoError(t, over.segments.Rollback())
	next := s.open(t, repeat(c))
	require.NoError(t, over.segments.Rollback(), "again")
	_, err := over.segments.Seal(s.ctx, store.Seal{Steps: []store.StepRecord{rows("reserve")}})
	require.ErrorIs(t, err, store.ErrStale)
	s.requireInFlight(t, c)
	s.write(t, next)
	require.NoError(t, over.segments.Rollback(), "and again")
	s.requireInFlight(t, c)
	answer := kept(answerOf("paid"))
	s.seal(t, next, store.Seal{Answer: &answer})
	s.requireEffects(t, 1)
	s.requireState(t, store.Completed, c)
}

// A seal makes the rows, the steps, the start of the next call and the record durable together. Nothing stays of a segment
// that is rolled back.
//
// CONTRACT, T-4
func segmentTogether(t *testing.T, s *fixture) {
	c, won := s.opened(t)
	s.write(t, won)
	s.write(t, won)
	require.Empty(t, s.steps(t, c.ID))
	charge := call("charge")
	s.seal(t, won, store.Seal{Steps: []store.StepRecord{rows("reserve"), rows("order")}, Start: &charge})
	requireNew(t, c, s.find(t, c.ID))
	s.requireEffects(t, 2)
	want := []string{"charge false", "order true", "reserve true"}
	require.ElementsMatch(t, want, namesOf(s.steps(t, c.ID)))
	require.Equal(t, store.Running, s.lose(t, repeat(c)).State())

	s.write(t, won)
	s.requireEffects(t, 2)
	require.NoError(t, won.segments.Rollback())
	s.requireEffects(t, 2)
	require.ElementsMatch(t, want, namesOf(s.steps(t, c.ID)))
	require.Equal(t, store.Running, s.lose(t, repeat(c)).State(), "what is sealed holds the key")

	s.write(t, won)
	answer := kept(answerOf("paid"))
	s.seal(t, won, store.Seal{Steps: []store.StepRecord{result("charge", `"ch_1"`), rows("book")}, Answer: &answer})
	s.requireEffects(t, 3)
	s.requireState(t, store.Completed, c)
	requireKept(t, s.find(t, c.ID))
	require.Equal(t, `"ch_1"`, string(s.step(t, c.ID, "charge").Result))
	require.ElementsMatch(t, []string{"charge true", "order true", "reserve true", "book true"}, namesOf(s.steps(t, c.ID)))

	once := s.command(store.Resume) // without a call: one commit
	won = s.open(t, once)
	s.write(t, won)
	s.seal(t, won, store.Seal{Steps: []store.StepRecord{rows("book")}, Answer: &answer})
	s.requireEffects(t, 4)
	s.requireState(t, store.Completed, once)
	requireKept(t, s.find(t, once.ID))
	require.Equal(t, []string{"book true"}, namesOf(s.steps(t, once.ID)))
}

// requireKept checks that a record has the answer "paid", for the suite's retention and tombstone.
func requireKept(t *testing.T, r store.Record) {
	t.Helper()
	requireAnswer(t, answerOf("paid"), r.Answer)
	require.WithinDuration(t, r.Now.Add(retention), r.ExpiresAt, lease)
	require.Equal(t, tombstone, r.PurgeAt.Sub(r.ExpiresAt).Round(time.Second))
}

// namesOf returns the names of steps, and whether they have finished.
func namesOf(steps []store.StepRecord) (names []string) {
	for _, step := range steps {
		if step.Finished {
			names = append(names, step.Name+" true")
		} else {
			names = append(names, step.Name+" false")
		}
	}
	return names
}

// An operation that was parked while its call was out is known when the answer comes, with the result of the call. Until then
// nothing else of it is sealed.
//
// CONTRACT
func segmentParked(t *testing.T, s *fixture) {
	c, won := s.opened(t)
	charge := call("charge")
	s.seal(t, won, store.Seal{Start: &charge})
	require.NoError(t, s.Store.End(s.ctx, won.Ticket, asUnknown))
	next := call("ship")
	_, err := won.segments.Seal(s.ctx, store.Seal{Start: &next})
	require.ErrorIs(t, err, store.ErrStale)
	s.requireState(t, store.Unknown, c)
	s.seal(t, won, store.Seal{Steps: []store.StepRecord{result("charge", `"ch_1"`)}, Alone: true})
	s.requireState(t, store.Unknown, c)
	require.Equal(t, []string{"charge true"}, namesOf(s.steps(t, c.ID)), "whoever settles it has to know")
	answer := kept(answerOf("paid"))
	s.seal(t, won, store.Seal{Steps: []store.StepRecord{result("charge", `"ch_1"`)}, Answer: &answer})
	s.requireState(t, store.Completed, c)
	require.Equal(t, []string{"charge true"}, namesOf(s.steps(t, c.ID)))
}

// What is sealed alone stays, and the rows of its segment go: the result of a call whose segment has failed, and a refusal.
//
// CONTRACT
func segmentAlone(t *testing.T, s *fixture) {
	c, won := s.opened(t)
	charge := call("charge")
	s.seal(t, won, store.Seal{Start: &charge})
	s.write(t, won)
	failed := errors.New("the step has failed")
	err := won.segments.Step(s.ctx, func(ctx context.Context) error { return errors.Join(s.work(ctx), failed) })
	require.ErrorIs(t, err, failed)
	s.seal(t, won, store.Seal{Steps: []store.StepRecord{result("charge", `"ch_1"`)}, Alone: true})
	s.requireEffects(t, 0)
	require.Equal(t, `"ch_1"`, string(s.step(t, c.ID, "charge").Result))
	require.Equal(t, store.Running, s.find(t, c.ID).State())

	s.write(t, won) // the attempt continues
	answer := kept(store.Answer{Status: http.StatusPaymentRequired, Body: []byte("declined")})
	s.seal(t, won, store.Seal{Steps: []store.StepRecord{rows("book")}, Answer: &answer})
	s.requireEffects(t, 1)

	refused := s.command(store.Resume)
	won = s.open(t, refused)
	s.write(t, won)
	s.seal(t, won, store.Seal{Answer: &answer, Alone: true})
	s.requireEffects(t, 1)
	s.requireState(t, store.Completed, refused)
	requireAnswer(t, answer.Answer, s.find(t, refused.ID).Answer)
	require.Empty(t, s.steps(t, refused.ID))
}

// An owner that got no reply seals its answer again.
//
// CONTRACT R-2, M-3
func segmentAnswerStands(t *testing.T, s *fixture) {
	for _, called := range []bool{false, true} {
		c, won := s.opened(t)
		if called {
			charge := call("charge")
			s.seal(t, won, store.Seal{Start: &charge})
		}
		first, second := kept(answerOf("first")), kept(answerOf("second"))
		s.seal(t, won, store.Seal{Answer: &first})
		want := s.find(t, c.ID)
		s.seal(t, won, store.Seal{Answer: &first})
		s.seal(t, won, store.Seal{Answer: &second})
		requireSame(t, want, s.find(t, c.ID))
		requireAnswer(t, answerOf("first"), want.Answer)
	}
}

// Steps whose rows were undone, by the deadline for instance, are not recorded.
//
// CONTRACT
func segmentUndone(t *testing.T, s *fixture) {
	won := s.resume(t, s.command(store.Resume))
	s.write(t, won)
	require.NoError(t, won.segments.Rollback())
	answer := kept(answerOf("paid"))
	for _, seal := range []store.Seal{
		{Steps: []store.StepRecord{rows("book")}}, {Steps: []store.StepRecord{result("charge", `1`), rows("book")}, Answer: &answer},
	} {
		_, err := won.segments.Seal(s.ctx, seal)
		require.True(t, errors.Is(err, store.ErrRetryable) || errors.Is(err, store.ErrAborted), "it is certain: %v", err)
		require.Empty(t, s.steps(t, won.ID))
		require.Equal(t, store.Running, s.find(t, won.ID).State())
	}
	s.requireEffects(t, 0)
	s.seal(t, won, store.Seal{Steps: []store.StepRecord{result("charge", `1`)}, Alone: true})
}

// The module stops its renewals before a segment opens behind the first seal.
//
// CONTRACT
func segmentOpening(t *testing.T, s *fixture) {
	c, won := s.opened(t)
	opened := 0
	var refusal error
	won.segments.Bind(s.ctx, func() error {
		opened++
		return refusal
	})
	s.write(t, won)
	s.seal(t, won, store.Seal{Steps: []store.StepRecord{rows("reserve")}})
	require.Zero(t, opened, "the first segment is open from the claim")
	s.seal(t, won, store.Seal{})
	require.Zero(t, opened, "Seal opens one without it")
	for want := 1; want <= 2; want++ {
		s.write(t, won)
		s.write(t, won)
		require.Equal(t, want, opened, "once for each segment")
		s.seal(t, won, store.Seal{})
	}
	refusal = errors.New("no segment")
	err := won.segments.Step(s.ctx, func(context.Context) error {
		assert.Fail(t, "no segment was opened")
		return nil
	})
	require.ErrorIs(t, err, refusal)
	s.requireEffects(t, 5)

	s.Advance(t, 2*lease)
	taken := s.open(t, repeat(c))
	taken.segments.Bind(s.ctx, func() error {
		opened++
		return nil
	})
	s.write(t, taken)
	require.Equal(t, 4, opened, "a takeover has no open segment")
}

// A takeover is committed before the handler runs: an attempt that dies at once counts, and nobody else takes over.
//
// CONTRACT
func segmentTakenOver(t *testing.T, s *fixture) {
	c, first := s.resumed(t)
	charge := call("charge")
	s.seal(t, first, store.Seal{Start: &charge})
	for attempt := 2; attempt <= 3; attempt++ {
		s.Advance(t, 2*lease)
		taken := s.open(t, repeat(c))
		now := s.find(t, c.ID)
		requireSame(t, taken.Record, now)
		require.Equal(t, attempt, now.Attempts)
		require.Equal(t, first.Fence+int64(attempt)-1, now.Fence)
		require.False(t, now.LeaseExpired(), "it has a lease of its own")
		require.Equal(t, now.Ticket, s.lose(t, repeat(c)).Ticket)
		require.Len(t, s.steps(t, c.ID), 1)
		require.NoError(t, taken.segments.Rollback())
		require.Equal(t, now.Ticket, s.lose(t, repeat(c)).Ticket, "a rollback does not take it back")
	}
}

// While a segment is open nobody takes the operation over, although its lease has run out; or, on another node, who does
// undoes it.
//
// CONTRACT M-6, X-15
func segmentHeld(t *testing.T, s *fixture) {
	c, won := s.resumed(t)
	s.Advance(t, 2*lease)
	s.write(t, won)
	seen := s.attempts
	if s.nodes {
		seen = seen[:1]
	}
	for _, store := range seen {
		ctx, cancel := context.WithTimeout(s.ctx, time.Second) // a store with one writer may let it wait
		_, got, err := store.Begin(ctx, repeat(c))
		cancel()
		require.False(t, got.Won, "the key is held: %v", err)
	}
	if s.nodes {
		taken, got, err := s.attempts[1].Begin(s.ctx, repeat(c))
		require.NoError(t, err)
		require.True(t, got.Won)
		_, err = won.segments.Seal(s.ctx, store.Seal{Steps: []store.StepRecord{rows("book")}})
		require.Error(t, err)
		s.requireEffects(t, 0)
		require.Equal(t, got.Record.Ticket, s.find(t, c.ID).Ticket)
		require.NoError(t, taken.Rollback())
		return
	}
	s.seal(t, won, store.Seal{Steps: []store.StepRecord{rows("book")}})
	now := s.find(t, c.ID)
	require.Equal(t, won.Ticket, now.Ticket)
	require.Equal(t, store.Running, s.lose(t, repeat(c)).State())
	require.False(t, now.LeaseExpired(), "the lease begins anew")
	s.requireEffects(t, 1)

	s.Advance(t, 2*lease)
	s.write(t, won)
	require.NoError(t, won.segments.Rollback())
	require.Equal(t, won.Fence+1, s.open(t, repeat(c)).Fence, "held no longer")
	s.requireEffects(t, 1)
}

// Nothing of a stale attempt's seal stays, and its answer is refused.
//
// CONTRACT
func segmentStale(t *testing.T, s *fixture) {
	answer := kept(answerOf("stale"))
	requireStale := func(won resumed) {
		t.Helper()
		want := s.find(t, won.ID)
		s.requireStaleSteps(t, won)
		for _, alone := range []bool{false, true} {
			seal := store.Seal{Steps: []store.StepRecord{result("charge", `1`)}, Answer: &answer, Alone: alone}
			_, err := won.segments.Seal(s.ctx, seal)
			require.ErrorIs(t, err, store.ErrStale)
			_, err = won.segments.Seal(s.ctx, store.Seal{Answer: &answer, Alone: alone})
			require.ErrorIs(t, err, store.ErrStale)
		}
		requireSame(t, want, s.find(t, won.ID))
	}
	c, taken := s.resumed(t)
	s.Advance(t, 2*lease)
	s.win(t, repeat(c))
	requireStale(taken)

	for _, decide := range []func(store.Record) store.Settlement{notApplied, func(r store.Record) store.Settlement {
		return applied(r, "settled")
	}} {
		settled := s.resume(t, s.command(store.Resume))
		require.NoError(t, s.Store.End(s.ctx, settled.Ticket, asUnknown))
		s.Advance(t, 2*deadline)
		_, err := s.Store.Settle(s.ctx, decide(settled.Record))
		require.NoError(t, err)
		requireStale(settled)
	}
}

// A seal works however late it is. A first attempt's times are those of the statement that writes its record.
//
// CONTRACT, T-1
func segmentTimes(t *testing.T, s *fixture) {
	before := s.now(t)
	s.Advance(t, 2*deadline)
	moves := s.now(t).Sub(before) >= 2*deadline // the clock of a database does not, and there is nothing that is older then
	for _, answered := range []bool{false, true} {
		c, won := s.opened(t)
		if moves {
			s.Advance(t, 2*deadline)
		}
		var seal store.Seal
		if answered {
			answer := kept(answerOf("paid"))
			seal.Answer = &answer
		}
		s.seal(t, won, seal)
		now := s.find(t, c.ID)
		require.WithinDuration(t, now.Now, now.CreatedAt, lease/2)
		if answered {
			require.WithinDuration(t, now.Now.Add(retention), now.ExpiresAt, lease/2)
			continue
		}
		require.WithinDuration(t, now.Now.Add(deadline), now.Deadline, lease/2)
		require.WithinDuration(t, now.Now.Add(lease), now.LeaseUntil, lease/2)
		s.Advance(t, lease/2)
		s.seal(t, won, store.Seal{})
		now = s.find(t, c.ID)
		require.WithinDuration(t, now.Now.Add(lease), now.LeaseUntil, lease/4, "the lease begins anew")
		require.WithinDuration(t, now.CreatedAt.Add(lease/2), now.Now, lease/4)
		s.Advance(t, deadline-lease)
		s.seal(t, won, store.Seal{})
		now = s.find(t, c.ID)
		require.False(t, now.LeaseUntil.After(now.Deadline), "a lease ends with the deadline")
	}
}

// The store's clock is outside of the window of a seal: nothing is written by it.
//
// CONTRACT T-5, X-15
func segmentClock(t *testing.T, s *fixture) {
	for name, window := range map[string]store.Window{
		"behind": {From: s.now(t).Add(time.Hour)}, "ahead": {To: s.now(t).Add(-time.Hour)},
	} {
		for _, first := range []bool{true, false} {
			c, won := s.opened(t)
			if !first {
				s.seal(t, won, store.Seal{})
			}
			charge := call("charge")
			require.NoError(t, won.segments.Step(s.ctx, func(context.Context) error { return nil }))
			_, err := won.segments.Seal(s.ctx, store.Seal{Steps: []store.StepRecord{rows("reserve")}, Start: &charge, Window: window})
			require.ErrorIs(t, err, store.ErrClock, name)
			require.Empty(t, s.steps(t, c.ID))
			if first {
				s.requireGoneOrFree(t, c.ID)
				s.requireFree(t, c.ID)
			}
		}
	}
}

// The context of Begin bounds the claim alone.
//
// CONTRACT
func segmentClaimContext(t *testing.T, s *fixture) {
	c := s.command(store.Resume)
	for attempt := 1; attempt <= 2; attempt++ {
		ctx, cancel := context.WithCancel(s.ctx)
		segments, got, err := s.attempts[0].Begin(ctx, repeat(c))
		require.NoError(t, err)
		t.Cleanup(func() { _ = segments.Rollback() })
		cancel()
		won := resumed{got.Record, segments}
		s.write(t, won)
		s.seal(t, won, store.Seal{Steps: []store.StepRecord{rows(fmt.Sprint("reserve ", attempt))}})
		s.write(t, won)
		s.seal(t, won, store.Seal{Steps: []store.StepRecord{rows(fmt.Sprint("order ", attempt))}})
		s.requireEffects(t, 2*attempt)
		s.Advance(t, 2*lease)
	}
}

// A first seal whose context has ended may commit nevertheless. It does so as a whole, or not at all.
//
// CONTRACT
func segmentSealContext(t *testing.T, s *fixture) {
	c, won := s.opened(t)
	s.write(t, won)
	answer := kept(answerOf("paid"))
	_, err := won.segments.Seal(s.over(), store.Seal{Steps: []store.StepRecord{rows("book")}, Answer: &answer})
	rec, missing := s.Store.Find(s.ctx, c.ID, store.Viewer{All: true})
	if missing == nil {
		require.Equal(t, store.Completed, rec.Stored, "Seal said: %v", err)
		require.Len(t, s.steps(t, c.ID), 1)
		s.requireEffects(t, 1)
	}
}

// What was sealed is written to again by its owner.
//
// CONTRACT M-3, X-3, Q-2
func segmentKeepsItsOwnCopy(t *testing.T, s *fixture) {
	c, won := s.opened(t)
	step, answer := result("charge", `"ch_1"`), kept(answerOf("paid"))
	step.Derived = []store.DerivedKey{{31: 1}}
	s.seal(t, won, store.Seal{Steps: []store.StepRecord{step}, Answer: &answer})
	copy(step.Result, `"xxxx"`)
	step.Derived[0] = store.DerivedKey{}
	copy(answer.Answer.Body, "xxxx")
	step = s.step(t, c.ID, "charge")
	require.Equal(t, `"ch_1"`, string(step.Result))
	require.Equal(t, []store.DerivedKey{{31: 1}}, step.Derived)
	requireAnswer(t, answerOf("paid"), s.find(t, c.ID).Answer)
}

// Replays and questions never make each other wait or busy, and never the owner, whose segments come and go.
//
// CONTRACT X-15, M-2, M-3
func segmentHotKey(t *testing.T, s *fixture) {
	c, won := s.resumed(t)
	ask := func(i int, want store.State) {
		st := s.attempts[i%len(s.attempts)]
		_, got, err := st.Begin(s.ctx, repeat(c))
		assert.NoError(t, err)
		assert.False(t, got.Won || got.Busy, "there is a record: %s", brief(got))
		assert.Equal(t, want, got.Record.Stored)
		_, err = st.InFlight(s.ctx, c.ID)
		assert.NoError(t, err)
		_, err = st.Find(s.ctx, c.ID, store.Viewer{All: true})
		assert.NoError(t, err)
	}
	atOnce(burst/4, func(i int) {
		for range 3 {
			if i > 0 {
				ask(i, store.Running)
				continue
			}
			assert.NoError(t, won.segments.Step(s.ctx, s.work))
			_, err := won.segments.Seal(s.ctx, store.Seal{})
			assert.NoError(t, err)
		}
	})
	s.requireEffects(t, 3)
	answer := kept(answerOf("paid"))
	s.seal(t, won, store.Seal{Answer: &answer})
	atOnce(burst, func(i int) { ask(i, store.Completed) })
}

// A question never makes a claim busy.
//
// CONTRACT M-8, X-15
func segmentQuestions(t *testing.T, s *fixture) {
	for range 10 {
		c := s.command(store.Resume)
		var won resumed
		atOnce(8, func(i int) {
			if i > 0 {
				_, err := s.attempts[i%len(s.attempts)].InFlight(s.ctx, c.ID)
				assert.NoError(t, err)
				return
			}
			segments, got, err := s.attempts[0].Begin(s.ctx, c)
			assert.NoError(t, err)
			assert.True(t, got.Won, "nobody else wants the key: %s", brief(got))
			won = resumed{got.Record, segments}
		})
		require.NotNil(t, won.segments)
		require.NoError(t, won.segments.Rollback())
	}
}

// CONTRACT M-6
func segmentOneOfManyRuns(t *testing.T, s *fixture) {
	for round := range 5 {
		c := s.command(store.Resume)
		var committed atomic.Int64
		atOnce(burst*len(s.attempts), func(i int) {
			for s.ctx.Err() == nil {
				err := s.attemptSegments(s.attempts[i%len(s.attempts)], repeat(c))
				switch {
				case errors.Is(err, store.ErrRetryable): // rolled back by a conflict: the client repeats
					continue
				case err == nil:
					committed.Add(1)
				default:
					assert.ErrorIs(t, err, store.ErrStale)
				}
				return
			}
		})
		require.EqualValues(t, 1, committed.Load(), "executions")
		s.requireEffects(t, round+1)
		requireAnswer(t, answerOf("paid"), s.find(t, c.ID).Answer)
	}
}

// attemptSegments makes a whole attempt of one segment. The error is ErrStale if another attempt has the key or its record.
func (s *fixture) attemptSegments(st store.Attempts, c store.Claim) error {
	segments, got, err := st.Begin(s.ctx, c)
	if err != nil {
		return err
	}
	if !got.Won {
		return store.ErrStale
	}
	if err := segments.Step(s.ctx, s.work); err != nil {
		return errors.Join(err, segments.Rollback())
	}
	answer := kept(answerOf("paid"))
	_, err = segments.Seal(s.ctx, store.Seal{Steps: []store.StepRecord{rows("book")}, Answer: &answer})
	return err
}
