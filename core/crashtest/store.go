package crashtest

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/auth19/idem/core/store"
)

// Store returns a store for an app in this process, in front of s: each call of the protocol is an event. It has the
// abilities of s, and is a [store.Transactor] if s is one. Crashes do not touch s itself: it must be the same for all
// lives of the app.
func (g *Gates) Store(s store.Store) store.Store {
	base := &gated{g, s}
	if under, ok := s.(store.Transactor); ok {
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

// gated is a store.Store behind gates.
type gated struct {
	gates *Gates
	under store.Store
}

func (s *gated) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	claimed, err := call(s.gates, "Claim", func() (store.Claimed, error) { return s.under.Claim(ctx, c) })
	if claimed.Won {
		s.gates.won()
	}
	return claimed, err
}

func (s *gated) Renew(ctx context.Context, t store.Ticket, lease time.Duration) error {
	event := background
	if lease == 0 {
		event = "Renew" // gives the lease back
	}
	return s.gates.do(event, func() error { return s.under.Renew(ctx, t, lease) })
}

func (s *gated) Complete(ctx context.Context, t store.Ticket, c store.Completion) error {
	return s.gates.do("Complete", func() error { return s.under.Complete(ctx, t, c) })
}

func (s *gated) Park(ctx context.Context, t store.Ticket) error {
	return s.gates.do("Park", func() error { return s.under.Park(ctx, t) })
}

func (s *gated) Release(ctx context.Context, t store.Ticket) error {
	return s.gates.do("Release", func() error { return s.under.Release(ctx, t) })
}

func (s *gated) Find(ctx context.Context, id store.ID) (store.Record, error) {
	return call(s.gates, "Find", func() (store.Record, error) { return s.under.Find(ctx, id) })
}

func (s *gated) FindFor(ctx context.Context, id store.ID, v store.Viewer) (store.Record, error) {
	return call(s.gates, "Find", func() (store.Record, error) { return s.under.FindFor(ctx, id, v) })
}

func (s *gated) List(ctx context.Context, q store.Query) ([]store.Record, error) {
	return call(s.gates, background, func() ([]store.Record, error) { return s.under.List(ctx, q) })
}

func (s *gated) Settle(ctx context.Context, settlement store.Settlement) (store.Record, error) {
	return call(s.gates, "Settle", func() (store.Record, error) { return s.under.Settle(ctx, settlement) })
}

func (s *gated) Sweep(ctx context.Context, limit int, w store.Window) (store.Swept, error) {
	return call(s.gates, background, func() (store.Swept, error) { return s.under.Sweep(ctx, limit, w) })
}

// as is the store underneath with one of its optional abilities. If the store lacks an ability that the app needs, the
// app does not start without the gates; with them, its requests fail.
func as[T store.Store](s *gated) (T, error) {
	under, ok := s.under.(T)
	if !ok {
		return under, fmt.Errorf("idem: crashtest: %T is no %v", s.under, reflect.TypeFor[T]())
	}
	return under, nil
}

// Import implements [store.Operations].
func (s *gated) Import(ctx context.Context, records []store.Record) (store.Imported, error) {
	under, err := as[store.Operations](s)
	if err != nil {
		return store.Imported{}, err
	}
	return call(s.gates, "Import", func() (store.Imported, error) { return under.Import(ctx, records) })
}

// CountOpen implements [store.Operations].
func (s *gated) CountOpen(ctx context.Context, scope store.Scope, limit int) (int, error) {
	under, err := as[store.Operations](s)
	if err != nil {
		return 0, err
	}
	return call(s.gates, "CountOpen", func() (int, error) { return under.CountOpen(ctx, scope, limit) })
}

// Erase implements [store.Operations].
func (s *gated) Erase(ctx context.Context, scope store.Scope, after store.ID, limit int) (store.ErasedPage, error) {
	under, err := as[store.Operations](s)
	if err != nil {
		return store.ErasedPage{}, err
	}
	return call(s.gates, "Erase", func() (store.ErasedPage, error) { return under.Erase(ctx, scope, after, limit) })
}

// Sight implements [store.Sightings].
func (s *gated) Sight(ctx context.Context, sighting store.Sighting) (store.Seen, error) {
	under, err := as[store.Sightings](s)
	if err != nil {
		return store.Seen{}, err
	}
	return call(s.gates, "Sight", func() (store.Seen, error) { return under.Sight(ctx, sighting) })
}

// KeepScoping implements [store.Settings]: a store that keeps nothing agrees.
func (s *gated) KeepScoping(ctx context.Context, namespace, fingerprint string) (string, error) {
	under, ok := s.under.(store.Settings)
	if !ok {
		return fingerprint, nil
	}
	return call(s.gates, background, func() (string, error) { return under.KeepScoping(ctx, namespace, fingerprint) })
}

// AdoptScoping implements [store.Settings].
func (s *gated) AdoptScoping(ctx context.Context, namespace, fingerprint string) error {
	under, err := as[store.Settings](s)
	if err != nil {
		return err
	}
	return s.gates.do(background, func() error { return under.AdoptScoping(ctx, namespace, fingerprint) })
}

// Steps implements [store.Stepper].
func (s *gated) Steps(ctx context.Context, id store.ID) ([]store.StepRecord, error) {
	under, err := as[store.Stepper](s)
	if err != nil {
		return nil, err
	}
	return call(s.gates, "Steps", func() ([]store.StepRecord, error) { return under.Steps(ctx, id) })
}

// Resume implements [store.Stepper].
func (s *gated) Resume(ctx context.Context, c store.Claim) (store.Segments, store.Claimed, error) {
	stepper, err := as[store.Stepper](s)
	if err != nil {
		return nil, store.Claimed{}, err
	}
	var under store.Segments
	claimed, err := call(s.gates, "Resume", func() (claimed store.Claimed, err error) {
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

// InFlight implements [store.Transactor] and [store.Stepper].
func (s *gated) InFlight(ctx context.Context, id store.ID) (bool, error) {
	under, ok := s.under.(interface {
		InFlight(ctx context.Context, id store.ID) (bool, error)
	})
	if !ok {
		return false, nil
	}
	return call(s.gates, "InFlight", func() (bool, error) { return under.InFlight(ctx, id) })
}

// txStore is a store.Transactor behind gates.
type txStore struct {
	*gated
	transactor store.Transactor
}

func (s *txStore) Begin(ctx context.Context, c store.Claim) (store.Tx, store.Claimed, error) {
	var under store.Tx
	claimed, err := call(s.gates, "Begin", func() (claimed store.Claimed, err error) {
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
func (g *Gates) opened(tx store.Tx) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isDead() {
		go func() { _ = tx.Rollback() }()
		return
	}
	g.txs[tx] = true
}

func (g *Gates) ended(tx store.Tx) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.txs, tx)
}

// tx is a store.Tx behind gates.
type tx struct {
	gates *Gates
	under store.Tx
}

func (t *tx) Bind(ctx context.Context) context.Context { return t.under.Bind(ctx) }

// Wrote implements [store.WrittenTx]: if the transaction cannot tell, Wrote says nothing about it.
func (t *tx) Wrote() bool {
	under, ok := t.under.(store.WrittenTx)
	return !ok || under.Wrote()
}

// FailedWith implements [store.FailedTx].
func (t *tx) FailedWith() string {
	under, ok := t.under.(store.FailedTx)
	if !ok {
		return ""
	}
	return under.FailedWith()
}

// Seal ends a transaction of a Rollback attempt. A Resume attempt may have more of them.
func (t *tx) Seal(ctx context.Context, s store.Seal) (now time.Time, err error) {
	return call(t.gates, nameOf(s), func() (time.Time, error) {
		if s.Answer != nil {
			defer t.gates.ended(t.under)
		}
		return t.under.Seal(ctx, s)
	})
}

// nameOf is the event of a seal: what it makes durable last.
func nameOf(s store.Seal) string {
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

// segments are a store.Segments behind gates. What an app writes in a step passes the gates of its database.
type segments struct {
	tx
	under store.Segments
}

func (s *segments) Opening(fn func() error) { s.under.Opening(fn) }

func (s *segments) Step(ctx context.Context, work func(ctx context.Context) error) error {
	return s.under.Step(ctx, work)
}
