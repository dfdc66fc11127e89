package core

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
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
// All who call it within a second share one question to the store, which may take as long as ClaimTimeout. If the answer is
// another one than before, the observer gets EventFailed with the error.
func (m *Module) Ready(ctx context.Context) error {
	asked := m.readiness.join(m.askReady)
	select {
	case <-asked.over:
	case <-ctx.Done():
		return &Unready{Missing: []string{MissingStore}, Degraded: m.readiness.was.Load(), Err: ctx.Err()}
	}
	if asked.unready == nil {
		return nil
	}
	return asked.unready
}

// askReady asks the store, and looks at Run.
func (m *Module) askReady() *Unready {
	ctx, cancel := context.WithTimeout(context.Background(), m.cfg.ClaimTimeout)
	defer cancel()
	var u Unready
	u.Err = calm(func() error { return m.operations.Ready(ctx) })
	away := false
	switch {
	case u.Err == nil:
	case errors.Is(u.Err, store.ErrSchema):
		u.Missing = append(u.Missing, MissingSchema)
	case errors.Is(u.Err, store.ErrUnfit):
		u.Missing = append(u.Missing, MissingSelfTest)
	default:
		u.Missing = append(u.Missing, MissingStore)
		away = !errors.Is(u.Err, store.ErrNoWrites)
	}
	if !m.running.Load() || !m.pulses.alive() {
		u.Missing = append(u.Missing, MissingRun)
	}
	u.Degraded = away && m.readiness.was.Load() // without its store, Run cannot be alive
	before := m.readiness.last
	m.readiness.last = u.Missing
	if len(u.Missing) == 0 {
		m.readiness.was.Store(true)
		return nil
	}
	if !slices.Equal(before, u.Missing) {
		m.observe(ctx, Event{Kind: EventFailed, Err: &u})
	}
	return &u
}

// readiness is what Ready knows.
type readiness struct {
	was  atomic.Bool // it has been ready
	last []string    // what was missing; of the question that is under way

	mu    sync.Mutex
	asked *asked
}

// asked is one question, for all who come meanwhile.
type asked struct {
	begun   time.Time
	over    chan struct{} // closed at its end
	unready *Unready
}

const readyEvery = time.Second

// join returns the question to wait for, and begins one if the last is over and a second old.
func (r *readiness) join(ask func() *Unready) *asked {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.asked; a != nil {
		select {
		case <-a.over:
			if time.Since(a.begun) < readyEvery {
				return a
			}
		default:
			return a
		}
	}
	a := &asked{begun: time.Now(), over: make(chan struct{})}
	r.asked = a
	go func() {
		defer close(a.over)
		a.unready = ask()
	}()
	return a
}

// pulses are those of the loops of Run.
type pulses struct{ orphans, sweep, reconcile, resume pulse }

func (p *pulses) alive() bool {
	return p.orphans.beats() && p.sweep.beats() && p.reconcile.beats() && p.resume.beats()
}

// pulse says until when a loop has finished what it does.
type pulse struct{ until atomic.Pointer[time.Time] }

// itemFor is how long a loop's statement may take, which has no other deadline.
const itemFor = time.Minute

// within says that the loop has something before it that may take so long, and a statement.
func (p *pulse) within(d time.Duration) { p.until.Store(new(time.Now().Add(d + itemFor))) }

func (p *pulse) beats() bool {
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
