package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/store"
)

// SeedEnv names the environment variable that gives [Stress] the seed of an earlier run.
const SeedEnv = "STORETEST_SEED"

// The size of a stress test: its rounds, the workers and keys of a round, what each worker does, and for how long.
const (
	stressFor     = 2 * time.Second
	stressWorkers = 8
	stressKeys    = 3
	stressSteps   = 40
)

// Stress lets many goroutines call all methods of a store at once, with few keys, for about two seconds. Then the history
// of each key is checked: no fence was won twice; no key was won while it had an answer, or an attempt that was neither
// freed nor taken over; no answer changed; no step lost its result or came back from an earlier operation.
//
// A seed decides what each goroutine does. It is logged, and [SeedEnv] sets it. It does not decide the timing.
//
// CONTRACT M-3, M-6, X-2, X-3, X-7, T-4
func Stress(t *testing.T, newStore func(t *testing.T) Subject, f Features) {
	t.Helper()
	s := newFixture(t, newStore, f)
	seed := stressSeed(t)
	t.Logf("repeat with %s=%d", SeedEnv, seed)
	for start, round := time.Now(), uint64(0); time.Since(start) < stressFor && !t.Failed(); round++ {
		s.stressRound(t, rand.NewPCG(seed, round))
	}
}

func stressSeed(t *testing.T) uint64 {
	t.Helper()
	given := os.Getenv(SeedEnv)
	if given == "" {
		return rand.Uint64()
	}
	seed, err := strconv.ParseUint(given, 10, 64)
	require.NoError(t, err, "%s wants a number", SeedEnv)
	return seed
}

// stressRound uses keys of its own. Its time is shorter than any retention, so an answered key stays answered.
func (s *fixture) stressRound(t *testing.T, seeds rand.Source) {
	t.Helper()
	h := newHistory()
	claims := make([]store.Claim, stressKeys)
	for i := range claims {
		claims[i] = s.command(store.Park)
	}
	var clock sync.RWMutex
	workers := make([]*worker, stressWorkers)
	for i := range workers {
		workers[i] = &worker{
			fixture: s, history: h, claims: claims, clock: &clock, i: i % len(s.instances),
			rnd: rand.New(rand.NewPCG(seeds.Uint64(), seeds.Uint64())),
		}
	}
	atOnce(len(workers), func(i int) {
		for range stressSteps {
			workers[i].step(t)
		}
	})
	for _, c := range claims {
		row, err := s.Store.Find(s.ctx, c.ID, store.Viewer{All: true})
		if !errors.Is(err, store.ErrNotFound) {
			require.NoError(t, err)
			h.saw(row)
		}
	}
	h.check(t)
	if s.rows {
		require.EqualValues(t, s.effects.Load(), s.Effects(t), "the rows are there if and only if the answer is")
	}
}

// worker is one goroutine of a stress test.
type worker struct {
	*fixture
	history *history
	claims  []store.Claim
	clock   *sync.RWMutex // nothing is under way while the clock moves: see Subject.Advance
	i       int           // the instance it works on
	rnd     *rand.Rand
	held    []attempt // what it has won
	jumps   int
}

// attempt is a claim that was won.
type attempt struct {
	resumed
	answered bool
}

func (w *worker) store() store.Operations { return w.instances[w.i] }

func (w *worker) step(t *testing.T) {
	n := w.rnd.IntN(100)
	if n < 6 && w.jumps < 3 {
		w.jumps++
		d := []time.Duration{lease / 2, 2 * lease, 2 * deadline}[w.rnd.IntN(3)]
		w.clock.Lock()
		defer w.clock.Unlock()
		w.Advance(t, d)
		return
	}
	w.clock.RLock()
	defer w.clock.RUnlock()
	switch {
	case n < 35:
		w.claim(t)
	case n < 40:
		w.with(t, func(a *attempt) error { return w.store().Renew(w.ctx, a.Ticket, lease) })
	case n < 46:
		w.with(t, w.takeStep)
	case n < 50:
		w.with(t, w.writeRows)
	case n < 55:
		w.with(t, w.complete)
	case n < 62:
		w.with(t, func(a *attempt) error { return w.store().End(w.ctx, a.Ticket, asUnknown) })
	case n < 70:
		w.with(t, w.release)
	case n < 80:
		w.settle(t)
	case n < 84:
		w.list(t)
	case n < 88:
		_, err := w.store().Sweep(w.ctx, 10, store.Window{})
		succeeded(t, err)
	case w.rows:
		w.transact(t)
	default:
		w.claim(t)
	}
}

// succeeded reports whether a call took effect. If not, its error must be one of those that are allowed, or say that
// the transaction was rolled back.
func succeeded(t *testing.T, err error, allowed ...error) bool {
	isErr := func(target error) bool { return errors.Is(err, target) }
	if err != nil && !slices.ContainsFunc(append(allowed, store.ErrRetryable), isErr) {
		assert.NoError(t, err)
	}
	return err == nil
}

// next is the claim of one of the keys, by one of two commands.
func (w *worker) next(recoveries ...store.Recovery) store.Claim {
	c := repeat(w.claims[w.rnd.IntN(len(w.claims))])
	if w.rnd.IntN(8) == 0 {
		c = otherCommand(c)
	}
	c.Recovery = recoveries[w.rnd.IntN(len(recoveries))]
	return c
}

func (w *worker) claim(t *testing.T) {
	c := w.next(store.Park, store.Resume)
	begun := w.history.tick()
	segments, got, err := w.fixture.claim(w.store(), c)
	switch {
	case !succeeded(t, err, store.ErrStale): // it has run beside the moment in which another attempt committed (M-6)
	case got.Won:
		w.history.won(begun, got.Record)
		w.held = append(w.held, attempt{resumed: resumed{got.Record, segments}})
	case !got.Busy:
		w.history.saw(got.Record)
	}
}

