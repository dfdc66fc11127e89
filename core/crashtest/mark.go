package crashtest

import (
	"context"

	"github.com/auth19/idem/core/store"
)

// Mark implements [store.Operations].
func (s *gated) Mark(ctx context.Context, m store.Marking) (store.Imported, error) {
	return call(s.gates, "Mark", func() (store.Imported, error) { return s.under.Mark(ctx, m) })
}

// Adopt implements [store.Operations].
func (s *gated) Adopt(ctx context.Context, c store.Claim) error {
	return s.gates.do(background, func() error { return s.under.Adopt(ctx, c) })
}
