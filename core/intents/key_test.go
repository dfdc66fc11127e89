package intents_test

import (
	"encoding/hex"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/intents"
)

// CONTRACT C-1, K-9
func TestKeysBeginWithTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := map[string]bool{}
		before := ""
		for range 100 {
			key := intents.NewKey()
			require.Regexp(t, "^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$", key)
			now, err := hex.DecodeString("0000" + strings.ReplaceAll(key[:13], "-", ""))
			require.NoError(t, err)
			require.Equal(t, time.Now().UnixMilli(), int64(now[2])<<40|int64(now[3])<<32|int64(now[4])<<24|int64(now[5])<<16|
				int64(now[6])<<8|int64(now[7]))
			require.Greater(t, key, before)
			require.False(t, seen[key[14:]], "the rest is random")
			seen[key[14:]], before = true, key
			time.Sleep(time.Millisecond)
		}
	})
}

// The value was computed by another program: HMAC-SHA256 of "intent/1" and the name, and RFC 9562, section 5.8. Providers
// know these keys: a test here that fails is a bug in the code, never in the value.
//
// CONTRACT C-1
func TestGoldenKeysOfASecret(t *testing.T) {
	secret := func(first byte) *intents.Secret {
		of := make([]byte, intents.MinSecret)
		for i := range of {
			of[i] = first + byte(i)
		}
		s, err := intents.NewSecret(of)
		require.NoError(t, err)
		clear(of) // it has its own
		return s
	}
	require.Equal(t, "6f7bec01-f1de-8a2e-86c1-a00742a1a8af", secret(0).Key("order-7/pay"))
	require.NotEqual(t, secret(0).Key("order-7/pay"), secret(1).Key("order-7/pay"))
	require.NotEqual(t, secret(0).Key("order-7/pay"), secret(0).Key("order-7/refund"))

	_, err := intents.NewSecret(make([]byte, intents.MinSecret-1))
	require.ErrorContains(t, err, "shorter than 32 bytes")
}
