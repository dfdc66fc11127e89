package storetest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/store"
)

var stepChecks = []check{
	{"Step/Attempts", attempts},
	{"Step/StartAndFinish", stepStartAndFinish},
	{"Step/FirstStartStands", stepFirstStartStands},
	{"Step/Times", stepTimes},
	{"Step/FirstResultStands", stepFirstResultStands},
	{"Step/OfAnotherFence", stepOfAnotherFence},
	{"Step/DerivedKeys", stepDerivedKeys},
	{"Step/Stale", stepStale},
	{"Step/Late", stepLate},
	{"Step/InOrder", stepsInOrder},
	{"Step/OfAnotherLife", stepsOfAnotherLife},
	{"Step/FreedMeanwhile", stepsFreedMeanwhile},
	{"Step/Swept", stepsSwept},
	{"Step/Dropped", stepsDropped},
	{"Step/ListedAgain", stepListedAgain},
	{"Step/Cancelled", stepCancelled},
	{"Step/None", stepNone},
}

func call(name string) store.StepRecord {
	return store.StepRecord{Name: name, Kind: store.ProviderStep}
}

// seal makes a segment durable and must succeed.
func (s *fixture) seal(t *testing.T, won resumed, seal store.Seal) {
	t.Helper()
	now, err := won.segments.Seal(s.ctx, seal)
	require.NoError(t, err)
	require.True(t, seal.Answer != nil || !now.Before(won.Now), "Seal returns the store's clock, if the attempt continues")
}

// start seals the start of a provider step. It returns the step as it is recorded.
func (s *fixture) start(t *testing.T, won resumed, step store.StepRecord) store.StepRecord {
	t.Helper()
	s.seal(t, won, store.Seal{Start: &step})
	return s.step(t, won.ID, step.Name)
}

// requireNotStarted checks that a step which has finished is not started again.
func (s *fixture) requireNotStarted(t *testing.T, won resumed, step store.StepRecord) {
	t.Helper()
	_, err := won.segments.Seal(s.ctx, store.Seal{Start: &step})
	require.ErrorIs(t, err, store.ErrStale)
}

// finish seals the result of a provider step.
func (s *fixture) finish(t *testing.T, won resumed, step store.StepRecord, result string) {
	t.Helper()
	step.Result = []byte(result)
	s.seal(t, won, store.Seal{Steps: []store.StepRecord{step}})
}

// step returns a recorded step.
func (s *fixture) step(t *testing.T, id store.ID, name string) store.StepRecord {
	t.Helper()
	for _, step := range s.steps(t, id) {
		if step.Name == name {
			return step
		}
	}
	require.Fail(t, "there is no step "+name)
	return store.StepRecord{}
}

// steps returns the steps of a record, the same on every instance.
func (s *fixture) steps(t *testing.T, id store.ID) []store.StepRecord {
	t.Helper()
	var found []store.StepRecord
	for i, store := range s.attempts {
		steps, err := store.Steps(s.ctx, id)
		require.NoError(t, err)
		for _, step := range steps {
			require.False(t, step.StartedAt.IsZero(), "StartedAt")
			require.False(t, step.Now.Before(step.StartedAt), "Now is the store's clock")
			requireFinish(t, step)
		}
		if i > 0 {
			require.Equal(t, plainSteps(found), plainSteps(steps))
		}
		found = steps
	}
	return found
}

// requireFinish checks when a step has finished.
func requireFinish(t *testing.T, step store.StepRecord) {
	t.Helper()
	if !step.Finished {
		require.True(t, step.FinishedAt.IsZero(), "FinishedAt of an unfinished step")
		return
	}
	require.False(t, step.FinishedAt.Before(step.StartedAt), "FinishedAt is not before StartedAt")
	require.False(t, step.Now.Before(step.FinishedAt), "FinishedAt is by the store's clock")
}

// plainSteps returns the steps without the moment at which they were read.
func plainSteps(steps []store.StepRecord) []string {
	plain := make([]string, 0, len(steps))
	for _, s := range steps {
		var line strings.Builder
		fmt.Fprintf(&line, "%s kind %d, fence %d, finished %t: %s", s.Name, s.Kind, s.Fence, s.Finished, s.Result)
		for _, key := range s.Derived {
			line.WriteString(" " + key.String())
		}
		plain = append(plain, line.String())
	}
	return plain
}

