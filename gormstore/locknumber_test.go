package gormstore

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
)

// Instances of two releases meet at these numbers, and the app has advisory locks of its own: a test here that fails is a bug
// in the code, never in the value.
//
// CONTRACT K-9
func TestGoldenLocks(t *testing.T) {
	p := core.Principal{Issuer: "https://issuer.example", Tenant: "shop-7", Subject: "customer-1"}
	id := core.Scoping{}.RecordID(p, "order-7")
	require.Equal(t, int64(-8204155717219068444), lockKey(id))
	timed := core.Scoping{}.RecordID(p, "0193a8f3-9f6e-7c3a-8b1d-2f4c6e8a0b1c")
	require.Equal(t, int64(-2539057762133344039), lockKey(timed))
	m := newMarker(InboxConfig{Group: "stock"}, Message{Source: "payments", ID: "7"})
	require.Equal(t, int64(2305975448316603659), m.lock())
	require.NotEqual(t, m.lock(), lockKey(m.id), "another namespace")
}
