package authctx_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/auth19/idem/authctx"
	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
)

const (
	testIssuer   = "https://issuer.example"
	testAudience = "payments"
)

var testSecret = []byte("a secret of thirty-two bytes or so")

// testConfig trusts tokens that sign makes.
func testConfig() authctx.Config {
	return authctx.Config{
		Issuer: testIssuer, Audience: []string{testAudience}, Algorithms: []string{"HS256"}, Keyfunc: keyOf(testSecret),
	}
}

func keyOf(key any) jwt.Keyfunc {
	return func(*jwt.Token) (any, error) { return key, nil }
}

// testClaims are good claims, with changes; a nil value takes the claim out.
func testClaims(changes jwt.MapClaims) jwt.MapClaims {
	claims := jwt.MapClaims{
		"iss": testIssuer, "aud": testAudience, "sub": "customer-1", "tenant": "shop-7", "roles": []string{"customer"},
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	}
	maps.Copy(claims, changes)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	return claims
}

// null is the JSON null, which nil cannot stand for in changes.
type null struct{}

func (null) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

func sign(t testing.TB, changes jwt.MapClaims) string {
	t.Helper()
	return signWith(t, jwt.SigningMethodHS256, testSecret, testClaims(changes))
}

func signWith(t testing.TB, method jwt.SigningMethod, key any, claims jwt.Claims) string {
	t.Helper()
	token, err := jwt.NewWithClaims(method, claims).SignedString(key)
	require.NoError(t, err)
	return token
}

func newVerifier(t testing.TB, configs ...authctx.Config) *authctx.Verifier {
	t.Helper()
	v, err := authctx.New(configs...)
	require.NoError(t, err)
	return v
}

// CONTRACT O-2
func TestContext(t *testing.T) {
	p := authctx.Principal{Issuer: testIssuer, Subject: "customer-1", Roles: []string{"customer"}}
	got, ok := authctx.FromContext(authctx.NewContext(t.Context(), p))
	require.True(t, ok)
	require.Equal(t, p, got)

	_, ok = authctx.FromContext(t.Context())
	require.False(t, ok)
	for _, anonymous := range []authctx.Principal{
		{}, {Issuer: testIssuer}, {Subject: "customer-1"}, {Tenant: "shop-7", Roles: []string{"admin"}},
	} {
		got, ok = authctx.FromContext(authctx.NewContext(t.Context(), anonymous))
		require.False(t, ok)
		require.Zero(t, got)
	}
	_, ok = authctx.FromContext(authctx.NewContext(authctx.NewContext(t.Context(), p), authctx.Principal{}))
	require.False(t, ok, "an invalid principal hides the one before")
}

// masked is an id that does not show itself.
type masked int

func (masked) String() string { return "***" }

// One user is one subject, however the text of its id was spelled.
//
// CONTRACT S-6, S-1
func TestUserUUID(t *testing.T) {
	type uuid [16]byte // as google/uuid and gofrs/uuid declare it
	id := uuid{0x7d, 0x44, 0x48, 0x40, 0x9d, 0xc0, 0x11, 0xd1, 0xb2, 0x45, 0x5f, 0xfd, 0xce, 0x74, 0xfa, 0xd2}
	p, err := authctx.UserUUID(testIssuer, id, "customer")
	require.NoError(t, err)
	require.Equal(t, authctx.Principal{
		Issuer: testIssuer, Subject: "7d444840-9dc0-11d1-b245-5ffdce74fad2", Roles: []string{"customer"},
	}, p)
}

// Every way that leads to a principal refuses what stands for nobody.
//
// CONTRACT S-6, O-2
func TestNobodyIsNoPrincipal(t *testing.T) {
	for _, anonymous := range []string{"00000000-0000-0000-0000-000000000000", "<nil>", "%!s(<nil>)", "null", "0"} {
		for _, claim := range []string{"sub", "tenant"} {
			claims := authctx.Claims{Issuers: []string{testIssuer}}
			_, err := claims.Principal(jwt.MapClaims{"iss": testIssuer, "sub": "alice", "exp": float64(time.Now().Unix() + 60), claim: anonymous})
			require.ErrorIs(t, err, authctx.ErrUnauthenticated, claim)
			_, err = newVerifier(t, testConfig()).Verify(sign(t, jwt.MapClaims{claim: anonymous}))
			require.ErrorIs(t, err, authctx.ErrUnauthenticated, claim)
		}
		p := authctx.Principal{Issuer: testIssuer, Subject: anonymous}
		_, ok := authctx.FromContext(authctx.NewContext(t.Context(), p))
		require.False(t, ok)
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		require.Equal(t, http.StatusUnauthorized, authctx.Refuse(r, "/", p, nil).Status, "of a Bridge")
	}
}

// CONTRACT O-2, S-1, S-6
func TestUser(t *testing.T) {
	p, err := authctx.User(testIssuer, uint(17), "customer")
	require.NoError(t, err)
	require.Equal(t, authctx.Principal{Issuer: testIssuer, Subject: "17", Roles: []string{"customer"}}, p)
	p, err = authctx.User(testIssuer, masked(18))
	require.NoError(t, err)
	require.Equal(t, "18", p.Subject, "two ids are never one subject")
	p, err = authctx.User(testIssuer, "u-19")
	require.NoError(t, err)
	require.Equal(t, "u-19", p.Subject)

	for name, refused := range map[string]func() (authctx.Principal, error){
		"a value that nobody has set": func() (authctx.Principal, error) { return authctx.User(testIssuer, uint64(0)) },
		"no text":                     func() (authctx.Principal, error) { return authctx.User(testIssuer, "") },
		"a zero as text":              func() (authctx.Principal, error) { return authctx.User(testIssuer, "0") },
		"an unset UUID": func() (authctx.Principal, error) {
			return authctx.User(testIssuer, "00000000-0000-0000-0000-000000000000")
		},
		"an unset UUID as bytes": func() (authctx.Principal, error) { return authctx.UserUUID(testIssuer, [16]byte{}) },
		"an unset ObjectID":      func() (authctx.Principal, error) { return authctx.User(testIssuer, "000000000000000000000000") },
		"a wrong verb":           func() (authctx.Principal, error) { return authctx.User(testIssuer, "%!s(<nil>)") },
		"null":                   func() (authctx.Principal, error) { return authctx.User(testIssuer, "null") },
		"an unset issuer":        func() (authctx.Principal, error) { return authctx.User("<nil>", 17) },
		"nil as text":            func() (authctx.Principal, error) { return authctx.User(testIssuer, "<nil>") },
		"not found":              func() (authctx.Principal, error) { return authctx.User(testIssuer, -1) },
		"no issuer":              func() (authctx.Principal, error) { return authctx.User("", 17) },
		"too long":               func() (authctx.Principal, error) { return authctx.User(testIssuer, strings.Repeat("x", 256)) },
		"not Unicode":            func() (authctx.Principal, error) { return authctx.User(testIssuer, "u-\xff") },
	} {
		p, err := refused()
		require.ErrorIs(t, err, authctx.ErrUnauthenticated, name)
		require.Zero(t, p, name)
	}
}
