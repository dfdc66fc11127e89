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

var _ store.Attempts = (*Store)(nil)

// Rows implements [store.Attempts]: what a handler writes is elsewhere.
func (s *Store) Rows() bool { return false }

// Begin implements [store.Attempts].
func (s *Store) Begin(ctx context.Context, c store.Claim) (store.Attempt, store.Claimed, error) {
	if err := alive(ctx); err != nil {
		return nil, store.Claimed{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	claimed, err := s.claim(&c, (*Store).hideUntilSeal)
	if err != nil || !claimed.Won {
		return nil, claimed, err
	}
	first := claimed.Record.Attempts == 1
	return &attempt{store: s, claim: c, ticket: claimed.Record.Ticket, first: first, open: first}, claimed, nil
}

// InFlight implements [store.Attempts].
func (s *Store) InFlight(ctx context.Context, id store.ID) (bool, error) {
	if err := alive(ctx); err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running[id] != nil, nil
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
		if e.Stored != store.Running && e.Stored != store.Unknown {
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
	defer t.leave()
	if err = alive(ctx); err == nil && t.first {
		err = t.begin(s.Window)
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

// begin stores the row that was aside. Its times begin now.
func (t *attempt) begin(w store.Window) error {
	s := t.store
	s.mu.Lock()
	defer s.mu.Unlock()
	now, e := s.now(), s.running[t.ticket.ID]
	switch {
	case e == nil || e.Ticket != t.ticket:
		return store.ErrStale // rolled back before
	case !w.Has(now):
		return store.ErrClock
	}
	delete(s.running, e.ID)
	e.CreatedAt, e.Deadline = now, now.Add(t.claim.Deadline)
	e.renew(t.claim.Lease, now)
	s.insert(e)
	t.first = false
	return nil
}

// write writes a seal into the row. undone: the segment of its database steps was rolled back.
func (t *attempt) write(e *entry, s store.Seal, undone bool, now time.Time) error {
	again := s.Answer != nil && (e.Stored == store.Completed || e.Stored == store.Expired) // the first answer stands
	switch {
	case again:
		return nil
	case s.Start != nil && e.hasFinished(s.Start.Name), e.hasOther(s):
		return store.ErrStale
	case undone:
		return store.ErrRetryable
	case s.Answer != nil:
		if err := t.store.record(e, *s.Answer, now); err != nil {
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

// start returns a step of the row. It starts the step if no attempt has.
func (e *entry) start(step store.StepRecord, now time.Time) *store.StepRecord {
	at := e.step(step.Name)
	if at < 0 {
		at = len(e.steps)
		e.steps = append(e.steps, store.StepRecord{Name: step.Name, Kind: step.Kind, Fence: e.Fence, StartedAt: now})
	}
	return &e.steps[at]
}

// hasFinished reports whether a step has finished.
func (e *entry) hasFinished(name string) bool {
	at := e.step(name)
	return at >= 0 && e.steps[at].Finished
}

// hasOther reports whether another attempt has started or finished a step that the seal takes for a new one, or for a third
// one's.
func (e *entry) hasOther(s store.Seal) bool {
	steps := s.Steps
	if s.Start != nil {
		steps = append(slices.Clip(steps), *s.Start)
	}
	return slices.ContainsFunc(steps, func(step store.StepRecord) bool {
		at := e.step(step.Name)
		return at >= 0 && e.steps[at].Fence != cmp.Or(step.Fence, e.Fence)
	})
}

// Rollback implements [store.Attempt].
func (t *attempt) Rollback() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.leave()
	return nil
}

// leave ends the open segment. If nothing was sealed, the attempt is over, and its row is forgotten.
func (t *attempt) leave() {
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
