package core

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/auth19/idem/core/store"
)

// The words of [Unready].
const (
	MissingSchema   = "schema"   // the tables lack what this release needs
	MissingSelfTest = "selftest" // the store's self-test has not passed (F-8)
	MissingStore    = "store"    // the store does not answer, or takes no writes
	MissingRun      = "run"      // Run is not under way, or one of its loops hangs
)

// Unready says what an instance lacks: see [Module.Ready].
type Unready struct {
	Missing []string // one or more of the words
	// Degraded: the instance has been ready, and now its store does not answer. Its 503 with a code serves clients better than
	// that of a balancer.
	Degraded bool
	Err      error // of the store; nil if only Run is missing
}

// Error implements error.
func (u *Unready) Error() string {
	text := "idem: this instance is not ready: " + strings.Join(u.Missing, ", ")
	if u.Err != nil {
		text += ": " + u.Err.Error()
	}
	return text
}

// Unwrap returns the error of the store.
func (u *Unready) Unwrap() error { return u.Err }

// Ready says whether this instance should get traffic; nil: it should. Otherwise the error is an [*Unready]. It is ready if
// the store is ([store.Operations].Ready), and Run is alive: each of its loops has finished an item or a round within the
// item's deadline. What a provider does makes nothing unready.
//
// All who call it within a second share one question to the store, also those who ask another module over it. It may take as
// long as ClaimTimeout. If the answer is another one than before, the observer gets EventFailed with the error.
func (m *Module) Ready(ctx context.Context) error {
	asked := m.askStore()
	select {
	case <-asked.over:
	case <-ctx.Done():
		return &Unready{Missing: []string{MissingStore}, Degraded: m.readiness.was.Load(), Err: ctx.Err()}
	}
	if unready := m.unready(ctx, asked.err); unready != nil {
		return unready
	}
	return nil
}

// unready judges what the store has said, and looks at Run.
func (m *Module) unready(ctx context.Context, said error) *Unready {
	u := Unready{Err: said}
	away := false
	switch {
	case said == nil:
	case errors.Is(said, store.ErrSchema):
		u.Missing = append(u.Missing, MissingSchema)
	case errors.Is(said, store.ErrUnfit):
		u.Missing = append(u.Missing, MissingSelfTest)
	default:
		u.Missing = append(u.Missing, MissingStore)
		away = !errors.Is(said, store.ErrNoWrites)
	}
	if !m.running.Load() || !m.pulses.alive() {
		u.Missing = append(u.Missing, MissingRun)
	}
	u.Degraded = away && m.readiness.was.Load() // without its store, Run cannot be alive
	changed := m.readiness.become(u.Missing)
	if len(u.Missing) == 0 {
		return nil
	}
	if changed {
		m.observe(ctx, Event{Kind: EventFailed, Err: &u})
	}
	return &u
}

// readiness is what a module knows of its own.
type readiness struct {
	was atomic.Bool // it has been ready

	mu   sync.Mutex
	last []string // what was missing
}

// become notes what is missing, and reports whether that is something else than before.
func (r *readiness) become(missing []string) (changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed = !slices.Equal(r.last, missing)
	r.last = missing
	if len(missing) == 0 {
		r.was.Store(true)
	}
	return changed
}

// question is one to a store, for all who come meanwhile.
type question struct {
	begun time.Time
	over  chan struct{} // closed at its end
	err   error
}

// questions has the last question to each store, for a while. A process may have several modules over one.
var questions struct {
	sync.Mutex
	to map[any]*question
}

const readyEvery = time.Second

// askStore returns the question to wait for, and begins one if the last is over and a second old.
func (m *Module) askStore() *question {
	var key any = m
	if reflect.ValueOf(m.operations).Comparable() {
		key = m.operations
	}
	questions.Lock()
	defer questions.Unlock()
	if q := questions.to[key]; q != nil {
		select {
		case <-q.over:
			if time.Since(q.begun) < readyEvery {
				return q
			}
		default:
			return q
		}
	}
	q := &question{begun: time.Now(), over: make(chan struct{})}
	if questions.to == nil {
		questions.to = map[any]*question{}
	}
	questions.to[key] = q
	go func() {
		defer close(q.over)
		ctx, cancel := context.WithTimeout(context.Background(), m.cfg.ClaimTimeout)
		defer cancel()
		q.err = recovered(func() error { return m.operations.Ready(ctx) })
		time.AfterFunc(2*readyEvery, func() { q.forget(key) })
	}()
	return q
}

// forget lets go of a store that nobody asks any more.
func (q *question) forget(key any) {
	questions.Lock()
	defer questions.Unlock()
	if questions.to[key] == q {
		delete(questions.to, key)
	}
}

// pulses are those of the loops of Run.
type pulses struct{ orphans, sweep, reconcile, resume pulse }

func (p *pulses) alive() bool {
	return p.orphans.isAlive() && p.sweep.isAlive() && p.reconcile.isAlive() && p.resume.isAlive()
}

// pulse says until when a loop has finished what it does.
type pulse struct{ until atomic.Pointer[time.Time] }

// itemFor is how long a loop's statement may take, which has no other deadline.
const itemFor = time.Minute

// within says that the loop has something before it that may take so long, and a statement.
func (p *pulse) within(d time.Duration) { p.until.Store(new(time.Now().Add(d + itemFor))) }

func (p *pulse) isAlive() bool {
	until := p.until.Load()
	return until != nil && time.Now().Before(*until)
}

// Readiness is the handler of a readiness probe, for every router: gin.WrapH and echo.WrapHandler take it. Mount it outside
// of the guards:
//
//	mux.Handle("GET /readyz", core.Readiness{Module: idem})
//
// The answer is {"status", "missing"}: 200 "ready"; 200 "degraded" if the instance has been ready and its store does not
// answer; 503 "unready". missing has the words that are above [Unready], and no more: anybody may ask. The error goes to the
// observer.
type Readiness struct {
	Module *Module
	// Strict: 503 instead of 200 "degraded".
	Strict bool
}

// ServeHTTP implements [http.Handler].
func (h Readiness) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status, view := http.StatusOK, struct {
		Status  string   `json:"status"`
		Missing []string `json:"missing"`
	}{"ready", []string{}}
	if u, ok := errors.AsType[*Unready](h.Module.Ready(r.Context())); ok {
		view.Status, view.Missing = "degraded", u.Missing
		if !u.Degraded || h.Strict {
			status, view.Status = http.StatusServiceUnavailable, "unready"
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	body, _ := json.Marshal(view) // strings alone
	_, _ = fmt.Fprintf(w, "%s\n", body)
}
