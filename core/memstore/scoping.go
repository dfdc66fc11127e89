package memstore

import (
	"context"

	"github.com/auth19/idem/core/store"
)

var _ store.Settings = (*Store)(nil)

// KeepScoping implements [store.Settings].
func (s *Store) KeepScoping(ctx context.Context, namespace, fingerprint string) (string, error) {
	if err := alive(ctx); err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.scopings) == 0 {
		s.scopings[namespace] = fingerprint
	}
	return s.scopings[namespace], nil
}

// AdoptScoping implements [store.Settings].
func (s *Store) AdoptScoping(ctx context.Context, namespace, fingerprint string) error {
	if err := alive(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scopings[namespace] = fingerprint
	return nil
}