// CONTRACT X-3
func stepStartAndFinish(t *testing.T, s *fixture) {
	results := map[string]string{
		"an object": `{"id":"ch_1","amount":9007199254740993}`,
		"null":      `null`,
		"not ASCII": "\"\u00fc\u2028 \\u0000\"",
		"the most":  `"` + strings.Repeat("x", store.MaxStepResult-2) + `"`,
	}
	for name, result := range results {
		t.Run(name, func(t *testing.T) {
			won := s.resume(t, s.command(store.Resume))
			require.Empty(t, s.steps(t, won.ID), "a new record has none")
			started := s.start(t, won, call("charge"))
			require.Equal(t, won.Fence, started.Fence)
			require.False(t, started.Finished)
			require.Equal(t, []string{fmt.Sprintf("charge kind 2, fence %d, finished false: ", won.Fence)},
				plainSteps(s.steps(t, won.ID)))

			s.finish(t, won, started, result)
			steps := s.steps(t, won.ID)
			require.Len(t, steps, 1)
			require.True(t, steps[0].Finished)
			require.Equal(t, result, string(steps[0].Result), "bytes, not their meaning")
			require.Equal(t, store.Running, s.find(t, won.ID).State(), "a step is not the end of the operation")
		})
	}
}

// The provider's promise begins with the first call: whose start and fence that was must not be lost, and the
// store's clock says how long ago it was.
//
// CONTRACT X-3, T-1
func stepFirstStartStands(t *testing.T, s *fixture) {
	c, first := s.resumed(t)
	s.start(t, first, call("charge"))
	again := s.start(t, first, call("charge")) // an owner whose first try was answered by an error
	require.Equal(t, first.Fence, again.Fence)
	require.Len(t, s.steps(t, c.ID), 1)

	var passed time.Duration
	for range 2 {
		s.Advance(t, 2*lease)
		passed += 2 * lease
		next := s.resume(t, repeat(c))
		found := s.steps(t, c.ID)[0]
		for _, started := range []store.StepRecord{found, s.start(t, next, found)} {
			require.Equal(t, first.Fence, started.Fence)
			require.False(t, started.Finished)
			require.WithinDuration(t, started.StartedAt.Add(passed), started.Now, lease)
		}
	}
}

// When a step started and when it finished is kept, and a second finish changes neither.
//
// CONTRACT T-1
func stepTimes(t *testing.T, s *fixture) {
	won := s.resume(t, s.command(store.Resume))
	s.start(t, won, call("charge"))
	s.Advance(t, time.Minute)
	s.finish(t, won, call("charge"), `"first"`)
	s.Advance(t, time.Hour)
	s.finish(t, won, call("charge"), `"second"`)
	step := s.step(t, won.ID, "charge")
	require.WithinDuration(t, step.StartedAt.Add(time.Minute), step.FinishedAt, 30*time.Second)
	require.WithinDuration(t, step.FinishedAt.Add(time.Hour), step.Now, 30*time.Second)
}

// CONTRACT
func stepFirstResultStands(t *testing.T, s *fixture) {
	c, first := s.resumed(t)
	s.start(t, first, call("charge"))
	s.finish(t, first, call("charge"), `"first"`)
	s.finish(t, first, call("charge"), `"second"`)
	want := plainSteps(s.steps(t, c.ID))
	require.Contains(t, want[0], `"first"`)

	s.Advance(t, 2*lease)
	next := s.resume(t, repeat(c))
	require.Equal(t, want, plainSteps(s.steps(t, c.ID)), "kept by the takeover")
	started := s.step(t, next.ID, "charge")
	s.requireNotStarted(t, next, started)
	require.True(t, started.Finished)
	require.Equal(t, `"first"`, string(started.Result))
	s.finish(t, next, started, `"third"`)
	require.Equal(t, want, plainSteps(s.steps(t, c.ID)))
}

