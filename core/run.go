package core

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/auth19/idem/core/internal/pace"
	"github.com/auth19/idem/core/store"
)

// Run does the background work. Call it in every instance of the app. It sweeps the store (T-3), continues lost Resume
// operations with Config.Resume, calls Config.Reconcile for unknown operations (T-4), and releases claims whose owner got
// an error (F-1). Each of these has its own loop, so that none waits for another.
//
// Run blocks until ctx ends. Then it waits until the app's functions that are running have returned, or their deadline
// has passed, and returns nil. Only a function that hangs leaves a goroutine behind. Errors: another Run of the same
// module is running; [ErrScoping].
func (m *Module) Run(ctx context.Context) error {
	if !m.running.CompareAndSwap(false, true) {
		return errors.New("idem: Run is under way already; call it once")
	}
	defer m.running.Store(false)
	if err := m.CheckScoping(ctx); errors.Is(err, ErrScoping) {
		return err
	}
	var loops sync.WaitGroup
	loops.Go(func() { m.repeat(ctx, &m.pulses.orphans, m.releaseOrphans, nil) })
	loops.Go(func() { m.repeat(ctx, &m.pulses.sweep, m.sweep, nil) })
	loops.Go(func() { m.repeat(ctx, &m.pulses.reconcile, m.reconcile, nil) })
	loops.Go(func() { m.repeat(ctx, &m.pulses.resume, m.resume, m.wake) })
	loops.Wait()
	return nil
}

// repeat does a duty at once and then every SweepEvery, or when it is woken, until ctx ends.
func (m *Module) repeat(ctx context.Context, p *pulse, duty func(context.Context), wake <-chan struct{}) {
	for ctx.Err() == nil {
		p.within(0)
		if err := recovered(func() error { duty(ctx); return nil }); err != nil { // of the store, or of its driver
			m.failed(ctx, err)
		}
		every := m.cfg.SweepEvery
		p.within(2 * every)
		timer := time.NewTimer(every - every/20 + rand.N(max(every/10, 1)))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-wake:
		}
		timer.Stop()
	}
}

// sweep works in batches until a batch is not full. After each batch it rests for three times as long as the batch took: a
// backlog takes longer, but requests have the store to themselves for three quarters of the time. It reports only the first
// error, and continues while its batches are full: the error may concern another part of the sweep.
func (m *Module) sweep(ctx context.Context) {
	batch := pace.Pace{Size: min(m.cfg.SweepBatch, 100)}
	for told := false; ctx.Err() == nil; {
		begun := time.Now()
		swept, err := m.cfg.Store.Sweep(ctx, batch.Size, m.window())
		switch {
		case errors.Is(err, ErrClock):
			m.tellClock(ctx, err)
			return
		case err != nil && !told:
			m.failed(ctx, err)
			told = true
		}
		if n := swept.Tombstones + swept.Dropped + swept.CommandLog + swept.Messages; n > 0 {
			m.observe(ctx, Event{Kind: EventSwept, Count: n})
		}
		if max(swept.Tombstones+swept.Dropped, swept.CommandLog, swept.Messages) < batch.Size {
			if err == nil && !told {
				m.observe(ctx, Event{Kind: EventCaughtUp})
			}
			return
		}
		took := time.Since(begun)
		m.pulses.sweep.within(3 * took)
		batch.Next(took, m.cfg.SweepBatch)
		pace.Rest(ctx, 3*took)
	}
}

// failed sends the event of an error in Run, unless the error only comes from stopping Run.
func (m *Module) failed(ctx context.Context, err error) {
	if ctx.Err() == nil {
		m.observe(ctx, Event{Kind: EventFailed, Err: err})
	}
}

// orphans are claims that may have landed although their owner got an error. They are few, because they come only from
// moments in which the store failed. Above the cap they are not kept: when their leases run out, they are unknown. That
// costs a settlement, never a second execution.
type orphans struct {
	mu      sync.Mutex
	tickets []store.Ticket
	busy    bool // they are being released
}

const maxOrphans = 1024

func (o *orphans) add(t store.Ticket) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.keep(t)
}

// keep adds tickets up to the cap; o.mu is held.
func (o *orphans) keep(all ...store.Ticket) {
	o.tickets = append(o.tickets, all[:min(len(all), maxOrphans-len(o.tickets))]...)
}

// tryStart reports whether the caller is to release what is there: there is something, and nobody does so.
func (o *orphans) tryStart() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.busy || len(o.tickets) == 0 {
		return false
	}
	o.busy = true
	return true
}

// next returns what has come since. If it is nothing, the caller has ended: what comes now finds nobody who releases.
func (o *orphans) next() (taken []store.Ticket) {
	o.mu.Lock()
	defer o.mu.Unlock()
	taken, o.tickets = o.tickets, nil
	o.busy = len(taken) > 0
	return taken
}

