package storetest_test

import (
	"context"

	"github.com/auth19/idem/core/store"
)

// The mutants of a store.ScopeKeeper.
var scopingMutants = map[string]mutantOf[store.ScopeKeeper, store.ScopeKeeper]{
	"keeps the last scoping":   {"Scoping/Kept", func(s store.ScopeKeeper) store.ScopeKeeper { return lastScoping{s} }},
	"keeps any new namespace":  {"Scoping/Kept", func(s store.ScopeKeeper) store.ScopeKeeper { return anyNamespace{s} }},
	"adopts nothing":           {"Scoping/Kept", func(s store.ScopeKeeper) store.ScopeKeeper { return adoptsNothing{s} }},
	"keeps a scoping too late": {"Scoping/Cancelled", func(s store.ScopeKeeper) store.ScopeKeeper { return heedlessScoping{s} }},
}

type lastScoping struct{ store.ScopeKeeper }

func (s lastScoping) KeepScoping(ctx context.Context, namespace, fingerprint string) (string, error) {
	kept, err := s.ScopeKeeper.KeepScoping(ctx, namespace, fingerprint)
	if err == nil && kept != "" {
		err = s.AdoptScoping(ctx, namespace, fingerprint)
	}
	return kept, err
}

// anyNamespace treats a service with another namespace as a new service, not as one that has lost its namespace.
type anyNamespace struct{ store.ScopeKeeper }

func (s anyNamespace) KeepScoping(ctx context.Context, namespace, fingerprint string) (string, error) {
	kept, err := s.ScopeKeeper.KeepScoping(ctx, namespace, fingerprint)
	if err == nil && kept == "" {
		return fingerprint, s.AdoptScoping(ctx, namespace, fingerprint)
	}
	return kept, err
}

type adoptsNothing struct{ store.ScopeKeeper }

func (adoptsNothing) AdoptScoping(ctx context.Context, _, _ string) error { return ctx.Err() }

type heedlessScoping struct{ store.ScopeKeeper }

func (s heedlessScoping) KeepScoping(ctx context.Context, namespace, fingerprint string) (string, error) {
	return s.ScopeKeeper.KeepScoping(context.WithoutCancel(ctx), namespace, fingerprint)
}
