package generator

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/core/wire"
)

// run is all that happens to one key.
type run struct {
	key      string
	program  *program
	timed    bool         // the key is a timed one
	days     bool         // so much time has passed that the record may be gone
	unlocked bool         // see Options
	late     atomic.Bool  // a fault has struck: what was sent may still be on its way
	gate     sync.RWMutex // held for reading by a handler: an operator does not say "not applied" while it runs
	sent     atomic.Int64 // requests

	mu         sync.Mutex
	executions map[int]*execution // the last one, by attempt
	nth        int
	commits    bool            // see execution
	acted      map[string]bool // actions that an execution has begun
	stops      map[int]*stop   // by attempt
	only       int             // the attempt that alone may run, until onlyUntil
	onlyUntil  time.Time
	calls      map[string]*provided
	unsure     map[string]bool // calls without Dedup that have begun, and not finished as far as a handler knows
	parked     string          // why the operation should not be unknown for good
	told       []answer
	violations []string
	log        []string
}

// provided is what the provider knows of a call.
type provided struct {
	keys  map[core.DerivedKey]bool // that have moved money
	made  int
	given []string // its results; a process may have died behind one
	heard bool     // a handler has got one
	saved string   // the result that must stay
}

// answer is what a client was told.
type answer struct {
	in           *instance // that has said it
	attempt      int
	status       int
	result, code string
	body         string
	mark         string // what the client had heard before: "reused" of another command
}

func (a answer) String() string {
	body, _, _ := strings.Cut(a.body, "\n")
	return fmt.Sprintf("%d: %d %s %s %.80q", a.attempt, a.status, a.result, a.code, body)
}

// recorded reports whether the client was told that this is the answer for good.
func (a answer) recorded() bool {
	return a.result == wire.ResultCreated || a.result == wire.ResultReused
}

func newRun(number uint64, p *program, timed bool) *run {
	k := &run{key: fmt.Sprintf("key-%d", number), program: p, timed: timed, executions: map[int]*execution{},
		calls: map[string]*provided{}, unsure: map[string]bool{}, acted: map[string]bool{}, stops: map[int]*stop{}}
	if timed { // a UUIDv7
		ms := time.Now().UnixMilli()
		k.key = fmt.Sprintf("%08x-%04x-7000-8000-%012x", ms>>16, ms&0xffff, number)
	}
	return k
}

// next is the number of the next request. Its handler stands still at s.
func (k *run) next(s *stop) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	attempt := int(k.sent.Add(1))
	k.stops[attempt] = s
	return attempt
}

// alone says which attempt alone may run until then; 0: any.
func (k *run) alone(attempt int, until time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.only, k.onlyUntil = attempt, until
}

// path is that of the run's route.
func (k *run) path() string {
	path := "/" + k.program.recovery.String()
	if k.timed {
		path += "/timed"
	}
	return path
}

// wrong notes a violation; k.mu is held.
func (k *run) wrong(format string, args ...any) {
	k.violations = append(k.violations, fmt.Sprintf(format, args...))
}

// note is for the page that tells a violation.
func (k *run) note(format string, args ...any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.log = append(k.log, fmt.Sprintf(format, args...))
}

func (k *run) begin(in *instance, attempt int) (*execution, *stop) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.nth++
	e := &execution{run: k, in: in, attempt: attempt, nth: k.nth, sure: len(k.unsure) == 0, commits: k.commits,
		results: map[string]string{}, running: true, called: maps.Clone(k.acted)}
	beside := k.unlocked && k.program.recovery != core.Park // the record judges which of them it was
	if !beside {
		k.overtaken()
	}
	k.executions[attempt] = e
	k.log = append(k.log, fmt.Sprintf("attempt %d runs, the %d. of the key", attempt, k.nth))
	if k.only != 0 && time.Now().Before(k.onlyUntil) {
		k.wrong("attempt %d runs beside %d, which is alive", attempt, k.only)
	}
	return e, k.stops[attempt]
}

// overtaken makes the attempts that are running stale; k.mu is held.
func (k *run) overtaken() {
	for _, e := range k.executions {
		e.stale = e.stale || e.running
	}
}

func (k *run) end(e *execution) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e.running = false
}

// stop is where a handler stands still: before an action, or before its answer.
type stop struct {
	before   int
	here, on chan struct{}
}

// pass stands still until the handler may go on.
func (s *stop) pass(action int) {
	if s != nil && s.before == action {
		close(s.here)
		<-s.on
	}
}

