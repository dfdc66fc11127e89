package interop_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/MicahParks/keyfunc/v3"
	jwtmiddleware2 "github.com/auth0/go-jwt-middleware/v2"
	validator2 "github.com/auth0/go-jwt-middleware/v2/validator"
	jwtmiddleware "github.com/auth0/go-jwt-middleware/v3"
	"github.com/auth0/go-jwt-middleware/v3/validator"
	"github.com/gin-gonic/gin"
	"github.com/golang-jwt/jwt/v5"
	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/echoidem"
	"github.com/auth19/idem/ginidem"
)

// onGin turns a middleware of net/http into one of Gin.
func onGin(middleware func(http.Handler) http.Handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		passed := false
		middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			passed = true
			c.Request = r // its context holds what the middleware has found
		})).ServeHTTP(c.Writer, c.Request)
		if !passed {
			c.Abort() // without it, Gin runs the handler after the middleware has refused
		}
	}
}

// auth0 verifies tokens with auth0's middleware. It lets requests without a token pass if optional is true.
func auth0(t *testing.T, optional bool) func(http.Handler) http.Handler {
	t.Helper()
	validator, err := validator.New(
		validator.WithKeyFunc(func(context.Context) (any, error) { return secretKey, nil }),
		validator.WithAlgorithm(validator.HS256), validator.WithIssuer(shop), validator.WithAudience("payments"),
	)
	require.NoError(t, err)
	middleware, err := jwtmiddleware.New(
		jwtmiddleware.WithValidator(validator), jwtmiddleware.WithCredentialsOptional(optional),
	)
	require.NoError(t, err)
	return middleware.CheckJWT
}

// ofAuth0 returns the caller that auth0's middleware has verified.
func ofAuth0(r *http.Request) (authctx.Principal, error) {
	verified, err := jwtmiddleware.GetClaims[*validator.ValidatedClaims](r.Context())
	if err != nil {
		return authctx.Principal{}, err
	}
	return authctx.User(verified.RegisteredClaims.Issuer, verified.RegisteredClaims.Subject)
}

// A middleware of net/http on both frameworks. One that lets callers without a token pass opens nothing.
//
// CONTRACT O-2, S-1
func TestAuth0(t *testing.T) {
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"iss": shop, "aud": "payments", "sub": "customer-1", "exp": time.Now().Add(time.Hour).Unix(),
	}).SignedString(secretKey)
	require.NoError(t, err)
	for _, optional := range []bool{false, true} {
		checkJWT := auth0(t, optional)
		bridge := ginidem.Bridge(func(c *gin.Context) (authctx.Principal, error) { return ofAuth0(c.Request) }, observer)
		app := ginApp(t, onGin(checkJWT), bridge)
		requireCaller(t, app, bearer(token), shop+` "" customer-1 []`)
		require.Equal(t, http.StatusUnauthorized, payout(app, bearer(token+"x")).Code)

		bridgeOfEcho := echoidem.Bridge(func(c echo.Context) (authctx.Principal, error) { return ofAuth0(c.Request()) }, observer)
		app = echoApp(t, echo.WrapMiddleware(checkJWT), bridgeOfEcho)
		requireCaller(t, app, bearer(token), shop+` "" customer-1 []`)
		require.Equal(t, http.StatusUnauthorized, payout(app, bearer(token+"x")).Code)
	}
}

// Version 2 of auth0's middleware keeps the claims under a key of its own.
//
// CONTRACT O-2, S-1
func TestAuth0Version2(t *testing.T) {
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"iss": shop, "aud": "payments", "sub": "customer-1", "exp": time.Now().Add(time.Hour).Unix(),
	}).SignedString(secretKey)
	require.NoError(t, err)
	keys := func(context.Context) (any, error) { return secretKey, nil }
	validator, err := validator2.New(keys, validator2.HS256, shop, []string{"payments"})
	require.NoError(t, err)
	checkJWT := jwtmiddleware2.New(validator.ValidateToken, jwtmiddleware2.WithCredentialsOptional(true)).CheckJWT

	bridge := ginidem.Bridge(func(c *gin.Context) (authctx.Principal, error) {
		verified, ok := c.Request.Context().Value(jwtmiddleware2.ContextKey{}).(*validator2.ValidatedClaims)
		if !ok {
			return authctx.Principal{}, authctx.ErrUnauthenticated
		}
		return authctx.User(verified.RegisteredClaims.Issuer, verified.RegisteredClaims.Subject)
	}, observer)
	app := ginApp(t, onGin(checkJWT), bridge)
	requireCaller(t, app, bearer(token), shop+` "" customer-1 []`)
	require.Equal(t, http.StatusUnauthorized, payout(app, bearer(token+"x")).Code)
}

