package generator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/core/wire"
	"github.com/auth19/idem/internal/pgproxy"
)

const (
	otherCommand = "another command"
	settledBody  = "settled"
)

// play lets everything happen to a key, until all is quiet and it has an answer. It returns what is wrong.
func (w *world) play(k *run, r *rand.Rand) []string {
	w.run.Store(k)
	defer w.run.Store(nil)
	refuses := k.program.recovery != core.Park && slices.Contains([]int{400, 402, 409, 422}, k.program.status)
	switch n := r.IntN(6); {
	case n < 2:
		w.alone(k, r)
	case n == 2:
		w.together(k, r)
	case n < 5 && refuses:
		w.between(k)
	default:
		w.beside(k, r)
	}
	for _, in := range w.instances {
		in.proxy.Set(nil)
		in.proxy.Cut()
	}
	if k.outlives() && r.IntN(2) == 0 {
		w.daysPass(k)
	}
	if k.late.Load() {
		time.Sleep(pgproxy.Delay) // it arrives
	}
	w.end(k)
	return k.check(w.rows(k))
}

// alone is one client on one instance.
func (w *world) alone(k *run, r *rand.Rand) {
	for range 2 + r.IntN(3) {
		if r.IntN(3) > 0 {
			w.strike(k, w.instances[0], r)
		}
		a, ok := w.instances[0].send(k, "", nil)
		w.instances[0].proxy.Set(nil)
		if ok {
			w.react(k, w.instances[0], a, r)
		}
		if r.IntN(2) == 0 {
			w.pass(k, deadline)
		}
	}
}

// daysPass lets the retention of an answer pass. A sweep drops the record between the first statements of a repeat.
func (w *world) daysPass(k *run) {
	w.pass(k, 5*24*time.Hour)
	k.days = true
	proxy := w.instances[1].proxy
	proxy.Set(func(pgproxy.Turn) pgproxy.Fault { return pgproxy.Slow })
	proxy.SetSlow(func(pgproxy.Turn, int) {
		for n := 0; n < 60 && w.hasRecord(k); n++ {
			time.Sleep(10 * time.Millisecond)
		}
	})
	_, _ = w.instances[1].send(k, "", nil)
	proxy.Set(nil)
	proxy.SetSlow(nil)
}

// together is three clients on two instances, which die.
func (w *world) together(k *run, r *rand.Rand) {
	var clients sync.WaitGroup
	var mu sync.Mutex // of instances
	for range 3 {
		r := rand.New(rand.NewPCG(r.Uint64(), 0))
		clients.Go(func() {
			for range 3 {
				time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
				mu.Lock()
				in := w.instances[r.IntN(2)]
				mu.Unlock()
				if a, ok := in.send(k, "", nil); ok {
					w.react(k, in, a, r)
				}
			}
		})
	}
	for range r.IntN(8) {
		time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
		switch i := r.IntN(2); r.IntN(6) {
		case 0:
			mu.Lock()
			w.kill(k, i)
			mu.Unlock()
		case 1, 2:
			w.pass(k, deadline)
		default:
			w.strike(k, w.instances[i], r)
		}
	}
	clients.Wait()
}

// beside lets a slow owner wake beside another attempt: its handler stands still while its time runs out and another
// instance takes over, and goes on when that one is at work, or has answered.
func (w *world) beside(k *run, r *rand.Rand) {
	places, park := len(k.program.actions)+1, k.program.recovery == core.Park
	before := r.IntN(places)
	if park && r.IntN(2) == 0 {
		before = 0 // later than that, the operator sees a charge
	}
	slow := w.start(k, w.instances[0], before)
	defer slow.end()
	switch n := r.IntN(6); {
	case park:
	case n == 0:
		w.kill(k, 0)
	case n < 3: // else a transaction that is open holds the key
		k.note("the connections of instance 0 are cut")
		w.instances[0].proxy.Cut()
	}
	w.pass(k, deadline)
	if park {
		w.settle(k, w.instances[1], true)
	}
	began := time.Now()
	struck := r.IntN(4) == 0
	if struck {
		w.strike(k, w.instances[1], r)
	}
	second := w.start(k, w.instances[1], r.IntN(places))
	defer second.end()
	// Its lease was made after began, and a failed statement has not given the lock back.
	holds := second.stands && !struck && (park || !k.unlocked) && !k.program.breaks()
	if holds {
		k.alone(second.attempt, began.Add(lease*9/10))
	}
	slow.end()
	if holds {
		if a, ok := w.instances[r.IntN(2)].send(k, "", nil); ok && time.Since(began) < lease*9/10 &&
			a.code != string(core.CodeInFlight) && a.code != string(core.CodeStoreUnavailable) {
			k.mu.Lock()
			k.wrong("%v, and attempt %d is at work", a, second.attempt)
			k.mu.Unlock()
		}
	}
	k.alone(0, time.Time{})
}

