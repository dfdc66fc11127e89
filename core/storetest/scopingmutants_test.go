package storetest_test

import (
	"context"

	"github.com/auth19/idem/core/store"
)

// The mutants of a store.Settings.
var scopingMutants = map[string]mutantOf[store.Settings, store.Settings]{
	"keeps the last scoping":   {"Scoping/Kept", func(s store.Settings) store.Settings { return lastScoping{s} }},
	"keeps any new namespace":  {"Scoping/Kept", func(s store.Settings) store.Settings { return anyNamespace{s} }},
	"adopts nothing":           {"Scoping/Kept", func(s store.Settings) store.Settings { return adoptsNothing{s} }},
	"keeps a scoping too late": {"Scoping/Cancelled", func(s store.Settings) store.Settings { return heedlessScoping{s} }},
}

type lastScoping struct{ store.Settings }

func (s lastScoping) KeepScoping(ctx context.Context, namespace, fingerprint string) (string, error) {
	kept, err := s.Settings.KeepScoping(ctx, namespace, fingerprint)
	if err == nil && kept != "" {
		err = s.AdoptScoping(ctx, namespace, fingerprint)
	}
	return kept, err
}

// anyNamespace treats a service with another namespace as a new service, not as one that has lost its namespace.
type anyNamespace struct{ store.Settings }

func (s anyNamespace) KeepScoping(ctx context.Context, namespace, fingerprint string) (string, error) {
	kept, err := s.Settings.KeepScoping(ctx, namespace, fingerprint)
	if err == nil && kept == "" {
		return fingerprint, s.AdoptScoping(ctx, namespace, fingerprint)
	}
	return kept, err
}

type adoptsNothing struct{ store.Settings }

func (adoptsNothing) AdoptScoping(ctx context.Context, _, _ string) error { return ctx.Err() }

type heedlessScoping struct{ store.Settings }

func (s heedlessScoping) KeepScoping(ctx context.Context, namespace, fingerprint string) (string, error) {
	return s.Settings.KeepScoping(context.WithoutCancel(ctx), namespace, fingerprint)
}
