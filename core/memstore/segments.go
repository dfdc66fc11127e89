package memstore

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/auth19/idem/core/store"
)

// Rows implements [store.Attempts]: what a handler writes is elsewhere.
func (s *Store) Rows() bool { return false }

// Begin implements [store.Attempts].
func (s *Store) Begin(ctx context.Context, c store.Claim) (store.Attempt, store.Claimed, error) {
	claimed, err := get(ctx, s, func(now time.Time) (store.Claimed, error) { return s.claim(&c, s.running, now) })
	if err != nil || !claimed.Won {
		return nil, claimed, err
	}
	first := claimed.Record.Attempts == 1
	return &attempt{store: s, claim: c, ticket: claimed.Record.Ticket, first: first, open: first}, claimed, nil
}

// InFlight implements [store.Attempts].
func (s *Store) InFlight(ctx context.Context, id store.ID) (bool, error) {
	return get(ctx, s, func(time.Time) (bool, error) { return s.running[id] != nil, nil })
}

// Steps implements [store.Attempts].
func (s *Store) Steps(ctx context.Context, id store.ID) (steps []store.StepRecord, err error) {
	err = s.do(ctx, func(now time.Time) error {
		if e := s.records[id]; e != nil {
			steps = e.readSteps(now)
		}
		return nil
	})
	return steps, err
}

// readSteps returns the steps of the row, in the order they were started.
func (e *entry) readSteps(now time.Time) []store.StepRecord {
	steps := slices.Clone(e.steps)
	for i := range steps {
		s := &steps[i]
		s.Result, s.Derived, s.Now = bytes.Clone(s.Result), slices.Clone(s.Derived), now
	}
	slices.SortFunc(steps, func(a, b store.StepRecord) int {
		return cmp.Or(a.StartedAt.Compare(b.StartedAt), cmp.Compare(a.Name, b.Name))
	})
	return steps
}

// attempt is one of Resume. The store has no transactions: what a step does cannot be undone. An open segment only
// says what the next seal may make durable.
type attempt struct {
	store   *Store
	claim   store.Claim
	ticket  store.Ticket
	opening func() error

	mu    sync.Mutex
	first bool // nothing was sealed
	open  bool
}

// Bind implements [store.Attempt].
func (t *attempt) Bind(ctx context.Context, opening func() error) context.Context {
	t.opening = opening
	return ctx
}

// Statements implements [store.Attempt].
func (t *attempt) Statements() store.Statements { return store.Statements{} }

// Step implements [store.Attempt].
func (t *attempt) Step(ctx context.Context, work func(ctx context.Context) error) error {
	if err := t.enter(ctx); err != nil {
		return err
	}
	return work(ctx)
}

// enter opens a segment if none is open.
func (t *attempt) enter(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.open:
		return alive(ctx)
	case t.first:
		return store.ErrStale
	}
	if t.opening != nil {
		if err := t.opening(); err != nil {
			return err
		}
	}
	err := t.store.write(ctx, t.ticket, func(e *entry, _ time.Time) error {
		if !e.isOpen() {
			return store.ErrStale
		}
		e.held = true
		return nil
	})
	t.open = err == nil
	return err
}

// Seal implements [store.Attempt].
func (t *attempt) Seal(ctx context.Context, s store.Seal) (now time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	isDatabase := func(step store.StepRecord) bool { return step.Kind == store.DatabaseStep }
	undone := !t.open && slices.ContainsFunc(s.Steps, isDatabase)
	defer t.endSegment()
	if err = alive(ctx); err == nil && t.first {
		err = t.insertRunning(ctx, s.Window)
	}
	if err != nil {
		return now, err
	}
	err = t.store.write(ctx, t.ticket, func(e *entry, at time.Time) error {
		now = at
		return t.write(e, s, undone, now)
	})
	return now, err
}

// insertRunning makes the row of a first attempt a record. Its times begin now.
func (t *attempt) insertRunning(ctx context.Context, w store.Window) error {
	s := t.store
	return s.do(ctx, func(now time.Time) error {
		e := s.running[t.ticket.ID]
		switch {
		case e == nil || e.Ticket != t.ticket:
			return store.ErrStale // rolled back before
		case !w.Has(now):
			return store.ErrClock
		}
		e.CreatedAt, e.Deadline = now, now.Add(t.claim.Deadline)
		e.renew(t.claim.Lease, now)
		delete(s.running, e.ID)
		s.records[e.ID] = e
		t.first = false
		return nil
	})
}

// write writes a seal into the row. undone: the segment of its database steps was rolled back.
func (t *attempt) write(e *entry, s store.Seal, undone bool, now time.Time) error {
	switch {
	case s.Answer != nil && e.isAnswered(): // the first answer stands
		return nil
	case e.hasOther(s):
		return store.ErrStale
	case undone:
		return store.ErrRetryable
	case s.Answer != nil:
		if err := e.record(*s.Answer, now); err != nil {
			return err
		}
	case e.Stored == store.Unknown && s.Alone && s.Start == nil: // results of calls
	case e.Stored != store.Running:
		return store.ErrStale
	case !s.Window.Has(now):
		return store.ErrClock
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

// hasOther reports whether the call to be started has finished, or another attempt has started or finished a step that the
// seal takes for a new one, or for a third one's.
func (e *entry) hasOther(s store.Seal) bool {
	steps := s.Steps
	if s.Start != nil {
		steps = append(slices.Clip(steps), *s.Start)
	}
	return slices.ContainsFunc(steps, func(step store.StepRecord) bool {
		there := e.step(step.Name)
		return there != nil &&
			(there.Fence != cmp.Or(step.Fence, e.Fence) || s.Start != nil && step.Name == s.Start.Name && there.Finished)
	})
}

// Rollback implements [store.Attempt].
func (t *attempt) Rollback() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.endSegment()
	return nil
}

// endSegment ends the open segment. If nothing was sealed, the attempt is over, and its row is forgotten.
func (t *attempt) endSegment() {
	t.open = false
	s := t.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.records[t.ticket.ID]; e != nil && e.Ticket == t.ticket {
		e.held = false
	}
	e := s.running[t.ticket.ID]
	if e == nil || e.Ticket != t.ticket {
		return
	}
	delete(s.running, e.ID)
	if s.records[e.ID] == nil {
		s.count--
	}
}
