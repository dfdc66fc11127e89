package gormstore

import (
	"crypto/sha3"
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"
)

// The vectors of https://c2sp.org/XAES-256-GCM, where the top bit of CMAC's subkey is 0, and where it is 1; and 10,000
// random messages, whose sum it gives.
func TestVectorsOfXAES(t *testing.T) {
	t.Parallel()
	fill := func(b byte) (key []byte) {
		for range sealingKeySize {
			key = append(key, b)
		}
		return key
	}
	seal := func(key, nonce, plaintext, data []byte) []byte {
		x, err := newXAES(key)
		require.NoError(t, err)
		gcm, nonce12, err := x.derive(nonce)
		require.NoError(t, err)
		return gcm.Seal(nil, nonce12, plaintext, data)
	}
	nonce, text := []byte("ABCDEFGHIJKLMNOPQRSTUVWX"), []byte("XAES-256-GCM")
	require.Equal(t, "ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271", hex.EncodeToString(seal(fill(1), nonce, text, nil)))
	require.Equal(t, "986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d",
		hex.EncodeToString(seal(fill(3), nonce, text, []byte("c2sp.org/XAES-256-GCM"))))

	source, sum := sha3.NewSHAKE128(), sha3.NewSHAKE128()
	read := func(n int) []byte {
		b := make([]byte, n)
		_, _ = source.Read(b)
		return b
	}
	for range 10_000 {
		key, nonce := read(sealingKeySize), read(xaesNonceSize)
		plaintext := read(int(read(1)[0]))
		data := read(int(read(1)[0]))
		_, _ = sum.Write(seal(key, nonce, plaintext, data))
	}
	digest := make([]byte, 32)
	_, _ = sum.Read(digest)
	require.Equal(t, "e6b9edf2df6cec60c8cbd864e2211b597fb69a529160cd040d56c0c210081939", hex.EncodeToString(digest))
}
