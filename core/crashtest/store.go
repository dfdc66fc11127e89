package crashtest

import (
	"context"
	"errors"
	"time"

	"github.com/auth19/idem/core"
)

// Store returns a store for an app in this process, in front of s: each call of the protocol is an event. It can what s
// can: Rollback where s is a [core.Transactor], Resume where it is a [core.Stepper], Rekey and ShadowUntil where it is a
// [core.Watcher]. s itself is what the crashes leave alone: it must be the same for all lives of the app.
//
// gormstore.Step does not work over it, because it wants gormstore's own store: run such an app as a process.
func (g *Gates) Store(s core.Store) core.Store {
	base := &store{g, s}
	transactor, isTransactor := s.(core.Transactor)
	stepper, isStepper := s.(core.Stepper)
	watcher, isWatcher := s.(core.Watcher)
	tx, steps, sights := &txStore{g, transactor}, &stepStore{g, stepper}, &sightStore{g, watcher}
	switch {
	case isTransactor && isStepper && isWatcher:
		return struct {
			*store
			*txStore
			*stepStore
			*sightStore
		}{base, tx, steps, sights}
	case isTransactor && isStepper:
		return struct {
			*store
			*txStore
			*stepStore
		}{base, tx, steps}
	case isTransactor && isWatcher:
		return struct {
			*store
			*txStore
			*sightStore
		}{base, tx, sights}
	case isStepper && isWatcher:
		return struct {
			*store
			*stepStore
			*sightStore
		}{base, steps, sights}
	case isTransactor:
		return struct {
			*store
			*txStore
		}{base, tx}
	case isStepper:
		return struct {
			*store
			*stepStore
		}{base, steps}
	case isWatcher:
		return struct {
			*store
			*sightStore
		}{base, sights}
	}
	return base
}

// call lets a call that returns something through.
func call[T any](g *Gates, event string, fn func() (T, error)) (result T, err error) {
	g.pass(event, func() { result, err = fn() })
	return result, err
}

// do lets a call through.
func (g *Gates) do(event string, fn func() error) (err error) {
	g.pass(event, func() { err = fn() })
	return err
}

// background is the event of what comes by time and not by request: it is none, but stops at a crash like all else.
const background = ""

// store is a core.Store behind gates.
type store struct {
	gates *Gates
	under core.Store
}

func (s *store) Claim(ctx context.Context, c core.Claim) (core.Claimed, error) {
	claimed, err := call(s.gates, "Claim", func() (core.Claimed, error) { return s.under.Claim(ctx, c) })
	if claimed.Won {
		s.gates.won()
	}
	return claimed, err
}

func (s *store) Renew(ctx context.Context, t core.Ticket, lease time.Duration) error {
	event := background
	if lease == 0 {
		event = "Renew" // gives the lease back
	}
	return s.gates.do(event, func() error { return s.under.Renew(ctx, t, lease) })
}

func (s *store) Complete(ctx context.Context, t core.Ticket, c core.Completion) error {
	return s.gates.do("Complete", func() error { return s.under.Complete(ctx, t, c) })
}

func (s *store) Park(ctx context.Context, t core.Ticket) error {
	return s.gates.do("Park", func() error { return s.under.Park(ctx, t) })
}

func (s *store) Release(ctx context.Context, t core.Ticket) error {
	return s.gates.do("Release", func() error { return s.under.Release(ctx, t) })
}

func (s *store) Find(ctx context.Context, id core.ID) (core.Record, error) {
	return call(s.gates, "Find", func() (core.Record, error) { return s.under.Find(ctx, id) })
}

func (s *store) List(ctx context.Context, after core.ID, limit int) ([]core.Record, error) {
	return call(s.gates, background, func() ([]core.Record, error) { return s.under.List(ctx, after, limit) })
}

func (s *store) Settle(ctx context.Context, settlement core.Settlement) (core.Record, error) {
	return call(s.gates, "Settle", func() (core.Record, error) { return s.under.Settle(ctx, settlement) })
}

