package crashtest

import (
	"context"

	"github.com/auth19/idem/core"
)

// Unsettled implements [core.Inspectable].
func (s *gated) Unsettled(ctx context.Context, q core.UnsettledQuery) ([]core.Record, error) {
	under, err := as[core.Inspectable](s)
	if err != nil {
		return nil, err
	}
	return call(s.gates, background, func() ([]core.Record, error) { return under.Unsettled(ctx, q) })
}

// CountUnsettled implements [core.Inspectable].
func (s *gated) CountUnsettled(ctx context.Context, q core.UnsettledQuery) ([]core.UnsettledCount, error) {
	under, err := as[core.Inspectable](s)
	if err != nil {
		return nil, err
	}
	return call(s.gates, background, func() ([]core.UnsettledCount, error) { return under.CountUnsettled(ctx, q) })
}

// OpenSteps implements [core.Inspectable].
func (s *gated) OpenSteps(ctx context.Context, within []byte, limit int) ([]core.OpenStep, error) {
	under, err := as[core.Inspectable](s)
	if err != nil {
		return nil, err
	}
	return call(s.gates, background, func() ([]core.OpenStep, error) { return under.OpenSteps(ctx, within, limit) })
}

// Near implements [core.Inspectable].
func (s *gated) Near(ctx context.Context, within []byte, n core.Near, limit int) ([]core.ID, error) {
	under, err := as[core.Inspectable](s)
	if err != nil {
		return nil, err
	}
	return call(s.gates, background, func() ([]core.ID, error) { return under.Near(ctx, within, n, limit) })
}

// History implements [core.Inspectable].
func (s *gated) History(ctx context.Context, id core.ID) ([]core.SettlementRecord, error) {
	under, err := as[core.Inspectable](s)
	if err != nil {
		return nil, err
	}
	return call(s.gates, background, func() ([]core.SettlementRecord, error) { return under.History(ctx, id) })
}

// LastSettled implements [core.Inspectable].
func (s *gated) LastSettled(ctx context.Context, within []byte, by string, limit int) ([]core.SettledOperation, error) {
	under, err := as[core.Inspectable](s)
	if err != nil {
		return nil, err
	}
	return call(s.gates, background, func() ([]core.SettledOperation, error) {
		return under.LastSettled(ctx, within, by, limit)
	})
}

// LastAnswered implements [core.Inspectable].
func (s *gated) LastAnswered(ctx context.Context, within []byte, method, route string) (core.Record, error) {
	under, err := as[core.Inspectable](s)
	if err != nil {
		return core.Record{}, err
	}
	return call(s.gates, background, func() (core.Record, error) { return under.LastAnswered(ctx, within, method, route) })
}

// Refer implements [core.Referrer].
func (s *gated) Refer(ctx context.Context, id core.ID, realm core.Realm, ref core.Ref) error {
	under, err := as[core.Referrer](s)
	if err != nil {
		return err
	}
	_, err = call(s.gates, "Refer", func() (struct{}, error) { return struct{}{}, under.Refer(ctx, id, realm, ref) })
	return err
}

// References implements [core.Referrer].
func (s *gated) References(ctx context.Context, ids []core.ID) (map[core.ID][]core.Ref, error) {
	under, err := as[core.Referrer](s)
	if err != nil {
		return nil, err
	}
	return call(s.gates, background, func() (map[core.ID][]core.Ref, error) { return under.References(ctx, ids) })
}

// Referred implements [core.Referrer].
func (s *gated) Referred(ctx context.Context, within []byte, value string, limit int) ([]core.ID, error) {
	under, err := as[core.Referrer](s)
	if err != nil {
		return nil, err
	}
	return call(s.gates, background, func() ([]core.ID, error) { return under.Referred(ctx, within, value, limit) })
}
