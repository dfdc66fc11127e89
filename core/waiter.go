package core

import (
	"context"
	"crypto/sha256"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/auth19/idem/core/store"
)

// The shares of [Config].MaxWaiters.
const (
	waitersOfCommand = 4 // repeats of one running command
	callersShare     = 8 // the repeats of one caller take an eighth, but not less than one command may
)

// places are those of the repeats that wait in this instance. One caller, and one command, has only its share (M-2).
type places struct {
	mu    sync.Mutex
	all   int
	taken map[[sha256.Size]byte]int // by caller, and by operation
}

// take takes a place, if there is one of most for all.
func (p *places) take(caller store.Scope, operation store.ID, most int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all >= most || p.taken[caller] >= max(waitersOfCommand, most/callersShare) || p.taken[operation] >= waitersOfCommand {
		return false
	}
	if p.taken == nil {
		p.taken = map[[sha256.Size]byte]int{}
	}
	p.all++
	p.taken[caller]++
	p.taken[operation]++
	return true
}

// giveBack gives back what take has taken.
func (p *places) giveBack(caller store.Scope, operation store.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all--
	for _, of := range [][sha256.Size]byte{caller, operation} {
		if p.taken[of]--; p.taken[of] == 0 {
			delete(p.taken, of)
		}
	}
}

// waiter lets a repeat wait for the running attempt: the repeat claims again after each pause. Between the claims it
// holds nothing, not even a database connection (M-2).
type waiter struct {
	m       *Module
	scope   store.Scope // whose place it takes
	id      store.ID
	limit   time.Duration
	until   time.Time
	pause   time.Duration
	waiting bool
}

// next waits until the next claim, and adds the time to waited. It returns false if the wait is over, or was never
// allowed.
func (w *waiter) next(ctx context.Context, waited *time.Duration) bool {
	if w.limit == 0 {
		return false
	}
	if !w.waiting {
		if !w.m.waiters.take(w.scope, w.id, w.m.cfg.MaxWaiters) {
			return false
		}
		w.waiting, w.until, w.pause = true, time.Now().Add(w.limit), 25*time.Millisecond
	}
	begun := time.Now()
	left := w.until.Sub(begun)
	if left <= 0 {
		return false
	}
	defer func() { *waited += time.Since(begun) }()
	timer := time.NewTimer(min(left, w.pause+rand.N(w.pause/4)))
	defer timer.Stop()
	w.pause = min(2*w.pause, 500*time.Millisecond)
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// stop releases the place of the waiter, which MaxWaiters counts.
func (w *waiter) stop() {
	if w.waiting {
		w.m.waiters.giveBack(w.scope, w.id)
	}
}
