package crashtest

import (
	"context"
	"time"

	"github.com/auth19/idem/core"
)

var _ core.KeyTimer = (*gated)(nil)

// KeepAge implements [core.KeyTimer].
func (s *gated) KeepAge(ctx context.Context, service []byte, route string, age time.Duration, w core.Window,
) (core.KeptAge, error) {
	under, err := as[core.KeyTimer](s)
	if err != nil {
		return core.KeptAge{}, err
	}
	return call(s.gates, background, func() (core.KeptAge, error) { return under.KeepAge(ctx, service, route, age, w) })
}

// RefuseKeysBefore implements [core.KeyTimer].
func (s *gated) RefuseKeysBefore(ctx context.Context, service []byte, t time.Time, w core.Window) error {
	under, err := as[core.KeyTimer](s)
	if err != nil {
		return err
	}
	return s.gates.do(background, func() error { return under.RefuseKeysBefore(ctx, service, t, w) })
}
