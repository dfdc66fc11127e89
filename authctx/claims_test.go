package authctx_test

import (
	"errors"
	"strconv"
	"strings"
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
		require.ErrorContains(t, err, "authctx.Claims: Issuers: list the values", "the log says what to set")
		_, err = c.FromToken(parsed(t, jwt.MapClaims{"iss": nil}, jwt.MapClaims{}))
		require.ErrorIs(t, err, authctx.ErrUnauthenticated)
	}
}

// CONTRACT O-7
func TestReasonsOfMissingClaims(t *testing.T) {
	for name, tt := range map[string]struct {
		changes jwt.MapClaims
		want    string
	}{
		"no exp":              {jwt.MapClaims{"exp": nil}, `the token lacks "exp"`},
		"no issuer":           {jwt.MapClaims{"iss": nil}, `the token has no "iss"`},
		"other issuer":        {jwt.MapClaims{"iss": "https://evil.example"}, "from another issuer"},
		"no subject":          {jwt.MapClaims{"sub": nil}, `the token has no "sub"`},
		"subject is a number": {jwt.MapClaims{"sub": 7}, `"sub" is not a string`},
	} {
		_, err := bridge.FromToken(parsed(t, tt.changes, jwt.MapClaims{}))
		require.ErrorContains(t, err, tt.want, name)
		require.NotContains(t, err.Error(), "evil", name)
	}
}

// The claims of Keycloak are nested, and some issuers use addresses as names.
func TestClaimPaths(t *testing.T) {
	type object = map[string]any
	claims := jwt.MapClaims{
		"realm_access":               object{"roles": []string{"customer"}},
		"organization":               object{"acme": object{"id": "org-7"}},
		"https://shop.example/roles": []string{"seller"},
		"flat":                       "text",
		"twice.named":                "outer", "twice": object{"named": "inner"},
	}
	for _, tt := range []struct {
		c      authctx.Claims
		tenant string
		roles  []string
		want   string
	}{
		{c: authctx.Claims{RolesClaim: "realm_access.roles"}, tenant: "shop-7", roles: []string{"customer"}},
		{c: authctx.Claims{RolesClaim: "https://shop.example/roles"}, tenant: "shop-7", roles: []string{"seller"}},
		{c: authctx.Claims{RolesClaim: "resource_access.shop.roles"}, tenant: "shop-7"},
		{c: authctx.Claims{RolesClaim: "realm_access.none", TenantClaim: "organization.acme.id"}, tenant: "org-7"},
		{c: authctx.Claims{TenantClaim: "organization.other.id"}, roles: []string{"customer"}},
		{c: authctx.Claims{TenantClaim: "twice.named"}, tenant: "outer", roles: []string{"customer"}},
		{c: authctx.Claims{TenantClaim: "organization.acme"}, want: "the tenant is not a string"},
		{c: authctx.Claims{TenantClaim: "flat.id"}, want: "the path of TenantClaim"},
		{c: authctx.Claims{RolesClaim: "flat.roles"}, want: "the path of RolesClaim"},
		{c: authctx.Claims{RolesClaim: "organization.acme"}, want: "the roles are neither"},
	} {
		tt.c.Issuers = []string{testIssuer}
		p, err := tt.c.FromToken(parsed(t, claims, jwt.MapClaims{}))
		cfg := testConfig()
		cfg.TenantClaim, cfg.RolesClaim = tt.c.TenantClaim, tt.c.RolesClaim
		verified, errOfVerifier := newVerifier(t, cfg).Verify(sign(t, claims))
		if tt.want != "" {
			require.ErrorContains(t, err, tt.want)
			require.ErrorContains(t, errOfVerifier, tt.want)
			require.ErrorIs(t, err, authctx.ErrUnauthenticated)
			continue
		}
		require.NoError(t, err)
		want := tt.roles
		if tt.c.RolesClaim == "" {
			want = []string{"customer"}
		}
		require.Equal(t, authctx.Principal{Issuer: testIssuer, Tenant: tt.tenant, Subject: "customer-1", Roles: want}, p)
		require.NoError(t, errOfVerifier)
		require.Equal(t, p, verified)
	}
}

// CONTRACT S-1, O-7
func TestTenantByFunction(t *testing.T) {
	numeric := func(claims jwt.MapClaims) (string, error) {
		shop, ok := claims["shop"].(float64)
		if !ok {
			return "", errors.New("no shop in " + claims["sub"].(string))
		}
		return strconv.FormatFloat(shop, 'f', -1, 64), nil
	}
	c := authctx.Claims{Issuers: []string{testIssuer}, Tenant: numeric}
	cfg := testConfig()
	cfg.Tenant = numeric
	for _, find := range []func(changes jwt.MapClaims) (authctx.Principal, error){
		func(changes jwt.MapClaims) (authctx.Principal, error) {
			return c.FromToken(parsed(t, changes, jwt.MapClaims{}))
		},
		func(changes jwt.MapClaims) (authctx.Principal, error) {
			return newVerifier(t, cfg).Verify(sign(t, changes))
		},
	} {
		p, err := find(jwt.MapClaims{"shop": 7})
		require.NoError(t, err)
		require.Equal(t, "7", p.Tenant)
		_, err = find(nil)
		require.ErrorIs(t, err, authctx.ErrUnauthenticated)
		require.ErrorContains(t, err, "the app's function for the tenant")
		require.NotContains(t, err.Error(), "customer-1")
	}
	c.Tenant = func(jwt.MapClaims) (string, error) { return strings.Repeat("x", 256), nil }
	_, err := c.FromToken(parsed(t, nil, jwt.MapClaims{}))
	require.ErrorContains(t, err, "the app's tenant")

	c.TenantClaim, cfg.TenantClaim = "org", "org"
	require.ErrorContains(t, c.Check(), "Tenant: set it or TenantClaim")
	_, err = authctx.New(cfg)
	require.ErrorContains(t, err, "Tenant: set it or TenantClaim")
}
