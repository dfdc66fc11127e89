package gormstore

import (
	"context"

	"github.com/auth19/idem/core"
)

var _ core.Counter = (*Store)(nil)

// CountOpen implements [core.Counter]. It reads no more of an index than limit entries, and waits in line with the
// claims.
func (s *Store) CountOpen(ctx context.Context, scope core.Scope, limit int) (n int, err error) {
	if err := s.enterClaim(ctx); err != nil {
		return 0, err
	}
	defer s.leaveClaim()
	err = s.onPool(ctx, func(q querier) error {
		return s.queryRow(ctx, q, countOpen, scope[:], limit).Scan(&n)
	})
	return n, err
}
