package crashtest

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/auth19/idem/core"
)

// Store returns a store for an app in this process, in front of s: each call of the protocol is an event. It has the
// abilities of s, and is a [core.Transactor] if s is one. Crashes do not touch s itself: it must be the same for all
// lives of the app.
func (g *Gates) Store(s core.Store) core.Store {
	base := &gated{g, s}
	if under, ok := s.(core.Transactor); ok {
		return &txStore{base, under}
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

// background is for calls that no request has caused: they are no events, but a crash stops them too.
const background = ""

// gated is a core.Store behind gates.
type gated struct {
	gates *Gates
	under core.Store
}

func (s *gated) Claim(ctx context.Context, c core.Claim) (core.Claimed, error) {
	claimed, err := call(s.gates, "Claim", func() (core.Claimed, error) { return s.under.Claim(ctx, c) })
	if claimed.Won {
		s.gates.won()
	}
	return claimed, err
}

func (s *gated) Renew(ctx context.Context, t core.Ticket, lease time.Duration) error {
	event := background
	if lease == 0 {
		event = "Renew" // gives the lease back
	}
	return s.gates.do(event, func() error { return s.under.Renew(ctx, t, lease) })
}

func (s *gated) Complete(ctx context.Context, t core.Ticket, c core.Completion) error {
	return s.gates.do("Complete", func() error { return s.under.Complete(ctx, t, c) })
}

func (s *gated) Park(ctx context.Context, t core.Ticket) error {
	return s.gates.do("Park", func() error { return s.under.Park(ctx, t) })
}

func (s *gated) Release(ctx context.Context, t core.Ticket) error {
	return s.gates.do("Release", func() error { return s.under.Release(ctx, t) })
}

func (s *gated) Find(ctx context.Context, id core.ID) (core.Record, error) {
	return call(s.gates, "Find", func() (core.Record, error) { return s.under.Find(ctx, id) })
}

func (s *gated) List(ctx context.Context, within []byte, after core.ID, limit int) ([]core.Record, error) {
	return call(s.gates, background, func() ([]core.Record, error) { return s.under.List(ctx, within, after, limit) })
}

func (s *gated) Settle(ctx context.Context, settlement core.Settlement) (core.Record, error) {
	return call(s.gates, "Settle", func() (core.Record, error) { return s.under.Settle(ctx, settlement) })
}

func (s *gated) Sweep(ctx context.Context, limit int, w core.Window) (core.Swept, error) {
	return call(s.gates, background, func() (core.Swept, error) { return s.under.Sweep(ctx, limit, w) })
}

// as is the store underneath with one of its optional abilities. If the store lacks an ability that the app needs, the
// app does not start without the gates; with them, its requests fail.
func as[T core.Store](s *gated) (T, error) {
	under, ok := s.under.(T)
	if !ok {
		return under, fmt.Errorf("idem: crashtest: %T is no %v", s.under, reflect.TypeFor[T]())
	}
	return under, nil
}

// Import implements [core.Importer].
func (s *gated) Import(ctx context.Context, records []core.Record) (core.Imported, error) {
	under, err := as[core.Importer](s)
	if err != nil {
		return core.Imported{}, err
	}
	return call(s.gates, "Import", func() (core.Imported, error) { return under.Import(ctx, records) })
}

// CountOpen implements [core.Counter].
func (s *gated) CountOpen(ctx context.Context, scope core.Scope, limit int) (int, error) {
	under, err := as[core.Counter](s)
	if err != nil {
		return 0, err
	}
	return call(s.gates, "CountOpen", func() (int, error) { return under.CountOpen(ctx, scope, limit) })
}

// Erase implements [core.Eraser].
func (s *gated) Erase(ctx context.Context, scope core.Scope, after core.ID, limit int) (core.ErasedPage, error) {
	under, err := as[core.Eraser](s)
	if err != nil {
		return core.ErasedPage{}, err
	}
	return call(s.gates, "Erase", func() (core.ErasedPage, error) { return under.Erase(ctx, scope, after, limit) })
}

// Survey implements [core.Surveyor].
func (s *gated) Survey(ctx context.Context, within []byte, limit int) ([]core.Backlog, error) {
	under, err := as[core.Surveyor](s)
	if err != nil {
		return nil, err
	}
	return call(s.gates, background, func() ([]core.Backlog, error) { return under.Survey(ctx, within, limit) })
}

// Sight implements [core.Watcher].
func (s *gated) Sight(ctx context.Context, sighting core.Sighting) (core.Seen, error) {
	under, err := as[core.Watcher](s)
	if err != nil {
		return core.Seen{}, err
	}
	return call(s.gates, "Sight", func() (core.Seen, error) { return under.Sight(ctx, sighting) })
}

// KeepScoping implements [core.ScopeKeeper]: a store that keeps nothing agrees.
func (s *gated) KeepScoping(ctx context.Context, namespace, fingerprint string) (string, error) {
	under, ok := s.under.(core.ScopeKeeper)
	if !ok {
		return fingerprint, nil
	}
	return call(s.gates, background, func() (string, error) { return under.KeepScoping(ctx, namespace, fingerprint) })
}

// AdoptScoping implements [core.ScopeKeeper].
func (s *gated) AdoptScoping(ctx context.Context, namespace, fingerprint string) error {
	under, err := as[core.ScopeKeeper](s)
	if err != nil {
		return err
	}
	return s.gates.do(background, func() error { return under.AdoptScoping(ctx, namespace, fingerprint) })
}

// Steps implements [core.Stepper].
func (s *gated) Steps(ctx context.Context, id core.ID) ([]core.StepRecord, error) {
	under, err := as[core.Stepper](s)
	if err != nil {
		return nil, err
	}
	return call(s.gates, "Steps", func() ([]core.StepRecord, error) { return under.Steps(ctx, id) })
}

// Resume implements [core.Stepper].
func (s *gated) Resume(ctx context.Context, c core.Claim) (core.Segments, core.Claimed, error) {
	stepper, err := as[core.Stepper](s)
	if err != nil {
		return nil, core.Claimed{}, err
	}
	var under core.Segments
	claimed, err := call(s.gates, "Resume", func() (claimed core.Claimed, err error) {
		under, claimed, err = stepper.Resume(ctx, c)
		if under != nil {
			s.gates.opened(under)
		}
		return claimed, err
	})
	if under == nil {
		return nil, claimed, err
	}
	s.gates.won()
	return &segments{tx{s.gates, under}, under}, claimed, err
}

// InFlight implements [core.Transactor] and [core.Stepper].
func (s *gated) InFlight(ctx context.Context, id core.ID) (bool, error) {
	under, ok := s.under.(interface {
		InFlight(ctx context.Context, id core.ID) (bool, error)
	})
	if !ok {
		return false, nil
	}
	return call(s.gates, "InFlight", func() (bool, error) { return under.InFlight(ctx, id) })
}

// Resumable implements [core.Stepper].
func (s *gated) Resumable(ctx context.Context, within []byte, after core.ID, limit int) ([]core.Record, error) {
	under, err := as[core.Stepper](s)
	if err != nil {
		return nil, err
	}
	return call(s.gates, background, func() ([]core.Record, error) { return under.Resumable(ctx, within, after, limit) })
}

// HalfDone implements [core.Stepper].
func (s *gated) HalfDone(ctx context.Context, within []byte, after core.ID, limit int) ([]core.Record, error) {
	under, err := as[core.Stepper](s)
	if err != nil {
		return nil, err
	}
	return call(s.gates, background, func() ([]core.Record, error) { return under.HalfDone(ctx, within, after, limit) })
}

// Validate implements [core.Validator]: a store that cannot tell counts as sound.
func (s *gated) Validate(ctx context.Context) error {
	under, ok := s.under.(core.Validator)
	if !ok {
		return nil
	}
	return s.gates.do(background, func() error { return under.Validate(ctx) })
}

// txStore is a core.Transactor behind gates.
type txStore struct {
	*gated
	transactor core.Transactor
}

func (s *txStore) Begin(ctx context.Context, c core.Claim) (core.Tx, core.Claimed, error) {
	var under core.Tx
	claimed, err := call(s.gates, "Begin", func() (claimed core.Claimed, err error) {
		under, claimed, err = s.transactor.Begin(ctx, c)
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

// opened remembers a transaction for Kill, and ends it if the app was killed already.
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

// Asked implements [core.AskedTx]: if the transaction cannot tell, Asked says nothing about it.
func (t *tx) Asked() bool {
	under, ok := t.under.(core.AskedTx)
	return !ok || under.Asked()
}

// Seal ends a transaction of a Rollback attempt. A Resume attempt may have more of them.
func (t *tx) Seal(ctx context.Context, s core.Seal) (now time.Time, err error) {
	return call(t.gates, nameOf(s), func() (time.Time, error) {
		if s.Answer != nil {
			defer t.gates.ended(t.under)
		}
		return t.under.Seal(ctx, s)
	})
}

// nameOf is the event of a seal: what it makes durable last.
func nameOf(s core.Seal) string {
	switch {
	case s.Answer != nil:
		return "Seal answer"
	case s.Start != nil:
		return "Seal start of " + s.Start.Name
	case s.Alone:
		return "Seal results"
	}
	return "Seal"
}

func (t *tx) Rollback() error {
	return t.gates.do("Rollback", func() error {
		defer t.gates.ended(t.under)
		return t.under.Rollback()
	})
}

// segments are a core.Segments behind gates. What an app writes in a step passes the gates of its database.
type segments struct {
	tx
	under core.Segments
}

func (s *segments) Opening(fn func() error) { s.under.Opening(fn) }

func (s *segments) Step(ctx context.Context, work func(ctx context.Context) error) error {
	return s.under.Step(ctx, work)
}
