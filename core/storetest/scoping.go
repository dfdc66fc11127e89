package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/store"
)

var scopingChecks = []check{
	{"Scoping/Kept", scopingKept},
	{"Scoping/Cancelled", scopingCancelled},
}

// The first module decides. Afterwards only the operator can change it.
//
// CONTRACT S-4
func scopingKept(t *testing.T, s *fixture) {
	keep := func(namespace, fingerprint, want string) {
		t.Helper()
		for _, st := range s.instances {
			kept, err := st.(store.Settings).KeepScoping(s.ctx, namespace, fingerprint)
			require.NoError(t, err)
			require.Equal(t, want, kept)
		}
	}
	adopt := func(namespace, fingerprint string) {
		t.Helper()
		require.NoError(t, s.Store.(store.Settings).AdoptScoping(s.ctx, namespace, fingerprint))
	}
	keep("shop", "a", "a")
	keep("shop", "b", "a")
	keep("shop", "a", "a")
	keep("", "a", "")
	keep("wallet", "a", "")
	keep("SHOP", "a", "")
	adopt("wallet", "b")
	adopt("", "c")
	keep("wallet", "a", "b")
	keep("", "a", "c")
	keep("shop", "b", "a")
	adopt("shop", "b")
	keep("shop", "a", "b")
}

func scopingCancelled(t *testing.T, s *fixture) {
	keeper := s.Store.(store.Settings)
	over := s.over()
	_, err := keeper.KeepScoping(over, "shop", "a")
	require.Error(t, err)
	require.Error(t, keeper.AdoptScoping(over, "shop", "a"))
	kept, err := keeper.KeepScoping(s.ctx, "wallet", "b")
	require.NoError(t, err)
	require.Equal(t, "b", kept)
}
