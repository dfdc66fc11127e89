package authctx_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
)

// requireNobody requires that a request with the token is refused, and that the observer is told why.
func requireNoPrincipal(t *testing.T, v *authctx.Verifier, token, why string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/v1/payments", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	p, err := v.VerifyRequest(r)
	requireRefused(t, p, err, token)
	var told []core.Event
	observer := core.ObserverFunc(func(_ context.Context, e core.Event) { told = append(told, e) })
	require.Equal(t, http.StatusUnauthorized, authctx.Refuse(r, "/v1/payments", p, err, observer).Status)
	require.Len(t, told, 1)
	require.Equal(t, core.EventRefused, told[0].Kind)
	require.ErrorContains(t, told[0].Err, why)
}

// A word list finds a short secret, and with it anybody is anybody.
//
// CONTRACT O-7, S-6
func TestSecretsThatCanBeGuessed(t *testing.T) {
	for method, size := range map[jwt.SigningMethod]int{
		jwt.SigningMethodHS256: 32, jwt.SigningMethodHS384: 48, jwt.SigningMethodHS512: 64,
	} {
		for _, length := range []int{0, 1, size - 1, size} {
			secret := []byte(strings.Repeat("s", length))
			for name, key := range map[string]any{
				"alone": secret, "first of a set": jwt.VerificationKeySet{Keys: []jwt.VerificationKey{secret, make([]byte, 64)}},
				"last of a set": jwt.VerificationKeySet{Keys: []jwt.VerificationKey{make([]byte, 64), secret}},
			} {
				cfg := testConfig()
				cfg.Algorithms, cfg.Keyfunc = []string{method.Alg()}, keyOf(key)
				v, token := newVerifier(t, cfg), signWith(t, method, secret, testClaims(nil))
				if length < size {
					requireNoPrincipal(t, v, token, "a secret of "+method.Alg()+" needs at least")
					continue
				}
				_, err := v.Verify(token)
				require.NoError(t, err, "%s %s", method.Alg(), name)
			}
		}
	}
}

// CONTRACT O-7, S-6
func TestRSAKeysThatCanBeFactored(t *testing.T) {
	t.Setenv("GODEBUG", "rsa1024min=0")
	for _, bits := range []int{1024, 2047, 2048} {
		private, err := rsa.GenerateKey(rand.Reader, bits)
		require.NoError(t, err)
		for _, method := range []jwt.SigningMethod{jwt.SigningMethodRS256, jwt.SigningMethodPS256} {
			cfg := testConfig()
			cfg.Algorithms, cfg.Keyfunc = []string{method.Alg()}, keyOf(&private.PublicKey)
			v, token := newVerifier(t, cfg), signWith(t, method, private, testClaims(nil))
			if bits < 2048 {
				requireNoPrincipal(t, v, token, "an RSA key needs at least 2048 bits")
				continue
			}
			_, err = v.Verify(token)
			require.NoError(t, err)
		}
	}
}

// "return keys[kid], nil" with an invented kid is a nil pointer in an interface, or the zero of a struct.
//
// CONTRACT O-7, O-2
func TestKeysThatAreNotThere(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	for method, tt := range map[jwt.SigningMethod]struct {
		private any
		missing []any
	}{
		jwt.SigningMethodRS256: {rsaKey, []any{map[string]*rsa.PublicKey{}["invented"], &rsa.PublicKey{}, nil}},
		jwt.SigningMethodPS256: {rsaKey, []any{map[string]*rsa.PublicKey{}["invented"], &rsa.PublicKey{}, nil}},
		jwt.SigningMethodES256: {newECKey(t), []any{map[string]*ecdsa.PublicKey{}["invented"], &ecdsa.PublicKey{},
			&ecdsa.PublicKey{Curve: elliptic.P256()}, nil}},
		jwt.SigningMethodEdDSA: {edKey, []any{map[string]ed25519.PublicKey{}["invented"], ed25519.PublicKey{}, nil}},
		jwt.SigningMethodHS256: {testSecret, []any{map[string][]byte{}["invented"], []byte{}, nil}},
	} {
		token := signWith(t, method, tt.private, testClaims(nil))
		for _, key := range tt.missing {
			for _, returned := range []any{key, jwt.VerificationKeySet{Keys: []jwt.VerificationKey{key}}} {
				cfg := testConfig()
				cfg.Algorithms, cfg.Keyfunc = []string{method.Alg()}, keyOf(returned)
				requireNoPrincipal(t, newVerifier(t, cfg), token, "Keyfunc returned")
			}
		}
	}
}
