package crashtest

import (
	"context"

	"github.com/auth19/idem/core"
)

// Unsettled implements [core.Inspectable].
func (s *store) Unsettled(ctx context.Context, q core.UnsettledQuery) ([]core.Record, error) {
	under, err := as[core.Inspectable](s)
	if err != nil {
		return nil, err
	}
	return call(s.gates, background, func() ([]core.Record, error) { return under.Unsettled(ctx, q) })
}

// CountUnsettled implements [core.Inspectable].
func (s *store) CountUnsettled(ctx context.Context, within []byte, limit int) ([]core.UnsettledCount, error) {
	under, err := as[core.Inspectable](s)
	if err != nil {
		return nil, err
	}
	return call(s.gates, background, func() ([]core.UnsettledCount, error) { return under.CountUnsettled(ctx, within, limit) })
}

// History implements [core.Inspectable].
func (s *store) History(ctx context.Context, id core.ID) ([]core.SettlementRecord, error) {
	under, err := as[core.Inspectable](s)
	if err != nil {
		return nil, err
	}
	return call(s.gates, background, func() ([]core.SettlementRecord, error) { return under.History(ctx, id) })
}
