package crashtest

import (
	"context"

	"github.com/auth19/idem/core/store"
)

// Count implements [store.Operations].
func (s *gated) Count(ctx context.Context, q store.Query) ([]store.Count, error) {
	under, err := as[store.Operations](s)
	if err != nil {
		return nil, err
	}
	return call(s.gates, background, func() ([]store.Count, error) { return under.Count(ctx, q) })
}

// OpenSteps implements [store.Operations].
func (s *gated) OpenSteps(ctx context.Context, within []byte, limit int) ([]store.OpenStep, error) {
	under, err := as[store.Operations](s)
	if err != nil {
		return nil, err
	}
	return call(s.gates, background, func() ([]store.OpenStep, error) { return under.OpenSteps(ctx, within, limit) })
}

// Near implements [store.Operations].
func (s *gated) Near(ctx context.Context, within []byte, n store.Near, limit int) ([]store.ID, error) {
	under, err := as[store.Operations](s)
	if err != nil {
		return nil, err
	}
	return call(s.gates, background, func() ([]store.ID, error) { return under.Near(ctx, within, n, limit) })
}

// History implements [store.Operations].
func (s *gated) History(ctx context.Context, id store.ID) ([]store.SettlementRecord, error) {
	under, err := as[store.Operations](s)
	if err != nil {
		return nil, err
	}
	return call(s.gates, background, func() ([]store.SettlementRecord, error) { return under.History(ctx, id) })
}

// LastSettled implements [store.Operations].
func (s *gated) LastSettled(ctx context.Context, within []byte, by string, limit int) ([]store.SettledOperation, error) {
	under, err := as[store.Operations](s)
	if err != nil {
		return nil, err
	}
	return call(s.gates, background, func() ([]store.SettledOperation, error) {
		return under.LastSettled(ctx, within, by, limit)
	})
}

// LastAnswered implements [store.Operations].
func (s *gated) LastAnswered(ctx context.Context, within []byte, method, route string) (store.Record, error) {
	under, err := as[store.Operations](s)
	if err != nil {
		return store.Record{}, err
	}
	return call(s.gates, background, func() (store.Record, error) { return under.LastAnswered(ctx, within, method, route) })
}

// Refer implements [store.Operations].
func (s *gated) Refer(ctx context.Context, id store.ID, realm store.Realm, ref store.Ref) error {
	under, err := as[store.Operations](s)
	if err != nil {
		return err
	}
	_, err = call(s.gates, "Refer", func() (struct{}, error) { return struct{}{}, under.Refer(ctx, id, realm, ref) })
	return err
}

// References implements [store.Operations].
func (s *gated) References(ctx context.Context, ids []store.ID) (map[store.ID][]store.Ref, error) {
	under, err := as[store.Operations](s)
	if err != nil {
		return nil, err
	}
	return call(s.gates, background, func() (map[store.ID][]store.Ref, error) { return under.References(ctx, ids) })
}

// Referred implements [store.Operations].
func (s *gated) Referred(ctx context.Context, within []byte, value string, limit int) ([]store.ID, error) {
	under, err := as[store.Operations](s)
	if err != nil {
		return nil, err
	}
	return call(s.gates, background, func() ([]store.ID, error) { return under.Referred(ctx, within, value, limit) })
}
