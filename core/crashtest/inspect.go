package crashtest

import (
	"context"

	"github.com/auth19/idem/core/store"
)

// Intervene implements [store.Operations].
func (s *gated) Intervene(ctx context.Context, i store.Intervention) (store.Record, error) {
	under, err := as[store.Operations](s)
	if err != nil {
		return store.Record{}, err
	}
	return call(s.gates, "Intervene", func() (store.Record, error) { return under.Intervene(ctx, i) })
}

// Ready implements [store.Operations].
func (s *gated) Ready(ctx context.Context) error {
	return s.gates.do(background, func() error { return s.under.Ready(ctx) })
}

// Count implements [store.Operations].
func (s *gated) Count(ctx context.Context, q store.Query) ([]store.Count, error) {
	return call(s.gates, background, func() ([]store.Count, error) { return s.under.Count(ctx, q) })
}

// Flow implements [store.Operations].
func (s *gated) Flow(ctx context.Context, within []byte, hours int) ([]store.Hour, error) {
	return call(s.gates, background, func() ([]store.Hour, error) { return s.under.Flow(ctx, within, hours) })
}

// OpenSteps implements [store.Operations].
func (s *gated) OpenSteps(ctx context.Context, within []byte, limit int) ([]store.OpenStep, error) {
	return call(s.gates, background, func() ([]store.OpenStep, error) { return s.under.OpenSteps(ctx, within, limit) })
}

// Near implements [store.Operations].
func (s *gated) Near(ctx context.Context, within []byte, n store.Near, limit int) ([]store.ID, error) {
	return call(s.gates, background, func() ([]store.ID, error) { return s.under.Near(ctx, within, n, limit) })
}

// History implements [store.Operations].
func (s *gated) History(ctx context.Context, id store.ID) ([]store.SettlementRecord, error) {
	return call(s.gates, background, func() ([]store.SettlementRecord, error) { return s.under.History(ctx, id) })
}

// LastSettled implements [store.Operations].
func (s *gated) LastSettled(ctx context.Context, within []byte, by string, limit int) ([]store.SettledOperation, error) {
	return call(s.gates, background, func() ([]store.SettledOperation, error) {
		return s.under.LastSettled(ctx, within, by, limit)
	})
}

// LastAnswered implements [store.Operations].
func (s *gated) LastAnswered(ctx context.Context, within []byte, method, route string) (store.Record, error) {
	return call(s.gates, background, func() (store.Record, error) { return s.under.LastAnswered(ctx, within, method, route) })
}

// Annotate implements [store.Operations].
func (s *gated) Annotate(ctx context.Context, n store.Note) error {
	return s.gates.do(background, func() error { return s.under.Annotate(ctx, n) })
}

// Notes implements [store.Operations].
func (s *gated) Notes(ctx context.Context, ids []store.ID) (map[store.ID][]store.Note, error) {
	return call(s.gates, background, func() (map[store.ID][]store.Note, error) { return s.under.Notes(ctx, ids) })
}

// Propose implements [store.Proposals].
func (s *gated) Propose(ctx context.Context, n store.Note, w store.Window) error {
	under, err := as[store.Proposals](s)
	if err != nil {
		return err
	}
	return s.gates.do("Propose", func() error { return under.Propose(ctx, n, w) })
}

// Withdraw implements [store.Proposals].
func (s *gated) Withdraw(ctx context.Context, token [16]byte, n store.Note) error {
	under, err := as[store.Proposals](s)
	if err != nil {
		return err
	}
	return s.gates.do("Withdraw", func() error { return under.Withdraw(ctx, token, n) })
}

// Refer implements [store.Operations].
func (s *gated) Refer(ctx context.Context, id store.ID, realm store.Realm, ref store.Ref) error {
	return s.gates.do("Refer", func() error { return s.under.Refer(ctx, id, realm, ref) })
}

// References implements [store.Operations].
func (s *gated) References(ctx context.Context, ids []store.ID) (map[store.ID][]store.Ref, error) {
	return call(s.gates, background, func() (map[store.ID][]store.Ref, error) { return s.under.References(ctx, ids) })
}

// Referred implements [store.Operations].
func (s *gated) Referred(ctx context.Context, q store.Query) (store.ReferredPage, error) {
	return call(s.gates, background, func() (store.ReferredPage, error) { return s.under.Referred(ctx, q) })
}
