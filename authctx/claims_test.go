package authctx_test

import (
	"testing"
	"time"

	"github.com/auth19/idem/authctx"
	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
)

var bridge = authctx.Claims{Issuers: []string{"https://other.example", testIssuer}}

// parsed is what an app's own middleware leaves behind: a verified token with claims of its own type.
func parsed(t *testing.T, changes jwt.MapClaims, claims jwt.Claims, options ...jwt.ParserOption) *jwt.Token {
	t.Helper()
	token, err := jwt.NewParser(options...).ParseWithClaims(sign(t, changes), claims, keyOf(testSecret))
	require.NoError(t, err)
	return token
}

// appClaims leaves out the tenant, as an app may that does not know of it.
type appClaims struct {
	jwt.RegisteredClaims
	Plan string `json:"plan"`
}

// CONTRACT S-1
func TestFromToken(t *testing.T) {
	want := authctx.Principal{Issuer: testIssuer, Tenant: "shop-7", Subject: "customer-1", Roles: []string{"customer"}}
	require.NoError(t, bridge.Check())
	for name, token := range map[string]*jwt.Token{
		"map":               parsed(t, nil, jwt.MapClaims{}),
		"map with numbers":  parsed(t, nil, jwt.MapClaims{}, jwt.WithJSONNumber()),
		"registered claims": parsed(t, nil, &jwt.RegisteredClaims{}),
		"struct":            parsed(t, nil, &appClaims{}),
	} {
		p, err := bridge.FromToken(token)
		require.NoError(t, err, name)
		require.Equal(t, want, p, name)
	}
}

// CONTRACT O-2, S-1
func TestFromTokenFailsClosed(t *testing.T) {
	unchecked := jwt.WithoutClaimsValidation()
	for name, token := range map[string]*jwt.Token{
		"nil":              nil,
		"zero":             {},
		"made, not parsed": jwt.NewWithClaims(jwt.SigningMethodHS256, testClaims(nil)),
		"not valid": func() *jwt.Token {
			token, _ := jwt.Parse(sign(t, nil), keyOf([]byte("other")))
			return token
		}(),
		"unverified": func() *jwt.Token {
			token, _, _ := jwt.NewParser().ParseUnverified(sign(t, nil), jwt.MapClaims{})
			return token
		}(),
		"no claims":               {Valid: true},
		"claims without token":    {Valid: true, Claims: &appClaims{}},
		"no exp":                  parsed(t, jwt.MapClaims{"exp": nil}, jwt.MapClaims{}),
		"no exp, struct":          parsed(t, jwt.MapClaims{"exp": nil}, &appClaims{}),
		"expired, never checked":  parsed(t, jwt.MapClaims{"exp": time.Now().Unix() - 121}, jwt.MapClaims{}, unchecked),
		"not yet, never checked":  parsed(t, jwt.MapClaims{"nbf": time.Now().Unix() + 150}, jwt.MapClaims{}, unchecked),
		"no issuer":               parsed(t, jwt.MapClaims{"iss": nil}, jwt.MapClaims{}),
		"empty issuer":            parsed(t, jwt.MapClaims{"iss": ""}, jwt.MapClaims{}),
		"issuer is a number":      parsed(t, jwt.MapClaims{"iss": 7}, jwt.MapClaims{}),
		"other issuer":            parsed(t, jwt.MapClaims{"iss": "https://evil.example"}, jwt.MapClaims{}),
		"no subject":              parsed(t, jwt.MapClaims{"sub": nil}, jwt.MapClaims{}),
		"subject is a number":     parsed(t, jwt.MapClaims{"sub": 7}, jwt.MapClaims{}),
		"tenant is a number":      parsed(t, jwt.MapClaims{"tenant": 7}, jwt.MapClaims{}),
		"tenant, hidden by type":  parsed(t, jwt.MapClaims{"tenant": 7}, &appClaims{}),
		"roles are a number":      parsed(t, jwt.MapClaims{"roles": 7}, jwt.MapClaims{}),
		"issuer of another claim": parsed(t, jwt.MapClaims{"iss": nil, "azp": testIssuer}, jwt.MapClaims{}),
	} {
		t.Run(name, func(t *testing.T) {
			p, err := bridge.FromToken(token)
			require.ErrorIs(t, err, authctx.ErrUnauthenticated)
			require.Zero(t, p)
		})
	}
}

// A middleware may be more lenient about clocks than a Verifier by default, but not without bounds.
func TestFromTokenKeepsTheMiddlewaresLeeway(t *testing.T) {
	expired := jwt.MapClaims{"exp": time.Now().Unix() - 60}
	_, err := bridge.FromToken(parsed(t, expired, jwt.MapClaims{}, jwt.WithLeeway(time.Minute+10*time.Second)))
	require.NoError(t, err)
}

// gin-jwt hands out claims without a token, and made in memory in its login handler.
func TestClaimsPrincipal(t *testing.T) {
	type ginClaims map[string]any
	claims := ginClaims(testClaims(jwt.MapClaims{"exp": float64(time.Now().Add(time.Hour).Unix()), "iat": nil}))
	p, err := bridge.Principal(jwt.MapClaims(claims))
	require.NoError(t, err)
	require.Equal(t, []string{"customer"}, p.Roles)

	_, err = bridge.Principal(nil)
	require.ErrorIs(t, err, authctx.ErrUnauthenticated)
}

// CONTRACT S-1
func TestClaimsWithoutIssuers(t *testing.T) {
	for _, c := range []authctx.Claims{{}, {Issuers: []string{""}}, {Issuers: []string{testIssuer, ""}}} {
		require.ErrorContains(t, c.Check(), "idem: authctx.Claims: Issuers:")
		_, err := c.FromToken(parsed(t, nil, jwt.MapClaims{}))
		require.ErrorIs(t, err, authctx.ErrUnauthenticated)
		_, err = c.FromToken(parsed(t, jwt.MapClaims{"iss": nil}, jwt.MapClaims{}))
		require.ErrorIs(t, err, authctx.ErrUnauthenticated)
	}
}
