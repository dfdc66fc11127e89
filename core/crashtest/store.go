package crashtest

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/auth19/idem/core/store"
)

// Store returns a store for an app in this process, in front of s: each call of the protocol is an event. It has the
// abilities of s. Crashes do not touch s itself: it must be the same for all lives of the app.
func (g *Gates) Store(s store.Operations) store.Operations { return &gated{g, s} }

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

// gated is a store behind gates.
type gated struct {
	gates *Gates
	under store.Operations
}

func (s *gated) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	claimed, err := call(s.gates, "Claim", func() (store.Claimed, error) { return s.under.Claim(ctx, c) })
	if claimed.Won {
		s.gates.won()
	}
	return claimed, err
}

func (s *gated) Renew(ctx context.Context, t store.Ticket, lease time.Duration) error {
	return s.gates.do(background, func() error { return s.under.Renew(ctx, t, lease) })
}

func (s *gated) End(ctx context.Context, t store.Ticket, e store.Ending) error {
	return s.gates.do("End "+e.State.String(), func() error { return s.under.End(ctx, t, e) })
}

func (s *gated) Release(ctx context.Context, lost []store.Ticket) error {
	return s.gates.do("Release", func() error { return s.under.Release(ctx, lost) })
}

func (s *gated) Find(ctx context.Context, id store.ID, v store.Viewer) (store.Record, error) {
	return call(s.gates, "Find", func() (store.Record, error) { return s.under.Find(ctx, id, v) })
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
	return call(s.gates, "Import", func() (store.Imported, error) { return s.under.Import(ctx, records) })
}

// CountOpen implements [store.Operations].
func (s *gated) CountOpen(ctx context.Context, scope store.Scope, limit int) (int, error) {
	return call(s.gates, "CountOpen", func() (int, error) { return s.under.CountOpen(ctx, scope, limit) })
}

// Erase implements [store.Operations].
func (s *gated) Erase(ctx context.Context, scope store.Scope, after store.ID, limit int) (store.ErasedPage, error) {
	return call(s.gates, "Erase", func() (store.ErasedPage, error) { return s.under.Erase(ctx, scope, after, limit) })
}

// LogCommand implements [store.CommandLog].
func (s *gated) LogCommand(ctx context.Context, c store.LoggedCommand) (store.EarlierCommands, error) {
	under, err := as[store.CommandLog](s)
	if err != nil {
		return store.EarlierCommands{}, err
	}
	return call(s.gates, "LogCommand", func() (store.EarlierCommands, error) { return under.LogCommand(ctx, c) })
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

// Rows implements [store.Attempts].
func (s *gated) Rows() bool {
	under, err := as[store.Attempts](s)
	return err == nil && under.Rows()
}

// Steps implements [store.Attempts].
func (s *gated) Steps(ctx context.Context, id store.ID) ([]store.StepRecord, error) {
	under, err := as[store.Attempts](s)
	if err != nil {
		return nil, err
	}
	return call(s.gates, "Steps", func() ([]store.StepRecord, error) { return under.Steps(ctx, id) })
}

// Begin implements [store.Attempts].
func (s *gated) Begin(ctx context.Context, c store.Claim) (store.Attempt, store.Claimed, error) {
	attempts, err := as[store.Attempts](s)
	if err != nil {
		return nil, store.Claimed{}, err
	}
	var under store.Attempt
	claimed, err := call(s.gates, "Begin", func() (claimed store.Claimed, err error) {
		under, claimed, err = attempts.Begin(ctx, c)
		if under != nil {
			s.gates.opened(under)
		}
		return claimed, err
	})
	if under == nil {
		return nil, claimed, err
	}
	s.gates.won()
	return &attempt{under, s.gates}, claimed, err
}

// InFlight implements [store.Attempts].
func (s *gated) InFlight(ctx context.Context, id store.ID) (bool, error) {
	under, err := as[store.Attempts](s)
	if err != nil {
		return false, nil //nolint:nilerr // such a store has no attempts that cannot be seen
	}
	return call(s.gates, "InFlight", func() (bool, error) { return under.InFlight(ctx, id) })
}

// opened remembers an attempt for Kill, and ends it if the app was killed already.
func (g *Gates) opened(tx store.Attempt) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isDead() {
		go func() { _ = tx.Rollback() }()
		return
	}
	g.txs[tx] = true
}

func (g *Gates) ended(tx store.Attempt) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.txs, tx)
}

// attempt is a store.Attempt behind gates. What an app writes passes the gates of its database.
type attempt struct {
	store.Attempt
	gates *Gates
}

// Seal ends a segment. A Resume attempt may have more of them.
func (t *attempt) Seal(ctx context.Context, s store.Seal) (now time.Time, err error) {
	return call(t.gates, nameOf(s), func() (time.Time, error) {
		if s.Answer != nil {
			defer t.gates.ended(t.Attempt)
		}
		return t.Attempt.Seal(ctx, s)
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

func (t *attempt) Rollback() error {
	return t.gates.do("Rollback", func() error {
		defer t.gates.ended(t.Attempt)
		return t.Attempt.Rollback()
	})
}
