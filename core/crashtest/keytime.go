package crashtest

import (
	"context"
	"time"

	"github.com/auth19/idem/core/store"
)

var _ store.Settings = (*gated)(nil)

// KeepAge implements [store.Settings].
func (s *gated) KeepAge(ctx context.Context, service []byte, route string, age time.Duration, w store.Window,
) (store.AgeLimit, error) {
	under, err := as[store.Settings](s)
	if err != nil {
		return store.AgeLimit{}, err
	}
	return call(s.gates, background, func() (store.AgeLimit, error) { return under.KeepAge(ctx, service, route, age, w) })
}

// RefuseKeysBefore implements [store.Settings].
func (s *gated) RefuseKeysBefore(ctx context.Context, service []byte, r store.Refusal) error {
	under, err := as[store.Settings](s)
	if err != nil {
		return err
	}
	return s.gates.do(background, func() error { return under.RefuseKeysBefore(ctx, service, r) })
}