// stopped keeps what the caller could not release.
func (o *orphans) stopped(left []store.Ticket) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.busy = false
	o.keep(left...)
}

// releaseOrphans frees the keys of claims that landed although their handlers never ran (F-1), unless that is under way.
func (m *Module) releaseOrphans(ctx context.Context) {
	if m.orphans.tryStart() {
		m.releaseAll(ctx)
	}
}

// releaseAll releases until nothing is left. What cannot be released now is kept for the next time.
func (m *Module) releaseAll(ctx context.Context) {
	tickets := m.orphans.next()
	defer func() { // also where the store panics
		if len(tickets) > 0 {
			m.orphans.stopped(tickets)
		}
	}()
	for ; len(tickets) > 0; tickets = m.orphans.next() {
		if tickets = m.release(ctx, tickets); len(tickets) > 0 {
			return
		}
	}
}

// releaseAtOnce is how many tickets one call of the store releases.
const releaseAtOnce = 100

// release returns the tickets that it could not release. If the store does not release several at once, one of them may be
// held there: it tries them one by one then, until one fails.
func (m *Module) release(ctx context.Context, tickets []store.Ticket) (left []store.Ticket) {
	for most := releaseAtOnce; len(tickets) > 0; {
		n := min(len(tickets), most)
		releaseCtx, cancel := context.WithTimeout(ctx, m.cfg.ClaimTimeout)
		err := m.cfg.Store.Release(releaseCtx, tickets[:n])
		cancel()
		switch {
		case err == nil || errors.Is(err, ErrStale):
			tickets = tickets[n:]
		case n > 1:
			most = 1
		default: // the next time, the others come before it
			return append(tickets[1:len(tickets):len(tickets)], tickets[0])
		}
	}
	return nil
}

// Reconciler finds out what happened to an unknown operation, for instance by asking the provider for the derived key. It
// returns nil if it cannot tell yet. It must not change anything itself: all instances call it, and one of them settles.
// Its decision is about the attempt that operation shows: it never settles a later one.
// Its context ends after the Policy.Deadline of the operation's route. A panic counts as an error. If it hangs, only its
// own operation is blocked.
type Reconciler func(ctx context.Context, operation Record) (*Decision, error)

// reconcile calls Config.Reconcile for every unknown operation of a known route.
func (m *Module) reconcile(ctx context.Context) {
	if m.cfg.Reconcile == nil {
		return
	}
	strangers := map[stranger]int{}
	defer func() { m.tellStrangers(ctx, strangers) }()
	q := store.Query{Unknown: true, Within: m.service, Limit: m.cfg.SweepBatch}
	for ctx.Err() == nil {
		records, err := m.operations.List(ctx, q)
		if err != nil {
			m.failed(ctx, err)
			return
		}
		for _, rec := range records {
			q.After = rec.Cursor()
			if rec.Now.Before(rec.Deadline) {
				continue // its handler may still be running
			}
			if rec.Ownerless() {
				continue // of which route it is, its first repeat says
			}
			if !m.knowsRoute(rec.Method, rec.Route) {
				strangers[strangerOf(rec)]++ // its provider may be another service's
				continue
			}
			err := m.ask(ctx, rec)
			// These are no failures: usually another instance has settled the operation.
			if err != nil && !errors.Is(err, ErrStale) && !errors.Is(err, store.ErrNotSettleable) && !errors.Is(err, ErrNotFound) &&
				!errors.Is(err, ErrClock) {
				m.failed(ctx, fmt.Errorf("reconcile %s: %w", rec.ID, err))
			}
		}
		if len(records) < m.cfg.SweepBatch {
			return
		}
	}
}

// ask calls Config.Reconcile for one operation, within the deadline of its route.
func (m *Module) ask(ctx context.Context, rec Record) error {
	policy, _ := m.policyOf(rec.Method, rec.Route)
	m.pulses.reconcile.within(policy.Deadline + confirmFor)
	return m.reconciling.runAlone(rec.ID, policy.Deadline+confirmFor, func() error {
		ctx, cancel := context.WithTimeout(ctx, policy.Deadline)
		defer cancel()
		decision, err := m.cfg.Reconcile(ctx, rec)
		if err != nil || decision == nil {
			return err
		}
		if err := decision.Check("Settle"); err != nil {
			return err
		}
		if decision.Fence != 0 && decision.Fence != rec.Fence { // the key may have had another attempt since
			return ErrStale
		}
		settled, err := m.settle(ctx, rec, *decision, [16]byte{}, "")
		if err == nil {
			m.observe(ctx, Event{Kind: EventReconciled, Operation: rec.ID, Method: rec.Method, Route: rec.Route,
				Recovery: rec.Recovery, Fence: settled.Fence, Status: settled.Answer.Status})
		}
		return err
	})
}
