package idemclient_test

import (
	"context"
	"encoding/hex"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/idemclient"
)

// CONTRACT C-1, K-9
func TestKeysBeginWithTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := map[string]bool{}
		before := ""
		for range 100 {
			key := idemclient.NewKey()
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
	secret := func(first byte) *idemclient.Secret {
		of := make([]byte, idemclient.MinSecret)
		for i := range of {
			of[i] = first + byte(i)
		}
		s, err := idemclient.NewSecret(of)
		require.NoError(t, err)
		clear(of) // it has its own
		return s
	}
	require.Equal(t, "6f7bec01-f1de-8a2e-86c1-a00742a1a8af", secret(0).Key("order-7/pay"))
	require.NotEqual(t, secret(0).Key("order-7/pay"), secret(1).Key("order-7/pay"))
	require.NotEqual(t, secret(0).Key("order-7/pay"), secret(0).Key("order-7/refund"))

	_, err := idemclient.NewSecret(make([]byte, idemclient.MinSecret-1))
	require.ErrorContains(t, err, "shorter than 32 bytes")
}

// Whose first attempt it is knows that nothing was carried out before; a plan before it changes nothing of that.
//
// CONTRACT C-4
func TestTheFirstAttemptOfAPlannedIntentIsCertain(t *testing.T) {
	client := newClient(t, idemclient.Config{Transport: on(says(429)), MaxAttempts: 1})
	_, err := client.Key(t.Context(), "order-7")
	require.NoError(t, err)
	res, err := pay(t, client, "order-7")
	require.False(t, failed(t, res, err).Uncertain)
	res, err = pay(t, client, "order-7")
	require.True(t, failed(t, res, err).Uncertain, "another process may have sent it meanwhile")
}

// CONTRACT C-1
func TestAJournalWithoutAKey(t *testing.T) {
	w := on(says(201, created))
	res, err := pay(t, newClient(t, idemclient.Config{Transport: w, Journal: keyless{}}), "order-7")
	require.ErrorContains(t, failed(t, res, err), "without a key")
	require.Empty(t, w.sent)
}

type keyless struct{ *brokenJournal }

func (keyless) Begin(_ context.Context, e idemclient.Entry) (idemclient.Entry, error) { return e, nil }
