package gormstore

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// The names and values are in databases: a test here that fails is a bug in the code, never in the value.
//
// CONTRACT T-6
func TestGoldenKeyTimes(t *testing.T) {
	p := core.Principal{Issuer: "https://issuer.example", Tenant: "shop-7", Subject: "customer-1"}
	made := time.UnixMilli(1733706358638)
	c := store.Claim{Realm: core.Scoping{}.PrincipalRealm(p), Method: "POST", Route: "/v1/payments/:id"}
	require.Empty(t, floorName(c), "the key is not judged")
	c.Key.Made = made
	require.Equal(t, "floor/6523ada89431af46/POST /v1/payments/:id", floorName(c))
	c.Key.Timed = true
	require.Equal(t, "floor/6523ada89431af46", floorName(c))

	id := core.Scoping{}.RecordID(p, "0193a8f3-9f6e-7c3a-8b1d-2f4c6e8a0b1c")
	older := core.Scoping{}.RecordID(p, "0193a8f3-9f6d-7c3a-8b1d-2f4c6e8a0b1c")
	var f floors
	for _, id := range []core.ID{older, id, older} {
		f.add(id[:], c.Realm[:], "POST /v1/payments/:id")
	}
	require.Equal(t, floors{
		"floor/6523ada89431af46":                       1733706358638000,
		"floor/6523ada89431af46/POST /v1/payments/:id": 1733706358638000,
	}, f)

	kept := store.AgeLimit{Age: 24 * time.Hour, Since: made, Before: 90 * time.Minute}
	require.Equal(t, "86400000000 1733706358638000 5400000000", encodeAge(kept))
	left := kept
	left.Left = made.Add(time.Hour)
	require.Equal(t, "86400000000 1733706358638000 5400000000 1733709958638000", encodeAge(left))
	for _, k := range []store.AgeLimit{kept, left} {
		decoded, err := decodeAge(encodeAge(k))
		require.NoError(t, err)
		require.Equal(t, k, decoded)
	}
	for _, bad := range []string{"", "1 2", "1 2 3 4 5", "1 2 x", "1 2 3 x"} {
		_, err := decodeAge(bad)
		require.ErrorContains(t, err, "kept age", bad)
	}
}

// Instances of two releases meet at these numbers, and the app has advisory locks of its own: a test here that fails is a bug
// in the code, never in the value.
//
// CONTRACT K-9
func TestGoldenLocks(t *testing.T) {
	p := core.Principal{Issuer: "https://issuer.example", Tenant: "shop-7", Subject: "customer-1"}
	id := core.Scoping{}.RecordID(p, "order-7")
	require.Equal(t, int64(-8204155717219068444), txn.LockKey(id))
	timed := core.Scoping{}.RecordID(p, "0193a8f3-9f6e-7c3a-8b1d-2f4c6e8a0b1c")
	require.Equal(t, int64(-2539057762133344039), txn.LockKey(timed))
}