// between lets another attempt come when the rows of a refusal are undone and it is not recorded yet.
func (w *world) between(k *run) {
	proxy := w.instances[0].proxy
	undone := func(t pgproxy.Turn) int {
		if i := slices.Index(t.SQL, "ROLLBACK"); i < len(t.SQL)-1 {
			return i
		}
		return -1
	}
	proxy.Set(func(t pgproxy.Turn) pgproxy.Fault {
		if undone(t) < 0 {
			return pgproxy.Pass
		}
		return pgproxy.Slow
	})
	proxy.SetSlow(func(t pgproxy.Turn, executed int) {
		for range 5 {
			if executed != undone(t) {
				return
			}
			if a, ok := w.instances[1].send(k, "", nil); ok && a.code != string(core.CodeInFlight) {
				return
			}
			time.Sleep(5 * time.Millisecond) // the server may not have undone them yet
		}
	})
	_, _ = w.instances[0].send(k, "", nil)
	proxy.Set(nil)
	proxy.SetSlow(nil)
}

// started is a request whose handler may stand still.
type started struct {
	attempt int
	stop    *stop
	stands  bool
	told    chan struct{} // closed when its client was told
	once    sync.Once
}

// start sends a request whose handler stands still before an action, and returns when it does, or has ended.
func (w *world) start(k *run, in *instance, before int) *started {
	s := &started{stop: &stop{before, make(chan struct{}), make(chan struct{})}, told: make(chan struct{})}
	s.attempt = int(k.sent.Load()) + 1
	go func() {
		defer close(s.told)
		_, _ = in.send(k, "", s.stop)
	}()
	select {
	case <-s.stop.here:
		s.stands = true
	case <-s.told:
	}
	return s
}

// end lets the handler go on, and waits until its client was told.
func (s *started) end() {
	s.once.Do(func() { close(s.stop.on) })
	<-s.told
}

// kill ends an instance, and starts another one.
func (w *world) kill(k *run, i int) {
	k.note("instance %d dies", i)
	w.instances[i].die()
	w.instances[i] = w.newInstance()
}

// strike breaks one or two of the turns to come.
func (w *world) strike(k *run, in *instance, r *rand.Rand) {
	type plan struct {
		at     int
		commit bool // it counts commits only
		fault  pgproxy.Fault
	}
	var plans []plan
	for range 1 + r.IntN(2) {
		fault := pgproxy.Faults[r.IntN(len(pgproxy.Faults))]
		if fault == pgproxy.SwallowAll || fault == pgproxy.SwallowAnswer {
			fault = pgproxy.Faults[r.IntN(len(pgproxy.Faults))] // it takes long
		}
		p := plan{r.IntN(10), false, fault}
		if r.IntN(2) == 0 {
			p.at, p.commit = r.IntN(3), true
			if r.IntN(2) == 0 {
				p.fault = pgproxy.Late
			}
		}
		plans = append(plans, p)
	}
	behind := max(0, r.IntN(5)-2) // so many commits behind a fault lose their answers
	k.note("faults to come: %v, %d commits behind", plans, behind)
	turns, commits, struck := 0, 0, false
	in.proxy.Set(func(t pgproxy.Turn) pgproxy.Fault {
		if t.Cancel {
			return pgproxy.LoseQuestion
		}
		commit := len(t.SQL) > 0 && pgproxy.IsCommit(t.SQL[len(t.SQL)-1])
		defer func() {
			turns++
			if commit {
				commits++
			}
		}()
		for _, p := range plans {
			if !p.commit && p.at == turns || p.commit && commit && p.at == commits {
				k.late.Store(true)
				struck = true
				k.note("%v at %.60q", p.fault, strings.Join(t.SQL, " "))
				return p.fault
			}
		}
		if struck && commit && behind > 0 {
			behind--
			k.note("the answer of a commit is lost behind it")
			return pgproxy.LoseAnswer
		}
		return pgproxy.Pass
	})
}