func (s *store) Sweep(ctx context.Context, limit int) (core.Swept, error) {
	return call(s.gates, background, func() (core.Swept, error) { return s.under.Sweep(ctx, limit) })
}

// Import implements [core.Importer], with an error where the store underneath does not.
func (s *store) Import(ctx context.Context, records []core.Record) (int, error) {
	importer, ok := s.under.(core.Importer)
	if !ok {
		return 0, errors.New("idem: crashtest: the store takes no records over (core.Importer)")
	}
	return call(s.gates, "Import", func() (int, error) { return importer.Import(ctx, records) })
}

// Validate implements [core.Validator]: a store that cannot tell is taken for sound.
func (s *store) Validate(ctx context.Context) error {
	validator, ok := s.under.(core.Validator)
	if !ok {
		return nil
	}
	return s.gates.do(background, func() error { return validator.Validate(ctx) })
}

// txStore is what a core.Transactor has beside.
type txStore struct {
	gates *Gates
	under core.Transactor
}

func (s *txStore) Begin(ctx context.Context, c core.Claim) (core.Tx, core.Claimed, error) {
	var under core.Tx
	claimed, err := call(s.gates, "Begin", func() (claimed core.Claimed, err error) {
		under, claimed, err = s.under.Begin(ctx, c)
		if under != nil {
			s.gates.opened(under)
		}
		return claimed, err
	})
	if under == nil {
		return nil, claimed, err
	}
	s.gates.won()
	return &tx{s.gates, under}, claimed, err
}

// opened remembers a transaction for Kill, and ends it where that has come already.
func (g *Gates) opened(tx core.Tx) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isDead() {
		go func() { _ = tx.Rollback() }()
		return
	}
	g.txs[tx] = true
}

func (g *Gates) ended(tx core.Tx) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.txs, tx)
}

// tx is a core.Tx behind gates.
type tx struct {
	gates *Gates
	under core.Tx
}

func (t *tx) Bind(ctx context.Context) context.Context { return t.under.Bind(ctx) }

func (t *tx) Commit(ctx context.Context, c core.Completion, undo bool) error {
	return t.gates.do("Commit", func() error {
		defer t.gates.ended(t.under)
		return t.under.Commit(ctx, c, undo)
	})
}

func (t *tx) Rollback() error {
	return t.gates.do("Rollback", func() error {
		defer t.gates.ended(t.under)
		return t.under.Rollback()
	})
}

// stepStore is what a core.Stepper has beside.
type stepStore struct {
	gates *Gates
	under core.Stepper
}

func (s *stepStore) Steps(ctx context.Context, id core.ID) ([]core.StepRecord, error) {
	return call(s.gates, "Steps", func() ([]core.StepRecord, error) { return s.under.Steps(ctx, id) })
}

func (s *stepStore) StartStep(ctx context.Context, t core.Ticket, r core.StepRecord) (core.StepRecord, error) {
	return call(s.gates, "StartStep "+r.Name, func() (core.StepRecord, error) { return s.under.StartStep(ctx, t, r) })
}

func (s *stepStore) FinishStep(ctx context.Context, t core.Ticket, r core.StepRecord) error {
	return s.gates.do("FinishStep "+r.Name, func() error { return s.under.FinishStep(ctx, t, r) })
}

func (s *stepStore) Resumable(ctx context.Context, after core.ID, limit int) ([]core.Record, error) {
	return call(s.gates, background, func() ([]core.Record, error) { return s.under.Resumable(ctx, after, limit) })
}

// sightStore is what a core.Watcher has beside.
type sightStore struct {
	gates *Gates
	under core.Watcher
}

func (s *sightStore) Sight(ctx context.Context, sighting core.Sighting) (core.Seen, error) {
	return call(s.gates, "Sight", func() (core.Seen, error) { return s.under.Sight(ctx, sighting) })
}