// with does something as the owner of an attempt, current or not.
func (w *worker) with(t *testing.T, do func(*attempt) error) {
	if len(w.held) > 0 {
		succeeded(t, do(&w.held[w.rnd.IntN(len(w.held))]), store.ErrStale)
	}
}

func (w *worker) complete(a *attempt) error {
	text := fmt.Sprintf("%x", a.Owner)
	if a.answered {
		text += " changed"
	}
	err := w.store().End(w.ctx, a.Ticket, answered(kept(answerOf(text))))
	if err == nil && !a.answered {
		a.answered = true
		w.history.answered(a.Ticket, text)
	}
	return err
}

// takeStep seals the one step that all attempts have: its start, and mostly its result. Then it reads what is recorded.
func (w *worker) takeStep(a *attempt) error {
	if a.segments == nil {
		return nil
	}
	step, err := w.asRead(a.ID, call("charge"))
	if err != nil {
		return err
	}
	_, err = a.segments.Seal(w.ctx, store.Seal{Start: &step})
	if errors.Is(err, store.ErrStale) {
		err = nil // it has finished; or the attempt is stale, which the next seal says
	}
	if err == nil && w.rnd.IntN(4) > 0 {
		step.Result = fmt.Appendf(nil, "%q", fmt.Sprintf("%x", a.Owner))
		_, err = a.segments.Seal(w.ctx, store.Seal{Steps: []store.StepRecord{step}})
	}
	if err != nil {
		return err
	}
	return w.readSteps(a.ID)
}

// writeRows runs a segment with a row, and seals it or not.
func (w *worker) writeRows(a *attempt) error {
	if a.segments == nil {
		return nil
	}
	if err := a.segments.Step(w.ctx, w.work); err != nil || w.rnd.IntN(3) == 0 {
		return a.segments.Rollback()
	}
	book, err := w.asRead(a.ID, rows("book"))
	if err != nil {
		return err
	}
	seal := store.Seal{Steps: []store.StepRecord{book}}
	if w.rnd.IntN(4) == 0 {
		seal = store.Seal{Alone: true}
	}
	_, err = a.segments.Seal(w.ctx, seal)
	if err == nil && !seal.Alone {
		w.effects.Add(1)
	}
	return err
}

// asRead returns a step with the fence that its record has, as an attempt that has read it seals it.
func (w *worker) asRead(id store.ID, step store.StepRecord) (store.StepRecord, error) {
	recorded, err := w.attempts[w.i].Steps(w.ctx, id)
	for _, r := range recorded {
		if r.Name == step.Name {
			step.Fence = r.Fence
		}
	}
	return step, err
}

// readSteps notes the steps of a record, if it was the same before and after they were read.
func (w *worker) readSteps(id store.ID) error {
	before, err := w.store().Find(w.ctx, id, store.Viewer{All: true})
	if err != nil {
		return unlessNotFound(err)
	}
	steps, err := w.attempts[w.i].Steps(w.ctx, id)
	if err != nil {
		return err
	}
	after, err := w.store().Find(w.ctx, id, store.Viewer{All: true})
	if err == nil && before.Ticket == after.Ticket && before.Stored == store.Running && after.Stored == store.Running {
		for _, step := range steps {
			if step.Kind == store.ProviderStep {
				w.history.read(after.Ticket, step)
			}
		}
	}
	return unlessNotFound(err)
}

func unlessNotFound(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

func (w *worker) release(a *attempt) error {
	err := w.store().End(w.ctx, a.Ticket, asFree)
	if err == nil {
		w.history.freed(a.Ticket)
	}
	return err
}

func (w *worker) settle(t *testing.T) {
	row, err := w.store().Find(w.ctx, w.next(store.Park).ID, store.Viewer{All: true})
	if !succeeded(t, err, store.ErrNotFound) {
		return
	}
	w.history.saw(row)
	decision := notApplied(row)
	if w.rnd.IntN(4) == 0 {
		decision = applied(row, fmt.Sprintf("settled %d", w.rnd.Uint64()))
	}
	settled, err := w.store().Settle(w.ctx, decision)
	switch {
	case !succeeded(t, err, store.ErrStale, store.ErrNotSettleable, store.ErrNotFound):
	case decision.Answer == nil:
		w.history.freed(row.Ticket)
	default:
		w.history.answered(settled.Ticket, string(decision.Answer.Answer.Body))
	}
}

func (w *worker) list(t *testing.T) {
	listed, err := w.store().List(w.ctx, store.Query{Unknown: true, Limit: 10})
	succeeded(t, err)
	for _, r := range listed {
		assert.Equal(t, store.Unknown, r.State())
	}
}

// transact runs a whole Rollback attempt.
func (w *worker) transact(t *testing.T) {
	c := w.next(store.Rollback)
	begun := w.history.tick()
	tx, got, err := w.attempts[w.i].Begin(w.ctx, c)
	if !succeeded(t, err) || got.Busy {
		return
	}
	if !got.Won {
		w.history.saw(got.Record)
		return
	}
	if err := w.Effect(tx.Bind(w.ctx, nil)); err != nil || w.rnd.IntN(2) == 0 {
		succeeded(t, tx.Rollback(), store.ErrStale)
		return
	}
	text, undo := fmt.Sprintf("%x", c.Owner), w.rnd.IntN(3) == 0
	if succeeded(t, conclude(w.ctx, tx, kept(answerOf(text)), undo), store.ErrStale) {
		w.history.won(begun, got.Record)
		w.history.answered(got.Record.Ticket, text)
		if !undo {
			w.effects.Add(1)
		}
	}
}
