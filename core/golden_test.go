package core

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/auth19/idem/core/store"
	"github.com/stretchr/testify/require"
)

// The values in this file were computed by another program from the layouts in the comments of RecordID, PrincipalScope and
// PrincipalRealm. They are in databases: a test here that fails is a bug in the code, never in the value.

// CONTRACT K-6, K-9, S-4
func TestGoldenIDs(t *testing.T) {
	const issuer, key = "https://issuer.example", "0193a8f3-9f6e-7c3a-8b1d-2f4c6e8a0b1c"
	customer := Principal{Issuer: issuer, Client: "counts only if required", Subject: "customer-1", Roles: []string{"customer"}}
	wallet := Scoping{Namespace: "wallet", RequireTenant: true, RequireClient: true}
	member := Principal{Issuer: issuer, Tenant: "shop-7", Client: "app-1", Subject: "customer-1"}
	for _, tt := range []struct {
		scoping          Scoping
		principal        Principal
		key              string
		id, scope, realm string
	}{
		{
			Scoping{}, customer, key,
			"0193a8f39f6ea7afb7dad21fcbc14f21eb74fb893c691983604d5dd5b9edf385",
			"c984596859740cf90343ac28bcfeb04ab8e28bd92236e361e83e0f145939a719", "6523ada89431af462a9ce81299f2dce118161a075897e8c0",
		}, {
			Scoping{}, Principal{Issuer: issuer, Tenant: "shop-7", Subject: "customer-1"}, key,
			"0193a8f39f6eb5a7110785bd63b665c27f1d0b8b6c71efca02b24c08e5b49dae",
			"1db17b15fa482d8b1788cda048ea6c97b660bc187722a1a1c2f27063d1b342fc", "6523ada89431af46bb30f1731943561c135504de61fc1ff0",
		}, {
			Scoping{}, Principal{Issuer: issuer, Tenant: "shop", Subject: "7customer-1"}, key,
			"0193a8f39f6e07f2f017f4b83db60e40c0a9abad918e138fa8fd15349dafee70",
			"0f5ddc7866aaf6f277a937f523b8cd4ed5f00a1e2dd7a1dea29d257719422611", "6523ada89431af4603ce529aa9225ba48c3cc416ed043e4f",
		}, { // the case of a key counts, and its time is the same
			Scoping{}, customer, strings.ToUpper(key),
			"0193a8f39f6eba701152e713948a2236043c11c140582ee33d32803583846860",
			"c984596859740cf90343ac28bcfeb04ab8e28bd92236e361e83e0f145939a719", "6523ada89431af462a9ce81299f2dce118161a075897e8c0",
		}, { // a UUID of version 4 has no time
			Scoping{}, customer, "0193a8f3-9f6e-4c3a-8b1d-2f4c6e8a0b1c",
			"2c6dc173304de9eaa5e8bba50495553b4b43a67e25c8c44a91587f6a46abb993",
			"c984596859740cf90343ac28bcfeb04ab8e28bd92236e361e83e0f145939a719", "6523ada89431af462a9ce81299f2dce118161a075897e8c0",
		}, {
			wallet, member, key,
			"0193a8f39f6e994f2d0d4f84829415659dc2e6b5825f4dd684b8092a6232a5ba",
			"14869407421c426fe17fcb10c06e6fffd443a4a5ecc5335477819b7e0c31fe47", "2e87f06d6124867dce43e69236f8917d19719d31bb78bd3b",
		}, {
			wallet, member, "order-1",
			"51ca201c487143e60fda3c2167c4783825617280ad97b533a8aee09402ddd851",
			"14869407421c426fe17fcb10c06e6fffd443a4a5ecc5335477819b7e0c31fe47", "2e87f06d6124867dce43e69236f8917d19719d31bb78bd3b",
		},
	} {
		require.Equal(t, tt.id, tt.scoping.RecordID(tt.principal, tt.key).String())
		scope, realm := tt.scoping.PrincipalScope(tt.principal), tt.scoping.PrincipalRealm(tt.principal)
		require.Equal(t, tt.scope, hex.EncodeToString(scope[:]))
		require.Equal(t, tt.realm, hex.EncodeToString(realm[:]))
	}
}

// Only the 36 characters of a UUIDv7 have a time. Everything else is hash from the first bit on.
//
// CONTRACT K-9
func TestKeysWithoutATime(t *testing.T) {
	p := Principal{Issuer: "https://issuer.example", Subject: "customer-1"}
	for _, key := range []string{
		"0193a8f3-9f6e-6c3a-8b1d-2f4c6e8a0b1c", "0193a8f3-9f6e-7c3a-7b1d-2f4c6e8a0b1c", "0193a8f3-9f6e-7c3a-cb1d-2f4c6e8a0b1c",
		"0193a8f39f6e7c3a8b1d2f4c6e8a0b1c", "{193a8f3-9f6e-7c3a-8b1d-2f4c6e8a0b1}", "0193a8f3-9f6e-7c3a-8b1d-2f4c6e8a0b1cc",
	} {
		require.NotEqual(t, "0193a8f39f6e", Scoping{}.RecordID(p, key).String()[:12], key)
	}
}

// CONTRACT T-6, K-9
func TestGoldenKeyTimes(t *testing.T) {
	p := Principal{Issuer: "https://issuer.example", Subject: "customer-1"}
	for key, ms := range map[string]int64{
		"0193a8f3-9f6e-7c3a-8b1d-2f4c6e8a0b1c": 1733706358638,
		"0193A8F3-9F6E-7C3A-AB1D-2F4C6E8A0B1C": 1733706358638,
		"017f22e2-79b0-7cc3-98c4-dc0c0c07398f": 1645557742000, // the example of RFC 9562, appendix A.6
		"00000000-0000-7000-8000-000000000000": 0,
		"ffffffff-ffff-7000-8000-000000000000": 1<<48 - 1,
	} {
		require.Equal(t, ms, keyMade(key).UnixMilli(), key)
		rec := Record{Ticket: store.Ticket{ID: Scoping{}.RecordID(p, key)}, Timed: true}
		require.Equal(t, ms, rec.KeyMade().UnixMilli(), key)
	}
	for _, key := range []string{"0193a8f3-9f6e-4c3a-8b1d-2f4c6e8a0b1c", "0193a8f3-9f6e-7c3a-cb1d-2f4c6e8a0b1c", "order-1", ""} {
		require.True(t, keyMade(key).IsZero(), key)
	}
	require.True(t, Record{Ticket: store.Ticket{ID: Scoping{}.RecordID(p, "order-1")}}.KeyMade().IsZero())
}