// Keys that an issuer publishes.
//
// CONTRACT O-2, S-1
func TestKeyfunc(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	key, err := jwkset.NewJWKFromKey(public, jwkset.JWKOptions{Metadata: jwkset.JWKMetadataOptions{KID: "k-1"}})
	require.NoError(t, err)
	set := jwkset.NewMemoryStorage()
	require.NoError(t, set.KeyWrite(t.Context(), key))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		published, _ := set.JSONPublic(r.Context())
		_, _ = w.Write(published)
	}))
	t.Cleanup(server.Close)
	ctx, jwksURL := t.Context(), server.URL

	keys, err := keyfunc.NewDefaultCtx(ctx, []string{jwksURL})
	require.NoError(t, err)
	verifier, err := authctx.New(authctx.Config{
		Issuer: shop, Audience: []string{"payments"}, Algorithms: []string{"EdDSA"}, Keyfunc: keys.Keyfunc,
		RolesClaim: "realm_access.roles", // Keycloak
	})
	require.NoError(t, err)
	guard := ginidem.JWTGuard(verifier, observer)

	unsigned := jwt.NewWithClaims(jwt.SigningMethodEdDSA, jwt.MapClaims{
		"iss": shop, "aud": "payments", "sub": "customer-1", "exp": time.Now().Add(time.Hour).Unix(),
		"realm_access": map[string]any{"roles": []string{"customer"}},
	})
	unsigned.Header["kid"] = "k-1"
	token, err := unsigned.SignedString(private)
	require.NoError(t, err)
	requireCaller(t, ginApp(t, guard), bearer(token), shop+` "" customer-1 [customer]`)

	// What docs/auth.md warns of: one forged key id, and a rotated key is unknown for minutes.
	unsigned.Header["kid"] = "forged"
	forged, err := unsigned.SignedString(private)
	require.NoError(t, err)
	require.Equal(t, http.StatusUnauthorized, payout(ginApp(t, guard), bearer(forged)).Code)
	rotated, err := jwkset.NewJWKFromKey(public, jwkset.JWKOptions{Metadata: jwkset.JWKMetadataOptions{KID: "k-2"}})
	require.NoError(t, err)
	require.NoError(t, set.KeyWrite(ctx, rotated))
	unsigned.Header["kid"] = "k-2"
	token, err = unsigned.SignedString(private)
	require.NoError(t, err)
	require.Equal(t, http.StatusUnauthorized, payout(ginApp(t, guard), bearer(token)).Code)
}

// accounts are API keys, by their SHA-256, and the account of each. Two keys may belong to one account.
var accounts = map[[sha256.Size]byte]string{
	sha256.Sum256([]byte("sk_old")): "acct_1", sha256.Sum256([]byte("sk_new")): "acct_1",
	sha256.Sum256([]byte("sk_bob")): "acct_2",
}

// CONTRACT O-2, S-2
func TestAPIKeys(t *testing.T) {
	ofAPIKey := func(r *http.Request) (authctx.Principal, error) {
		key, err := authctx.BearerToken(r.Header)
		if err != nil {
			return authctx.Principal{}, err
		}
		sum := sha256.Sum256([]byte(key))
		for stored, account := range accounts { // in your app: a SELECT by the hash of the key
			if subtle.ConstantTimeCompare(stored[:], sum[:]) == 1 {
				return authctx.User("https://api.example", account)
			}
		}
		return authctx.Principal{}, errors.New("no such API key")
	}
	bridge := echoidem.Bridge(func(c echo.Context) (authctx.Principal, error) { return ofAPIKey(c.Request()) }, observer)
	app := echoApp(t, bridge)
	requireCaller(t, app, bearer("sk_old"), `https://api.example "" acct_1 []`)
	require.Equal(t, "true", payout(app, bearer("sk_new")).Header().Get("Idempotent-Replayed"), "a new key of the same account")
	require.Equal(t, http.StatusUnauthorized, payout(app, bearer("sk_other")).Code)
}