// An attempt that has not seen what another one has done would do it again: it asked a server that is behind, for instance.
// Nothing of its segment is written.
//
// CONTRACT X-15
func stepOfAnotherFence(t *testing.T, s *fixture) {
	c, first := s.resumed(t)
	s.start(t, first, call("started"))
	s.start(t, first, call("finished"))
	s.finish(t, first, call("finished"), `"first"`)
	nothing := func(context.Context) error { return nil }
	written := rows("reserve")
	require.NoError(t, first.segments.Step(s.ctx, nothing))
	s.seal(t, first, store.Seal{Steps: []store.StepRecord{written}})
	want := plainSteps(s.steps(t, c.ID))

	s.Advance(t, 2*lease)
	next := s.resume(t, repeat(c))
	started, finished := call("started"), call("finished")
	finished.Result = []byte(`"again"`)
	answer := kept(answerOf("done"))
	for name, seal := range map[string]store.Seal{
		"the start of a call":        {Start: &started},
		"behind a step of its own":   {Steps: []store.StepRecord{rows("new")}, Start: &started},
		"the result of a call":       {Steps: []store.StepRecord{finished}},
		"the result alone":           {Steps: []store.StepRecord{finished}, Alone: true},
		"rows":                       {Steps: []store.StepRecord{written}},
		"rows in front of an answer": {Steps: []store.StepRecord{written}, Answer: &answer},
	} {
		require.NoError(t, next.segments.Step(s.ctx, nothing))
		_, err := next.segments.Seal(s.ctx, seal)
		require.ErrorIs(t, err, store.ErrStale, name)
		require.Equal(t, want, plainSteps(s.steps(t, c.ID)), name)
	}
	require.Equal(t, store.Running, s.find(t, c.ID).State())
}

// The keys that a step derived are kept with its result: a later attempt does not derive them again (C-3, Q-2).
//
// CONTRACT Q-2, C-3
func stepDerivedKeys(t *testing.T, s *fixture) {
	c, first := s.resumed(t)
	for n, name := range []string{"none", "one", "some"} {
		s.start(t, first, call(name))
		step := call(name)
		step.Result = []byte(`{}`)
		for i := range n {
			step.Derived = append(step.Derived, store.DerivedKey{0: byte(i), 31: byte(n)})
		}
		s.seal(t, first, store.Seal{Steps: []store.StepRecord{step}})
		step.Derived = []store.DerivedKey{{}}
		s.seal(t, first, store.Seal{Steps: []store.StepRecord{step}}) // what was recorded first stands
	}
	s.Advance(t, 2*lease)
	next := s.resume(t, repeat(c))
	require.Empty(t, s.step(t, next.ID, "none").Derived)
	require.Equal(t, []store.DerivedKey{{31: 1}}, s.step(t, next.ID, "one").Derived)
	for _, step := range s.steps(t, c.ID) {
		if step.Name == "some" {
			require.Equal(t, []store.DerivedKey{{31: 2}, {0: 1, 31: 2}}, step.Derived)
		}
	}
}

// CONTRACT X-2
func stepStale(t *testing.T, s *fixture) {
	c, first := s.resumed(t)
	s.start(t, first, call("charge"))
	s.Advance(t, 2*lease)
	second := s.resume(t, repeat(c))
	s.requireStaleSteps(t, first)
	s.start(t, second, call("book"))

	ends := map[string]func(store.Ticket) error{
		"completed": func(t store.Ticket) error {
			return s.Store.End(s.ctx, t, answered(kept(answerOf("done"))))
		},
		"parked":   func(t store.Ticket) error { return s.Store.End(s.ctx, t, asUnknown) },
		"released": func(t store.Ticket) error { return s.Store.End(s.ctx, t, asFree) },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			won := s.resume(t, s.command(store.Resume))
			s.start(t, won, call("charge"))
			require.NoError(t, end(won.Ticket))
			s.requireStaleSteps(t, won)
		})
	}
}

// requireStaleSteps tries to open a segment, and to seal steps, as an attempt that is not current.
func (s *fixture) requireStaleSteps(t *testing.T, stale resumed) {
	t.Helper()
	want, ways := plainSteps(s.steps(t, stale.ID)), []bool{false, true}
	if now := s.find(t, stale.ID); now.Ticket == stale.Ticket && now.State() == store.Unknown {
		ways = ways[:1] // unknown may become known, and a result that is alone too
	} else {
		err := stale.segments.Step(s.ctx, func(context.Context) error {
			assert.Fail(t, "a stale attempt works")
			return nil
		})
		require.ErrorIs(t, err, store.ErrStale, "Step")
	}
	for _, step := range []store.StepRecord{call("charge"), call("book")} {
		_, err := stale.segments.Seal(s.ctx, store.Seal{Start: &step})
		require.ErrorIs(t, err, store.ErrStale, "a start")
		step.Result = []byte(`"stale"`)
		for _, alone := range ways {
			_, err = stale.segments.Seal(s.ctx, store.Seal{Steps: []store.StepRecord{step}, Alone: alone})
			require.ErrorIs(t, err, store.ErrStale, "a result")
		}
	}
	require.Equal(t, want, plainSteps(s.steps(t, stale.ID)))
}

