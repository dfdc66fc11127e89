package contracttest

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/wire"
)

var repeatChecks = []check{
	{"M-1", "another command with the same key is refused", otherCommandIsRefused, nil},
	{"M-2", "a repeat of a running command is told so", runningCommandIsInFlight, nil},
	{"M-3", "a repeat gets the recorded answer", repeatGetsTheAnswer, nil},
	{"M-6", "many repeats at once run once", manyRepeatsRunOnce, nil},
}

// CONTRACT M-1
func otherCommandIsRefused(p *probe) {
	r := p.valid()
	first := p.apply(r)
	other := p.other(r)
	for range 2 {
		p.reused(other)
		p.reused(r.withBody(append([]byte("x"), r.body...)))
		p.replays(first, r)
	}
	p.apply(other.withKey(newKey())) // nothing was wrong with it but its key
}

// CONTRACT M-2
func runningCommandIsInFlight(p *probe) {
	p.need(p.Slow != nil, "Route.Slow is missing")
	for range 3 { // a busy store may refuse all repeats of one command
		inFlight, refused := p.repeatWhileItRuns()
		if inFlight > 0 {
			return
		}
		require.NotZero(p, refused, "repeats of a slow command that were told that it is running")
	}
	p.Skip("not checked: " + tooBusy)
}

// tooBusy is why a check has shown nothing.
const tooBusy = "the store was too busy, and refused all that came at once with store_unavailable"

// repeatWhileItRuns is an impatient client: it repeats a slow command again and again until it has its answer. It returns
// how many repeats were told that the command is running, and how many that the store is too busy.
func (p *probe) repeatWhileItRuns() (inFlight, refused int) {
	p.Helper()
	r := p.command(p.Slow)
	before := p.effects()
	var all answers
	ctx, done := context.WithTimeout(p.Context(), p.patience)
	defer done()
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for ctx.Err() == nil {
		all.waiting.Go(func() {
			if a := all.add(p.try(r)); a.status != http.StatusConflict && !a.isBusy() {
				done()
			}
		})
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	all.waiting.Wait()
	return p.requireRanOnce(r, before, &all)
}

// CONTRACT M-3, R-3
func repeatGetsTheAnswer(p *probe) {
	r := p.valid()
	first := p.apply(r)
	for range 3 {
		p.replays(first, r)
	}
}

// burst is how many repeats come at once. The rounds are for the narrow window between looking and acting.
const (
	burst      = 32
	manyRounds = 8
)

// CONTRACT M-6, M-2
func manyRepeatsRunOnce(p *probe) {
	for range p.rounds {
		p.repeatAtOnce()
	}
}

// repeatAtOnce sends many repeats of a command at once. A busy store may refuse all of them (F-1): then half as many come, and
// at last one at a time, so that the command is carried out in the end, and the effect of all of them together is one.
func (p *probe) repeatAtOnce() {
	p.Helper()
	r := p.valid()
	before := p.effects()
	var all answers
	until := time.Now().Add(p.patience)
	for n := burst; ; n = max(1, n/2) {
		start := make(chan struct{})
		for range n {
			all.waiting.Go(func() {
				<-start
				all.add(p.try(r))
			})
		}
		close(start)
		all.waiting.Wait()
		if !all.undecided() || time.Now().After(until) {
			break
		}
		time.Sleep(pause)
	}
	p.requireRanOnce(r, before, &all)
}

// answers are those to many requests at once.
type answers struct {
	waiting sync.WaitGroup
	mu      sync.Mutex
	list    []answer
	errs    []error
}

func (all *answers) add(a answer, err error) answer {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.list, all.errs = append(all.list, a), append(all.errs, err)
	return a
}

// allRefused reports whether the store was too busy for all of the requests, so that none was run.
func (all *answers) allRefused() bool {
	return !slices.ContainsFunc(all.list, func(a answer) bool { return !a.isBusy() })
}

// undecided reports whether nobody has an answer to the command, because the store was too busy for somebody. The others may
// have seen a claim that was released.
func (all *answers) undecided() bool {
	return slices.ContainsFunc(all.list, answer.isBusy) &&
		!slices.ContainsFunc(all.list, func(a answer) bool { return a.header.Get(wire.HeaderResult) != "" })
}

// requireRanOnce requires that exactly one answer to r is a first one. Every other must be its replay, or say that the
// command is running or that the store is too busy. It returns how many say the one and the other. If the store was too busy
// for all of them, nothing may have been applied, and the check is skipped: it has shown nothing.
func (p *probe) requireRanOnce(r request, before int, all *answers) (inFlight, refused int) {
	p.Helper()
	require.NoError(p, errors.Join(all.errs...), "no whole answer")
	if all.allRefused() {
		p.requireEffects(before, 0)
		p.Skip("not checked: " + tooBusy)
	}
	first := slices.DeleteFunc(slices.Clone(all.list), func(a answer) bool {
		return a.header.Get(wire.HeaderResult) != wire.ResultCreated
	})
	p.requireEffects(before, 1)
	require.Len(p, first, 1, "first answers to %d requests at once", len(all.list))
	p.requireApplied(first[0])
	for _, a := range all.list {
		switch a.header.Get(wire.HeaderResult) {
		case wire.ResultCreated:
		case wire.ResultReused:
			p.requireReplay(first[0], a)
		default:
			code := core.CodeInFlight
			if a.isBusy() { // with the others (F-1)
				code = core.CodeStoreUnavailable
				refused++
			} else {
				inFlight++
			}
			found := p.requireProblem(a, code)
			seconds, err := strconv.Atoi(found.retryAfter)
			require.NoError(p, err, "Retry-After of %s, in seconds (M-2, F-1)", code)
			require.Positive(p, seconds, "Retry-After of %s (M-2, F-1)", code)
		}
	}
	p.replays(first[0], r)
	return inFlight, refused
}
