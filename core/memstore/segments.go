package memstore

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/auth19/idem/core"
)

var _ core.Stepper = (*Store)(nil)

// Resume implements [core.Stepper].
func (s *Store) Resume(ctx context.Context, c core.Claim) (core.Segments, core.Claimed, error) {
	if err := alive(ctx); err != nil {
		return nil, core.Claimed{}, err
	}
	claimed, err := s.claimOrMakeRoom(&c, (*shard).putAside)
	if err != nil || !claimed.Won {
		return nil, claimed, err
	}
	first := claimed.Record.Attempts == 1
	return &segments{store: s, claim: c, ticket: claimed.Record.Ticket, first: first, open: first}, claimed, nil
}

// InFlight implements [core.Stepper].
func (s *Store) InFlight(ctx context.Context, id core.ID) (bool, error) {
	if err := alive(ctx); err != nil {
		return false, err
	}
	sh := s.shard(id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.running[id] != nil, nil
}

// segments are those of one attempt. The store has no transactions: what a step does cannot be undone. An open segment only
// says what the next seal may make durable.
type segments struct {
	store   *Store
	claim   core.Claim
	ticket  core.Ticket
	opening func() error

	mu    sync.Mutex
	first bool // nothing was sealed
	open  bool
}

// Bind implements [core.Tx].
func (t *segments) Bind(ctx context.Context) context.Context { return ctx }

// Opening implements [core.Segments].
func (t *segments) Opening(fn func() error) { t.opening = fn }

// Step implements [core.Segments].
func (t *segments) Step(ctx context.Context, work func(ctx context.Context) error) error {
	if err := t.enter(ctx); err != nil {
		return err
	}
	return work(ctx)
}

// enter opens a segment if none is open.
func (t *segments) enter(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.open:
		return alive(ctx)
	case t.first:
		return core.ErrStale
	}
	if err := t.opening(); err != nil {
		return err
	}
	err := t.store.write(ctx, t.ticket, func(_ *shard, e *entry, _ time.Time) error {
		if e.Stored != core.Running && e.Stored != core.Unknown {
			return core.ErrStale
		}
		e.held = true
		return nil
	})
	t.open = err == nil
	return err
}

// Seal implements [core.Tx].
func (t *segments) Seal(ctx context.Context, s core.Seal) (now time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	undone := !t.open && slices.ContainsFunc(s.Steps, func(step core.StepRecord) bool { return step.Kind == core.DatabaseStep })
	defer t.leave()
	if err = alive(ctx); err == nil && t.first {
		err = t.begin(s.Window)
	}
	if err != nil {
		return now, err
	}
	err = t.store.write(ctx, t.ticket, func(sh *shard, e *entry, at time.Time) error {
		now = at
		return t.write(sh, e, s, undone, now)
	})
	return now, err
}

// begin stores the row that was aside. Its times begin now.
func (t *segments) begin(w core.Window) error {
	sh := t.store.shard(t.ticket.ID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now, e := t.store.now(), sh.running[t.ticket.ID]
	switch {
	case e == nil || e.Ticket != t.ticket:
		return core.ErrStale // rolled back before
	case !w.Has(now):
		return core.ErrClock
	}
	delete(sh.running, e.ID)
	e.CreatedAt, e.Deadline = now, now.Add(t.claim.Deadline)
	e.renew(t.claim.Lease, now)
	sh.insert(e)
	t.first = false
	return nil
}

// write writes a seal into the row. undone: the segment of its database steps was rolled back.
func (t *segments) write(sh *shard, e *entry, s core.Seal, undone bool, now time.Time) error {
	again := s.Answer != nil && (e.Stored == core.Completed || e.Stored == core.Expired) // the first answer stands
	switch {
	case again:
		return nil
	case s.Start != nil && e.hasFinished(s.Start.Name):
		return core.ErrStale
	case undone:
		return core.ErrRetryable
	case s.Answer != nil:
		if err := sh.record(e, *s.Answer, now); err != nil {
			return err
		}
	case e.Stored != core.Running:
		return core.ErrStale
	case !s.Window.Has(now):
		return core.ErrClock
	default:
		e.renew(t.claim.Lease, now)
	}
	for _, step := range s.Steps {
		if done := e.start(step, now); !done.Finished {
			done.Finished, done.Result, done.FinishedAt = true, bytes.Clone(step.Result), now
			done.Derived = slices.Clone(step.Derived)
		}
	}
	if s.Start != nil {
		e.start(*s.Start, now)
	}
	return nil
}

// start returns a step of the row. It starts the step if no attempt has.
func (e *entry) start(step core.StepRecord, now time.Time) *core.StepRecord {
	at := e.step(step.Name)
	if at < 0 {
		at = len(e.steps)
		e.steps = append(e.steps, core.StepRecord{Name: step.Name, Kind: step.Kind, Fence: e.Fence, StartedAt: now})
	}
	return &e.steps[at]
}

// hasFinished reports whether a step has finished.
func (e *entry) hasFinished(name string) bool {
	at := e.step(name)
	return at >= 0 && e.steps[at].Finished
}

// Rollback implements [core.Tx].
func (t *segments) Rollback() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.leave()
	return nil
}

// leave ends the open segment. If nothing was sealed, the attempt is over, and its row is forgotten.
func (t *segments) leave() {
	t.open = false
	sh := t.store.shard(t.ticket.ID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e := sh.records[t.ticket.ID]; e != nil && e.Ticket == t.ticket {
		e.held = false
	}
	e := sh.running[t.ticket.ID]
	if e == nil || e.Ticket != t.ticket {
		return
	}
	delete(sh.running, e.ID)
	if sh.records[e.ID] == nil {
		t.store.count.Add(-1)
	}
}