// CONTRACT X-2
func stepLate(t *testing.T, s *fixture) {
	for _, late := range []time.Duration{2 * lease, 2 * deadline, forever} {
		won := s.resume(t, s.command(store.Resume))
		s.start(t, won, call("charge"))
		s.Advance(t, late)
		s.finish(t, won, call("charge"), `"late"`)
		s.start(t, won, call("book"))
		require.Len(t, s.steps(t, won.ID), 2)
	}
}

// Steps are found by their names, and are listed in the order of their start. A database step that was left behind is
// listed too.
func stepsInOrder(t *testing.T, s *fixture) {
	won, other := s.resume(t, s.command(store.Resume)), s.resume(t, s.command(store.Resume))
	left := store.StepRecord{Name: "left behind", Kind: store.DatabaseStep}
	for _, step := range []store.StepRecord{call("reserve"), left, call("charge"), call("book")} {
		s.start(t, won, step)
		s.start(t, other, call("other "+step.Name))
		s.Advance(t, time.Second)
	}
	s.finish(t, won, call("charge"), `1`)
	var names []string
	for _, step := range s.steps(t, won.ID) {
		names = append(names, step.Name)
		require.Equal(t, step.Name == "left behind", step.Kind == store.DatabaseStep)
		require.Equal(t, step.Name == "charge", step.Finished)
	}
	require.Equal(t, []string{"reserve", "left behind", "charge", "book"}, names)
}

// What an earlier operation did with the key means nothing for the next one.
//
// CONTRACT
func stepsOfAnotherLife(t *testing.T, s *fixture) {
	frees := map[string]func(t *testing.T, r store.Record){
		"released": func(t *testing.T, r store.Record) {
			require.NoError(t, s.Store.End(s.ctx, r.Ticket, asFree))
		},
		"settled": func(t *testing.T, r store.Record) {
			require.NoError(t, s.Store.End(s.ctx, r.Ticket, asUnknown))
			s.Advance(t, 2*deadline)
			_, err := s.Store.Settle(s.ctx, notApplied(s.find(t, r.ID)))
			require.NoError(t, err)
		},
		"past its tombstone": func(t *testing.T, r store.Record) {
			s.complete(t, r, "done")
			s.Advance(t, 2*(retention+tombstone))
		},
	}
	for name, free := range frees {
		t.Run(name, func(t *testing.T) {
			c, first := s.resumed(t)
			s.start(t, first, call("charge"))
			s.finish(t, first, call("charge"), `"first"`)
			free(t, first.Record)
			second := s.resume(t, repeat(c))
			require.Empty(t, s.steps(t, c.ID))
			require.Equal(t, second.Fence, s.start(t, second, call("another")).Fence)
		})
	}
	t.Run("released without a fence", func(t *testing.T) { // not free: the next repeat goes on
		c, first := s.resumed(t)
		s.start(t, first, call("charge"))
		s.finish(t, first, call("charge"), `"first"`)
		s.Advance(t, 2*lease)
		second := s.resume(t, repeat(c))
		require.NoError(t, s.Store.Release(s.ctx, []store.Ticket{{ID: c.ID, Owner: second.Owner}}))
		s.win(t, repeat(c))
		require.Len(t, s.steps(t, c.ID), 1)
	})
}

// A repeat finds that it can go on where the last attempt stopped. Before it goes on, the last attempt wakes up and
// frees the key.
//
// CONTRACT
func stepsFreedMeanwhile(t *testing.T, s *fixture) {
	claims := make([]store.Claim, 40)
	owners := make([]resumed, len(claims))
	for i := range claims {
		claims[i] = s.command(store.Resume)
		owners[i] = s.resume(t, claims[i])
		s.start(t, owners[i], call("charge"))
	}
	s.Advance(t, 2*lease)
	for i, c := range claims {
		var released error
		var got store.Claimed
		atOnce(2, func(n int) {
			var err error
			if n == 0 {
				released = s.Store.End(s.ctx, owners[i].Ticket, asFree)
			} else if _, got, err = s.claim(s.instances[len(s.instances)-1], repeat(c)); err != nil {
				assert.ErrorIs(t, err, store.ErrRetryable)
			}
		})
		switch {
		case released == nil && got.Won:
			require.Empty(t, s.steps(t, c.ID), "the key was free: this is another operation")
		case got.Won:
			require.ErrorIs(t, released, store.ErrStale)
			require.Len(t, s.steps(t, c.ID), 1, "the operation goes on")
		}
	}
}

