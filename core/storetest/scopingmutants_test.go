package storetest_test

import (
	"context"

	"github.com/auth19/idem/core"
)

// The mutants of a core.ScopeKeeper.
var scopingMutants = map[string]mutantOf[core.ScopeKeeper, core.ScopeKeeper]{
	"keeps the last scoping":   {"Scoping/Kept", func(s core.ScopeKeeper) core.ScopeKeeper { return lastScoping{s} }},
	"keeps any new namespace":  {"Scoping/Kept", func(s core.ScopeKeeper) core.ScopeKeeper { return anyNamespace{s} }},
	"adopts nothing":           {"Scoping/Kept", func(s core.ScopeKeeper) core.ScopeKeeper { return adoptsNothing{s} }},
	"keeps a scoping too late": {"Scoping/Cancelled", func(s core.ScopeKeeper) core.ScopeKeeper { return heedlessScoping{s} }},
}

type lastScoping struct{ core.ScopeKeeper }

func (s lastScoping) KeepScoping(ctx context.Context, namespace, fingerprint string) (string, error) {
	kept, err := s.ScopeKeeper.KeepScoping(ctx, namespace, fingerprint)
	if err == nil && kept != "" {
		err = s.AdoptScoping(ctx, namespace, fingerprint)
	}
	return kept, err
}

// anyNamespace treats a service with another namespace as a new service, not as one that has lost its namespace.
type anyNamespace struct{ core.ScopeKeeper }

func (s anyNamespace) KeepScoping(ctx context.Context, namespace, fingerprint string) (string, error) {
	kept, err := s.ScopeKeeper.KeepScoping(ctx, namespace, fingerprint)
	if err == nil && kept == "" {
		return fingerprint, s.AdoptScoping(ctx, namespace, fingerprint)
	}
	return kept, err
}

type adoptsNothing struct{ core.ScopeKeeper }

func (adoptsNothing) AdoptScoping(ctx context.Context, _, _ string) error { return ctx.Err() }

type heedlessScoping struct{ core.ScopeKeeper }

func (s heedlessScoping) KeepScoping(ctx context.Context, namespace, fingerprint string) (string, error) {
	return s.ScopeKeeper.KeepScoping(context.WithoutCancel(ctx), namespace, fingerprint)
}