// react is what a client or an operator does about an answer.
func (w *world) react(k *run, in *instance, a answer, r *rand.Rand) {
	switch {
	case a.code == string(core.CodeOutcomeUnknown) && r.IntN(2) == 0:
		w.settle(k, in, false)
	case a.code == string(core.CodeInFlight) && r.IntN(2) == 0:
		w.pass(k, lease)
	case a.code == string(core.CodeStoreUnavailable) && r.IntN(2) == 0:
		time.Sleep(tick) // Run gives back what a claim has left
	case a.recorded() && r.IntN(4) == 0:
		_, _ = in.send(k, otherCommand, nil)
	}
}

// settle is an operator who looks at the effects, and says what is true. Not applied is said only if no handler runs, or it
// may: of a handler that is asleep, the provider recognises the calls.
func (w *world) settle(k *run, in *instance, may bool) {
	idle := k.gate.TryLock()
	if idle {
		defer k.gate.Unlock()
	}
	applied := len(w.rows(k)) > 0
	k.mu.Lock()
	for _, c := range k.calls {
		applied = applied || len(c.keys) > 0
	}
	k.mu.Unlock()
	if !applied && !idle && !may {
		return // the handler runs
	}
	d := core.Decision{Applied: applied, Who: "generator", Why: "it has counted"}
	if applied {
		d.Answer = &core.Answer{Status: http.StatusOK, Body: []byte(settledBody)}
	}
	id := core.Scoping{}.RecordID(customer, k.key)
	_, err := operations.New(in.module).Settle(context.WithoutCancel(w.t.Context()), id, d)
	k.note("settled as applied=%v: %v", applied, err)
	if err == nil {
		k.mu.Lock()
		k.overtaken()
		k.mu.Unlock()
	}
	if !applied && !errors.Is(err, store.ErrNotSettleable) && !errors.Is(err, store.ErrStale) { // a new one, perhaps
		k.mu.Lock()
		defer k.mu.Unlock()
		clear(k.unsure)
		k.parked = ""
		for _, c := range k.calls {
			*c = provided{keys: c.keys}
		}
	}
}

// send is a request to an instance. It returns false where no answer came.
func (in *instance) send(k *run, mark string, s *stop) (answer, bool) {
	attempt := k.next(s)
	body := `{"amount":"10.00"}`
	if mark == otherCommand {
		body = `{"amount":"99.00"}`
	}
	ctx := context.WithoutCancel(in.world.t.Context())
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, k.path(), strings.NewReader(body))
	r.Header.Set(wire.HeaderKey, k.key)
	r.Header.Set(attemptHeader, strconv.Itoa(attempt))
	w := httptest.NewRecorder()
	ended := make(chan bool, 1)
	in.serves.Go(func() {
		defer func() { ended <- recover() == nil }()
		in.routes.ServeHTTP(w, r)
	})
	heard := false
	for waiting := true; waiting; {
		select {
		case heard = <-ended:
			waiting = false
		case <-time.After(5 * time.Millisecond):
			waiting = !in.dead.Load()
		}
	}
	if !heard || in.dead.Load() {
		k.note("%d: no answer", attempt)
		return answer{}, false
	}
	a := answer{in: in, attempt: attempt, status: w.Code, result: w.Header().Get(wire.HeaderResult),
		code: w.Header().Get(wire.HeaderProblem), body: w.Body.String(), mark: mark}
	k.heard(a)
	return a, true
}

// end repeats until the command has come to its end, and then once more. Where the machine has much else to do, claims come
// to nothing for a while.
func (w *world) end(k *run) {
	in, never := w.instances[0], k.program.status >= 500 || k.program.status == http.StatusTooManyRequests
	for n, begun := 0, time.Now(); n < 60 && time.Since(begun) < 5*time.Minute; {
		a, ok := in.send(k, "", nil)
		if a.code != string(core.CodeStoreUnavailable) {
			n++
		}
		switch {
		case !ok:
		case a.recorded():
			_, _ = w.instances[1].send(k, "", nil)
			return
		case a.code == string(core.CodeOutcomeUnknown), k.days && (a.code == string(core.CodeKeyExpired) ||
			a.code == string(core.CodeKeyTooOld)), n > 3 && never:
			return
		case a.code == string(core.CodeInFlight), a.status == http.StatusServiceUnavailable:
			time.Sleep(20 * time.Millisecond)
			w.pass(k, deadline)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.wrong("it does not come to an end")
}

// text is the page of a run.
func (k *run) text() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return fmt.Sprintf("%v\n\t%s", k.program, strings.Join(k.log, "\n\t"))
}
