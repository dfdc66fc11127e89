package app

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"net/http"
	"net/http/httptest"
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
	key     *ecdsa.PrivateKey
	id      string
}

func newIssuer(t *testing.T) *issuerOfKeys {
	t.Helper()
	i := &issuerOfKeys{}
	i.rotate(t)
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		i.fetches.Add(1)
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
	store := jwkset.NewMemoryStorage()
	require.NoError(t, store.KeyWrite(context.Background(), jwk))
	text, err := store.JSONPublic(context.Background())
	require.NoError(t, err)
	set := []byte(text)
	i.set.Store(&set)
}

// sign makes a token with the key and a key id.
func (i *issuerOfKeys) sign(id string) (string, error) {
	token := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{
		"iss": issuer, "aud": audience, "sub": "customer-1", "exp": time.Now().Add(time.Hour).Unix(),
	})
	token.Header["kid"] = id
	return token.SignedString(i.key)
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