// A result may hold the same data as an answer, and is kept no longer.
//
// CONTRACT T-3
func stepsSwept(t *testing.T, s *fixture) {
	done, running := s.resume(t, s.command(store.Resume)), s.resume(t, s.command(store.Resume))
	for _, won := range []resumed{done, running} {
		s.start(t, won, call("charge"))
		s.finish(t, won, call("charge"), `"secret"`)
	}
	s.complete(t, done.Record, "done")
	s.sweep(t)
	require.Len(t, s.steps(t, done.ID), 1, "kept for as long as the answer")
	s.Advance(t, retention+deadline)
	require.Equal(t, store.Swept{Tombstones: 1}, s.sweep(t))
	require.Empty(t, s.steps(t, done.ID))
	require.Len(t, s.steps(t, running.ID), 1, "a sweep never touches a running record")
	s.Advance(t, forever)
	require.Equal(t, store.Swept{Dropped: 1}, s.sweep(t))
	require.Len(t, s.steps(t, running.ID), 1, "nor one that it lists as open")
}

// The record of a freed key is dropped, and its steps with it: the next operation with the key begins without any.
//
// CONTRACT T-3, R-6
func stepsDropped(t *testing.T, s *fixture) {
	c, first := s.resumed(t)
	s.start(t, first, call("charge"))
	s.finish(t, first, call("charge"), `"first"`)
	require.NoError(t, s.Store.End(s.ctx, first.Ticket, asFree))
	s.Advance(t, forever)
	require.Equal(t, store.Swept{Dropped: 1}, s.sweep(t))
	s.requireGone(t, c.ID)
	require.Empty(t, s.steps(t, c.ID))
	s.win(t, repeat(c))
	require.Empty(t, s.steps(t, c.ID))
}

// An operation that was taken over is listed again once its new attempt is lost, however long ago it was claimed first.
//
// CONTRACT X-10, T-4
func stepListedAgain(t *testing.T, s *fixture) {
	c := s.command(store.Resume)
	s.win(t, c)
	for range 3 {
		s.Advance(t, 2*deadline)
		s.pause(t)
		s.win(t, repeat(c))
		s.pause(t)
		s.Advance(t, 2*deadline)
		require.Equal(t, []store.ID{c.ID}, s.selected(t, store.Query{Resumable: true, Limit: 10}))
		require.Equal(t, []store.ID{c.ID}, s.selected(t, store.Query{HalfDone: true, Limit: 10}))
	}
}

func stepCancelled(t *testing.T, s *fixture) {
	won := s.resume(t, s.command(store.Resume))
	s.start(t, won, call("charge"))
	want := plainSteps(s.steps(t, won.ID))
	over := s.over()
	book, c := call("book"), s.command(store.Resume)
	for _, store := range s.attempts {
		_, err := store.Steps(over, won.ID)
		noSentinel(t, err)
		_, _, err = store.Begin(over, c)
		noSentinel(t, err)
		_, err = store.InFlight(over, won.ID)
		noSentinel(t, err)
	}
	_, err := won.segments.Seal(over, store.Seal{Start: &book})
	noSentinel(t, err)
	_, err = won.segments.Seal(over, store.Seal{Steps: []store.StepRecord{call("charge")}})
	noSentinel(t, err)
	s.requireGone(t, c.ID)
	require.Equal(t, want, plainSteps(s.steps(t, won.ID)))
}

func stepNone(t *testing.T, s *fixture) {
	require.Empty(t, s.steps(t, s.command(store.Resume).ID), "a record that is not there has no steps")
}

// attempts: are counted from the first one of the key's life, whatever the fence says. A claim that was taken back does
// not count.
//
// CONTRACT X-10
func attempts(t *testing.T, s *fixture) {
	c := s.command(store.Resume)
	for want := 1; want <= 3; want++ {
		won := s.win(t, repeat(c))
		require.Equal(t, want, won.Attempts)
		require.Equal(t, want, s.find(t, c.ID).Attempts)
		s.Advance(t, 2*lease)
	}
	back := repeat(c)
	require.Equal(t, 4, s.win(t, back).Attempts)
	require.NoError(t, s.Store.Release(s.ctx, []store.Ticket{{ID: c.ID, Owner: back.Owner}}))
	last := s.win(t, repeat(c))
	require.Equal(t, 4, last.Attempts)
	require.NoError(t, s.Store.End(s.ctx, last.Ticket, asFree))
	next := s.win(t, repeat(c))
	require.Equal(t, 1, next.Attempts, "the key was free: this is another operation")
	require.Equal(t, 1, s.find(t, c.ID).Attempts)
	require.Greater(t, next.Fence, last.Fence)
}