// heard notes an answer, and what must hold from then on.
func (k *run) heard(a answer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.log = append(k.log, a.String())
	k.told = append(k.told, a)
	e := k.executions[a.attempt]
	if a.code == string(core.CodeOutcomeUnknown) && k.program.recovery == core.Resume && e != nil && e.sure &&
		len(k.unsure) == 0 && k.sent.Load() < store.DefaultMaxAttempts {
		k.parked = fmt.Sprintf("%v, and every call without Dedup had finished (X-14)", a)
	}
	// The attempt has come to its end in its own process, and the store has answered: the results of its calls are kept.
	if e == nil || k.program.recovery != core.Resume || a.result != wire.ResultUnknown ||
		a.code != "" && core.Code(a.code) != core.CodeCallUnfinished {
		return
	}
	for name, result := range e.results {
		k.calls[name].saved = result
	}
}

// outlives reports whether an answer was recorded that no time makes new again: other keys are free behind their tombstone.
func (k *run) outlives() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.ContainsFunc(k.told, func(a answer) bool {
		return a.recorded() && (k.timed || a.status < http.StatusBadRequest)
	})
}

// check compares what clients were told with the rows that are there: attempts by step.
func (k *run) check(rows map[string][]int) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	by := map[int]int{} // rows by attempt
	for _, e := range k.executions {
		for _, step := range e.late {
			if slices.Contains(rows[step], e.attempt) {
				k.wrong("%s was begun by attempt %d when it was stale, and its row is there", step, e.attempt)
			}
		}
	}
	for step, attempts := range rows {
		if len(attempts) > 1 {
			k.wrong("%s stands %d times in the table, by attempts %v", step, len(attempts), attempts)
		}
		for _, attempt := range attempts {
			by[attempt]++
		}
	}
	var first *answer
	for i, a := range k.told {
		e := k.executions[a.attempt]
		switch {
		case a.mark == otherCommand:
			if a.recorded() || first != nil && a.code != string(core.CodeKeyReused) && a.status != http.StatusServiceUnavailable &&
				(a.code != string(core.CodeInFlight) || !k.runsIn(a.in, k.told[:i])) {
				k.wrong("another command was told %v", a)
			}
		case a.recorded():
			if first == nil {
				first = &k.told[i]
				k.checkRecorded(a, rows)
			}
			if a.status != first.status || a.body != first.body {
				k.wrong("two answers: %v and %v", *first, a)
			}
		case e != nil && k.saysNothing(a, e) && by[a.attempt] > 0:
			k.wrong("nothing was applied, says %v, and %d rows are there", a, by[a.attempt])
		}
	}
	if first == nil && k.parked != "" {
		k.wrong("%s", k.parked)
	}
	return k.violations
}

// runsIn reports whether an attempt of an instance has run that its client had not heard of: the COMMIT may have taken
// effect, which another instance sees, and the instance itself still waits for its answer. k.mu is held.
func (k *run) runsIn(in *instance, told []answer) bool {
	for attempt, e := range k.executions {
		if e.in == in && !slices.ContainsFunc(told, func(a answer) bool { return a.attempt == attempt }) {
			return true
		}
	}
	return false
}

// saysNothing reports whether an answer of an attempt that has run says that nothing of it was applied.
func (k *run) saysNothing(a answer, e *execution) bool {
	switch core.Code(a.code) {
	case core.CodeRolledBack, core.CodeTransactionAborted, core.CodeTransactionUnused, core.CodeStoreUnavailable:
		return true
	case core.CodeInFlight, core.CodeKeyReused: // it has lost against another attempt
		return k.program.recovery == core.Rollback || !e.commits
	case "":
		return a.result != wire.ResultUnknown
	}
	return false
}

// checkRecorded checks the rows of the recorded answer; k.mu is held.
func (k *run) checkRecorded(a answer, rows map[string][]int) {
	if a.body == settledBody {
		return
	}
	var author int
	var key string
	if _, err := fmt.Sscanf(a.body, "%s by %d", &key, &author); err != nil || key != k.key || k.executions[author] == nil {
		k.wrong("%v is no answer of this key", a)
		return
	}
	e := k.executions[author]
	if e.stale && (a.status < 400 || !k.program.breaks()) {
		k.wrong("%v is recorded, of an attempt that was stale before its handler had ended", a)
	}
	total := 0
	for _, attempts := range rows {
		total += len(attempts)
	}
	kept := a.status < 400 || e.keeps || len(e.results) > 0 // behind a call a refusal keeps its rows
	if !kept && !e.commits && total > 0 {
		k.wrong("%v is recorded, and %d rows that were undone are there", a, total)
	}
	for _, step := range e.rows {
		if kept && len(rows[step]) == 0 {
			k.wrong("%v is recorded, and %s is missing", a, step)
		}
	}
}
