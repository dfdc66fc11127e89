package app

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
)

// issuerOfKeys is an issuer that rotates its keys.
type issuerOfKeys struct {
	*httptest.Server
	set     atomic.Pointer[[]byte]
	fetches atomic.Int64
	hold    atomic.Pointer[chan struct{}] // if set, answers wait until it is closed
	left    atomic.Bool                   // nobody has waited for such an answer
	key     *ecdsa.PrivateKey
	id      string
}

func newIssuer(t *testing.T) *issuerOfKeys {
	t.Helper()
	i := &issuerOfKeys{}
	i.rotate(t)
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.fetches.Add(1)
		if hold := i.hold.Load(); hold != nil {
			select {
			case <-*hold:
			case <-r.Context().Done():
				i.left.Store(true)
			}
		}
		_, _ = w.Write(*i.set.Load())
	}))
	t.Cleanup(i.Close)
	return i
}

// rotate puts a new key in the place of the one before.
func (i *issuerOfKeys) rotate(t *testing.T) {
	t.Helper()
	var err error
	i.id = rand.Text()
	i.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	jwk, err := jwkset.NewJWKFromKey(i.key.Public(), jwkset.JWKOptions{
		Metadata: jwkset.JWKMetadataOptions{KID: i.id, ALG: jwkset.AlgES256, USE: jwkset.UseSig},
	})
	require.NoError(t, err)
	key, err := json.Marshal(jwk.Marshal())
	require.NoError(t, err)
	i.publish(string(key))
}

// publish makes a set of these keys.
func (i *issuerOfKeys) publish(keys ...string) {
	set := []byte(`{"keys":[` + strings.Join(keys, ",") + `]}`)
	i.set.Store(&set)
}

// published is the issuer's own key, with further members.
func (i *issuerOfKeys) published(t *testing.T, members string) string {
	t.Helper()
	jwk, err := jwkset.NewJWKFromKey(i.key.Public(), jwkset.JWKOptions{Metadata: jwkset.JWKMetadataOptions{KID: i.id}})
	require.NoError(t, err)
	text, err := json.Marshal(jwk.Marshal())
	require.NoError(t, err)
	return strings.Replace(string(text), "{", "{"+members, 1)
}

// requireKnown requires that a token of the issuer is accepted by an app that starts now, or is not.
func (i *issuerOfKeys) requireKnown(t *testing.T, known bool, what string) {
	t.Helper()
	verifier, err := Settings{JWKSURL: i.URL}.verifier(t.Context())
	require.NoError(t, err)
	token, err := i.sign(i.id)
	require.NoError(t, err)
	_, err = verifier.Verify(token)
	require.Equal(t, known, err == nil, "%s: %v", what, err)
}

// An issuer that is slower than a token waits is heard all the same: only the waiting ends.
//
// CONTRACT O-2
func TestASlowIssuerIsHeard(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	verifier, err := Settings{JWKSURL: i.URL}.verifier(t.Context())
	require.NoError(t, err)
	token, err := i.sign(i.id)
	require.NoError(t, err)
	_, err = verifier.Verify(token)
	require.NoError(t, err)

	hold := make(chan struct{})
	i.hold.Store(&hold)
	i.rotate(t)
	token, err = i.sign(i.id)
	require.NoError(t, err)
	_, err = verifier.Verify(token)
	require.Error(t, err, "it has waited long enough")
	require.EqualValues(t, 2, i.fetches.Load())
	close(hold)
	_, err = verifier.Verify(token)
	require.NoError(t, err)
	require.False(t, i.left.Load(), "the fetch that the first one has asked for went on")
}

// CONTRACT O-2
func TestKeysThatAreNotForSignatures(t *testing.T) {
	t.Parallel()
	for members, verifies := range map[string]bool{
		``: true, `"use":"sig",`: true, `"key_ops":["verify"],`: true, `"key_ops":["sign","verify"],`: true, `"alg":"ES256",`: true,
		`"use":"enc",`: false, `"key_ops":["encrypt"],`: false, `"key_ops":["deriveKey","wrapKey"],`: false,
		`"use":"sig","key_ops":["encrypt"],`: false, `"alg":"ES384",`: false,
	} {
		t.Run(members, func(t *testing.T) {
			t.Parallel()
			i := newIssuer(t)
			i.publish(i.published(t, members))
			i.requireKnown(t, verifies, members)
			unnamed := jwt.NewWithClaims(jwt.SigningMethodES256, i.claims())
			signed, err := unnamed.SignedString(i.key)
			require.NoError(t, err)
			verifier, err := Settings{JWKSURL: i.URL}.verifier(t.Context())
			require.NoError(t, err)
			_, err = verifier.Verify(signed)
			require.Equal(t, verifies, err == nil, "a token that names no key: %v", err)
		})
	}
}

// RFC 7517, section 5: a key that cannot be read is ignored, and not the whole set with it.
//
// CONTRACT O-2
func TestAKeyThatCannotBeRead(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	for _, bad := range []string{
		`{"kty":"EC","kid":"bad","crv":"P-256","x":"!","y":"!"}`, `{"kty":"RSA","kid":"bad"}`, `{"kty":"none"}`, `{}`, `7`, `null`, `{"kty":7}`,
		`{"kty":"oct","kid":"bad","k":"c2VjcmV0"}`, `{"kty":"EC","kid":"bad","use":"other","crv":"P-256","x":"AA","y":"AA"}`,
	} {
		i.publish(bad, i.published(t, ""))
		i.requireKnown(t, true, bad)
	}
}

// CONTRACT O-2
func TestASetThatIsTooLarge(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	own := i.published(t, "")
	filler := func(n int) string { return `{"kty":"none","x":"` + strings.Repeat("x", n) + `"}` }
	i.publish(own, filler(1<<20))
	i.requireKnown(t, false, "above 1 MiB")
	i.publish(own, filler(1<<20-len(own)-100))
	i.requireKnown(t, true, "just below")
}

// sign makes a token with the key and a key id.
func (i *issuerOfKeys) sign(id string) (string, error) {
	token := jwt.NewWithClaims(jwt.SigningMethodES256, i.claims())
	token.Header["kid"] = id
	return token.SignedString(i.key)
}

func (*issuerOfKeys) claims() jwt.MapClaims {
	return jwt.MapClaims{"iss": issuer, "aud": audience, "sub": "customer-1", "exp": time.Now().Add(time.Hour).Unix()}
}

// Tokens that name keys which nobody has do not keep the app from the issuer's new ones, again and again, and do not
// make it a burden to the issuer.
func TestRotatedKeysUnderAttack(t *testing.T) {
	t.Parallel()
	i, attacker := newIssuer(t), newIssuer(t)
	begun := time.Now()
	verifier, err := Settings{JWKSURL: i.URL}.verifier(t.Context())
	require.NoError(t, err)
	var attack sync.WaitGroup
	stop := make(chan struct{})
	defer attack.Wait()
	defer close(stop)
	var refused atomic.Int64
	for range 8 {
		attack.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				token, err := attacker.sign(rand.Text())
				if err == nil {
					_, err = verifier.Verify(token)
				}
				if err != nil {
					refused.Add(1)
				}
			}
		})
	}
	for range 3 {
		for before := refused.Load(); refused.Load() == before; { // the attack has had its turn
			time.Sleep(time.Millisecond)
		}
		i.rotate(t)
		token, err := i.sign(i.id)
		require.NoError(t, err)
		_, err = verifier.Verify(token)
		require.NoError(t, err, "a rotated key is known at its first use")
	}
	require.LessOrEqual(t, i.fetches.Load(), int64(time.Since(begun)/refreshEvery)+3)
}
