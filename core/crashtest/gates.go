package crashtest

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/auth19/idem/core/store"
)

// Gates are on the way from an app to its store, its database and its providers. Each call that passes is an event. The
// app can be stopped before and after each event. Gates belong to one life of an app, from its start to its crash.
// [Run] makes them; a test that wants other faults than a crash makes them itself.
type Gates struct {
	lane int

	mu     sync.Mutex
	events []string
	next   *Fault         // nil where none is to come
	links  map[*link]bool // connections to a database: true with a statement under way, or in a transaction
	wires  bool           // there is a database, and so there is work that no command has asked for
	moved  time.Time      // when an event, or an answer to one, came last
	wins   int            // claims that were won, as far as the gates can tell
	txs    map[store.Attempt]bool
	closes []func()

	dead, closed         chan struct{}
	deadOnce, closedOnce sync.Once
	done                 sync.WaitGroup
}

// NewGates returns gates that let everything pass. Close them after use.
func NewGates() *Gates {
	return &Gates{
		links: make(map[*link]bool), txs: make(map[store.Attempt]bool),
		dead: make(chan struct{}), closed: make(chan struct{}),
	}
}

// Lane is the number of this app among the Scenario.Parallel apps that run at the same time, from 0. Use it to give each
// app its own database. In a lane one life follows the other, and command n is sent in lane n % Parallel.
func (g *Gates) Lane() int { return g.lane }

// Point is a moment of an app's work: before an event, or after it and before the app gets its answer.
type Point struct {
	Event int // counted from 0, from Strike or Count on
	After bool
}

// String says it in words.
func (p Point) String() string {
	if p.After {
		return fmt.Sprintf("after %d", p.Event)
	}
	return fmt.Sprintf("before %d", p.Event)
}

// Fault is a point at which an app stops.
type Fault struct {
	Reached <-chan struct{} // closed when the app is there

	at      Point
	reached chan struct{}
	deliver chan bool
}

// Release lets the app continue. If deliver is true, the event, or its answer, is delivered. If not, a connection is cut,
// and a call in this process never returns. Call it once.
func (f *Fault) Release(deliver bool) { f.deliver <- deliver }

// stay waits at the point.
func (f *Fault) stay(dead <-chan struct{}) (deliver bool) {
	close(f.reached)
	select {
	case deliver = <-f.deliver:
		return deliver
	case <-dead:
		return false
	}
}

// Strike stops the app once, when it next comes to the given point.
func (g *Gates) Strike(at Point) *Fault {
	f := &Fault{at: at, reached: make(chan struct{}), deliver: make(chan bool, 1)}
	f.Reached = f.reached
	g.mu.Lock()
	defer g.mu.Unlock()
	g.events, g.next = nil, f
	return f
}

// Count forgets the events so far, and a fault that was not reached.
func (g *Gates) Count() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.events, g.next, g.wins = nil, nil, 0
}

// Events returns the events since Strike or Count, or since the beginning. It leaves out events whose number depends on
// time: pings of connection pools, renewals of leases, sweeps. It also leaves out values, so that two equal commands have
// equal events.
func (g *Gates) Events() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.events)
}

// arrive notes an event ("" is none), and returns the fault that waits for it.
func (g *Gates) arrive(event string) (fault *Fault) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.moved = time.Now()
	if event == "" {
		return nil
	}
	if g.next != nil && g.next.at.Event == len(g.events) {
		fault, g.next = g.next, nil
	}
	g.events = append(g.events, event)
	return fault
}

// quiet is how long nothing may pass until an app with a database counts as being at rest. What it does at its start,
// such as a sweep, is over then.
const quiet = 100 * time.Millisecond

// Rest waits until all connections to the database have been idle for a moment. It returns an error if that takes longer
// than patience. Stores in this process need no rest: only requests make events there.
func (g *Gates) Rest(patience time.Duration) error {
	for deadline := time.Now().Add(patience); !g.resting(); time.Sleep(quiet / 10) {
		if time.Now().After(deadline) {
			return fmt.Errorf("idem: crashtest: the app does not come to rest; it has sent\n%s", strings.Join(g.Events(), "\n"))
		}
	}
	return nil
}

func (g *Gates) resting() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, busy := range g.links {
		if busy {
			return false
		}
	}
	return !g.wires || time.Since(g.moved) > quiet
}

// Kill makes the gates those of a process that is gone: nothing passes any more in either direction, calls in this
// process do not return, connections are cut, and the transactions that were open are rolled back, as a server does.
func (g *Gates) Kill() {
	g.deadOnce.Do(func() { close(g.dead) })
	g.mu.Lock()
	var open []store.Attempt
	for tx := range g.txs {
		open = append(open, tx)
	}
	clear(g.txs)
	for l := range g.links {
		l.cut()
	}
	closes := g.closes
	g.closes = nil
	g.mu.Unlock()
	for _, tx := range open {
		_ = tx.Rollback() // of a transaction that is over: nothing
	}
	for _, stop := range closes {
		stop()
	}
}

// Close kills the gates, and ends the goroutines that wait at them.
func (g *Gates) Close() {
	g.Kill()
	g.closedOnce.Do(func() { close(g.closed) })
	g.done.Wait()
}

var errClosed = errors.New("idem: crashtest: these gates are closed")

// onKill registers what is to be stopped with the app.
func (g *Gates) onKill(stop func()) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isDead() {
		return errClosed
	}
	g.closes = append(g.closes, stop)
	return nil
}

func (g *Gates) isDead() bool {
	select {
	case <-g.dead:
		return true
	default:
		return false
	}
}

// pass lets a call in this process through: it does not return to an app that is dead.
func (g *Gates) pass(event string, call func()) {
	if g.isDead() {
		g.hang()
	}
	fault := g.arrive(event)
	if fault != nil && !fault.at.After && !fault.stay(g.dead) {
		g.hang()
	}
	call()
	if fault != nil && fault.at.After && !fault.stay(g.dead) || g.isDead() {
		g.hang()
	}
}

// hang stops a goroutine of a dead app. Its deferred functions run when the gates are closed: nothing is alive then
// that they could harm.
func (g *Gates) hang() {
	<-g.closed
	runtime.Goexit()
}

// won notes that the app was told to have won a claim: it runs the handler now.
func (g *Gates) won() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wins++
}

// executions is how many claims were won since Count; 0 also where the gates do not see claims.
func (g *Gates) executions() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.wins
}
