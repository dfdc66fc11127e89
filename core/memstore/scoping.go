package memstore

import (
	"context"
	"sync"

	"github.com/auth19/idem/core/store"
)

var _ store.ScopeKeeper = (*Store)(nil)

// scopings are the fingerprints that are kept, by namespace.
type scopings struct {
	mu   sync.Mutex
	kept map[string]string
}

// KeepScoping implements [store.ScopeKeeper].
func (s *Store) KeepScoping(ctx context.Context, namespace, fingerprint string) (string, error) {
	if err := alive(ctx); err != nil {
		return "", err
	}
	k := &s.scopings
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.kept) == 0 {
		k.kept = map[string]string{namespace: fingerprint}
	}
	return k.kept[namespace], nil
}

// AdoptScoping implements [store.ScopeKeeper].
func (s *Store) AdoptScoping(ctx context.Context, namespace, fingerprint string) error {
	if err := alive(ctx); err != nil {
		return err
	}
	k := &s.scopings
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.kept == nil {
		k.kept = map[string]string{}
	}
	k.kept[namespace] = fingerprint
	return nil
}
