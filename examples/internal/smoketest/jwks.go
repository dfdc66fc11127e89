package smoketest

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/internal/apptest"
)

// jwks lets the app verify tokens with the keys of another server.
func jwks(t *testing.T, program string) {
	public, private, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	keys := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"keys":[{"kty":"OKP","crv":"Ed25519","alg":"EdDSA","use":"sig","kid":"one","x":"%s"}]}`,
			base64.RawURLEncoding.EncodeToString(public))
	}))
	t.Cleanup(keys.Close)
	sign := func(method jwt.SigningMethod, kid string, key any) string {
		token := jwt.NewWithClaims(method, jwt.MapClaims{
			"iss": "https://issuer.example", "aud": "payments", "sub": "anna", "roles": []string{"customer"},
			"exp": time.Now().Add(time.Hour).Unix(),
		})
		token.Header["kid"] = kid
		text, err := token.SignedString(key)
		require.NoError(t, err)
		return text
	}
	a := &app{t: t, program: program, dir: t.TempDir(), env: []string{"JWKS_URL=" + keys.URL}}
	a.start()
	require.Empty(t, a.Tokens)
	status := func(token string) int {
		return a.Do(t, apptest.Request{Method: "GET", Path: "/v1/balance", Token: token}).Status
	}
	require.Equal(t, http.StatusOK, status(sign(jwt.SigningMethodEdDSA, "one", private)))

	_, other, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusUnauthorized, status(sign(jwt.SigningMethodEdDSA, "one", other)))
	require.Equal(t, http.StatusUnauthorized, status(sign(jwt.SigningMethodHS256, "one", []byte(public))))
	for range 3 { // quickly, although the key set is asked again
		require.Equal(t, http.StatusUnauthorized, status(sign(jwt.SigningMethodEdDSA, "two", private)))
	}
}
