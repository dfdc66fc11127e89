package authctx_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
)

func TestNewNamesWhatIsWrong(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*authctx.Config)
		want   string
	}{
		"no issuer":         {func(c *authctx.Config) { c.Issuer = "" }, "Issuer: is required"},
		"no audience":       {func(c *authctx.Config) { c.Audience = nil }, "Audience: is required"},
		"empty audience":    {func(c *authctx.Config) { c.Audience = []string{"a", ""} }, "Audience: is required"},
		"no key function":   {func(c *authctx.Config) { c.Keyfunc = nil }, "Keyfunc: is required"},
		"no algorithms":     {func(c *authctx.Config) { c.Algorithms = nil }, "Algorithms: is required"},
		"none":              {func(c *authctx.Config) { c.Algorithms = []string{"none"} }, `Algorithms: "none"`},
		"None":              {func(c *authctx.Config) { c.Algorithms = []string{"RS256", "None"} }, `Algorithms: "None"`},
		"unknown algorithm": {func(c *authctx.Config) { c.Algorithms = []string{"rs256"} }, `Algorithms: "rs256"`},
		"HS and RS":         {func(c *authctx.Config) { c.Algorithms = []string{"HS256", "RS256"} }, "Algorithms: HS256,"},
		"EdDSA and HS":      {func(c *authctx.Config) { c.Algorithms = []string{"EdDSA", "HS512"} }, "Algorithms: HS256,"},
		"negative leeway":   {func(c *authctx.Config) { c.Leeway = -1 }, "Leeway: -1ns"},
		"large leeway":      {func(c *authctx.Config) { c.Leeway = 2*time.Minute + 1 }, "Leeway: 2m0.000000001s is not between 0 and 2m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig()
			tt.change(&cfg)
			v, err := authctx.New(cfg)
			require.ErrorContains(t, err, tt.want)
			require.ErrorContains(t, err, "idem: ")
			require.Nil(t, v)
		})
	}
	_, err := authctx.New(authctx.Config{})
	for _, field := range []string{"Issuer:", "Audience:", "Algorithms:", "Keyfunc:"} {
		require.ErrorContains(t, err, field)
	}
	_, err = authctx.New()
	require.ErrorContains(t, err, "no Config")
	_, err = authctx.New(testConfig(), authctx.Config{})
	require.ErrorContains(t, err, "Config 2: Keyfunc:")
	_, err = authctx.New(testConfig(), testConfig())
	require.ErrorContains(t, err, "Config 2: Issuer:")

	for _, algorithms := range [][]string{{"HS256", "HS384", "HS512"}, {"RS256", "PS256", "ES256", "EdDSA"}} {
		cfg := testConfig()
		cfg.Algorithms, cfg.Leeway = algorithms, authctx.MaxLeeway
		newVerifier(t, cfg)
	}
}

// CONTRACT S-1, S-6
func TestVerify(t *testing.T) {
	v := newVerifier(t, testConfig())
	for name, tt := range map[string]struct {
		changes jwt.MapClaims
		want    authctx.Principal
	}{
		"all claims": {nil, authctx.Principal{
			Issuer: testIssuer, Tenant: "shop-7", Subject: "customer-1", Roles: []string{"customer"}}},
		"no tenant, no roles": {jwt.MapClaims{"tenant": nil, "roles": nil}, authctx.Principal{
			Issuer: testIssuer, Subject: "customer-1"}},
		"several audiences": {jwt.MapClaims{"aud": []string{"other", testAudience}}, authctx.Principal{
			Issuer: testIssuer, Tenant: "shop-7", Subject: "customer-1", Roles: []string{"customer"}}},
		"roles in one string": {jwt.MapClaims{"roles": "customer  seller"}, authctx.Principal{
			Issuer: testIssuer, Tenant: "shop-7", Subject: "customer-1", Roles: []string{"customer", "seller"}}},
		"longest subject": {jwt.MapClaims{"sub": strings.Repeat("s", 255), "tenant": "", "roles": null{}}, authctx.Principal{
			Issuer: testIssuer, Subject: strings.Repeat("s", 255)}},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := v.Verify(sign(t, tt.changes))
			require.NoError(t, err)
			require.Equal(t, tt.want, p)
		})
	}

	cfg := testConfig()
	cfg.TenantClaim, cfg.RolesClaim = "org", "scope"
	p, err := newVerifier(t, cfg).Verify(sign(t, jwt.MapClaims{"org": "acme", "scope": "pay refund"}))
	require.NoError(t, err)
	require.Equal(t, "acme", p.Tenant)
	require.Equal(t, []string{"pay", "refund"}, p.Roles)

	// Only SP stands between the roles of one string (RFC 8693, section 4.2): no other white space makes a role of a part.
	const odd = "a\u00a0admin b\u3000admin c\tadmin d\nadmin e\u0085admin"
	p, err = newVerifier(t, cfg).Verify(sign(t, jwt.MapClaims{"org": "acme", "scope": "  pay  " + odd + " "}))
	require.NoError(t, err)
	require.Equal(t, []string{"pay", "a\u00a0admin", "b\u3000admin", "c\tadmin", "d\nadmin", "e\u0085admin"}, p.Roles)
	require.False(t, p.HasAnyRole("admin"))
}

// requireRefused checks that an error is a refusal whose text holds no part of the token.
func requireRefused(t *testing.T, p authctx.Principal, err error, token string) {
	t.Helper()
	require.ErrorIs(t, err, authctx.ErrUnauthenticated)
	require.Zero(t, p)
	require.Less(t, len(err.Error()), 200)
	for part := range strings.FieldsFuncSeq(token, func(r rune) bool { return r == '.' || r == ' ' }) {
		require.NotContains(t, err.Error(), part)
	}
}

// CONTRACT S-1, O-2
func TestVerifyRefuses(t *testing.T) {
	v := newVerifier(t, testConfig())
	now := time.Now()
	good := sign(t, nil)
	forge := func(method jwt.SigningMethod, key any) string { return signWith(t, method, key, testClaims(nil)) }
	for name, tt := range map[string]struct {
		token string
		cause error
	}{
		"expired":              {sign(t, jwt.MapClaims{"exp": now.Add(-time.Second).Unix()}), jwt.ErrTokenExpired},
		"no exp":               {sign(t, jwt.MapClaims{"exp": nil}), jwt.ErrTokenRequiredClaimMissing},
		"exp of 0":             {sign(t, jwt.MapClaims{"exp": 0}), jwt.ErrTokenRequiredClaimMissing},
		"exp is no number":     {sign(t, jwt.MapClaims{"exp": "tomorrow"}), jwt.ErrInvalidType},
		"not valid yet":        {sign(t, jwt.MapClaims{"nbf": now.Add(time.Minute).Unix()}), jwt.ErrTokenNotValidYet},
		"issued in the future": {sign(t, jwt.MapClaims{"iat": now.Add(time.Minute).Unix()}), jwt.ErrTokenUsedBeforeIssued},
		"other issuer":         {sign(t, jwt.MapClaims{"iss": "https://evil.example"}), jwt.ErrTokenInvalidIssuer},
		"issuer with a slash":  {sign(t, jwt.MapClaims{"iss": testIssuer + "/"}), jwt.ErrTokenInvalidIssuer},
		"no issuer":            {sign(t, jwt.MapClaims{"iss": nil}), jwt.ErrTokenRequiredClaimMissing},
		"other audience":       {sign(t, jwt.MapClaims{"aud": "admin"}), jwt.ErrTokenInvalidAudience},
		"no audience":          {sign(t, jwt.MapClaims{"aud": nil}), jwt.ErrTokenRequiredClaimMissing},
		"no subject":           {sign(t, jwt.MapClaims{"sub": nil}), nil},
		"empty subject":        {sign(t, jwt.MapClaims{"sub": ""}), nil},
		"subject is a number":  {sign(t, jwt.MapClaims{"sub": 7}), jwt.ErrInvalidType},
		"subject too long":     {sign(t, jwt.MapClaims{"sub": strings.Repeat("s", 256)}), nil},
		"subject no Unicode":   {sign(t, jwt.MapClaims{"sub": "customer-\xff"}), nil},
		"tenant is a number":   {sign(t, jwt.MapClaims{"tenant": 7}), nil},
		"tenant is null":       {sign(t, jwt.MapClaims{"tenant": null{}}), nil},
		"tenant is a list":     {sign(t, jwt.MapClaims{"tenant": []string{"shop-7"}}), nil},
		"tenant too long":      {sign(t, jwt.MapClaims{"tenant": strings.Repeat("t", 256)}), nil},
		"roles are a number":   {sign(t, jwt.MapClaims{"roles": 7}), nil},
		"one role is a number": {sign(t, jwt.MapClaims{"roles": []any{"customer", 7}}), nil},
		"roles are an object":  {sign(t, jwt.MapClaims{"roles": map[string]bool{"customer": true}}), nil},

		"alg none":      {forge(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType), jwt.ErrTokenSignatureInvalid},
		"other alg":     {forge(jwt.SigningMethodHS512, testSecret), jwt.ErrTokenSignatureInvalid},
		"other secret":  {forge(jwt.SigningMethodHS256, []byte("guessed")), jwt.ErrTokenSignatureInvalid},
		"no signature":  {good[:strings.LastIndex(good, ".")+1], jwt.ErrTokenSignatureInvalid},
		"other payload": {swapPayload(good, sign(t, jwt.MapClaims{"sub": "customer-2"})), jwt.ErrTokenSignatureInvalid},
		"empty":         {"", jwt.ErrTokenMalformed},
		"garbage":       {"garbage", jwt.ErrTokenMalformed},
		"dots":          {"..", jwt.ErrTokenMalformed},
		"more segments": {good + ".e30", jwt.ErrTokenMalformed},
		"100 KB":        {strings.Repeat("A", 100<<10), nil},
		"100 KB, valid": {sign(t, jwt.MapClaims{"padding": strings.Repeat("A", 100<<10)}), nil},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := v.Verify(tt.token)
			requireRefused(t, p, err, tt.token)
			if tt.cause != nil {
				require.ErrorIs(t, errors.Unwrap(err), tt.cause)
			}
		})
	}
}

// swapPayload returns token with the claims of other.
func swapPayload(token, other string) string {
	parts, others := strings.Split(token, "."), strings.Split(other, ".")
	return parts[0] + "." + others[1] + "." + parts[2]
}

// Where an issuer marks its access tokens, its other tokens are none, even for the same audience (RFC 9068, section 4).
//
// CONTRACT O-7
func TestVerifyTokenType(t *testing.T) {
	cfg := testConfig()
	cfg.Type = "at+jwt"
	strict, lax := newVerifier(t, cfg), newVerifier(t, testConfig())
	for typ, want := range map[any]bool{"at+jwt": true, "AT+JWT": true, "application/at+jwt": true,
		"JWT": false, "logout+jwt": false, "": false, 7: false, nil: false} {
		token := jwt.NewWithClaims(jwt.SigningMethodHS256, testClaims(nil))
		token.Header["typ"] = typ
		if typ == nil {
			delete(token.Header, "typ")
		}
		signed, err := token.SignedString(testSecret)
		require.NoError(t, err)
		p, err := strict.Verify(signed)
		if want {
			require.NoError(t, err, "%v", typ)
		} else {
			requireRefused(t, p, err, signed)
		}
		require.NoError(t, err2(lax.Verify(signed)), "%v", typ)
	}
}

func err2(_ authctx.Principal, err error) error { return err }

// A token says in "crit" which extensions must be understood; none are (RFC 7515, section 4.1.11).
func TestVerifyRefusesCriticalExtensions(t *testing.T) {
	token := jwt.NewWithClaims(jwt.SigningMethodHS256, testClaims(nil))
	token.Header["crit"] = []string{"exp"}
	signed, err := token.SignedString(testSecret)
	require.NoError(t, err)
	p, err := newVerifier(t, testConfig()).Verify(signed)
	requireRefused(t, p, err, signed)
	require.ErrorIs(t, err, jwt.ErrTokenUnverifiable, "no key was tried")
}

// A token of an issuer that puts many roles in it may be long. Memory is bounded all the same.
func TestVerifyLongestToken(t *testing.T) {
	v := newVerifier(t, testConfig())
	for length, want := range map[int]bool{16 << 10: true, 16<<10 + 1: false} {
		token := ""
		for padding := 11_900; len(token) < length; padding++ {
			token = sign(t, jwt.MapClaims{"padding": strings.Repeat("A", padding)})
		}
		require.Len(t, token, length)
		_, err := v.Verify(token)
		require.Equal(t, want, err == nil, "%d bytes: %v", length, err)
	}
}

// A public key is no secret: nobody may sign with it.
func TestVerifyRefusesKeyConfusion(t *testing.T) {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	der, err := x509.MarshalPKIXPublicKey(&private.PublicKey)
	require.NoError(t, err)
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})

	cfg := testConfig()
	cfg.Algorithms, cfg.Keyfunc = []string{"RS256"}, keyOf(&private.PublicKey)
	v := newVerifier(t, cfg)
	_, err = v.Verify(signWith(t, jwt.SigningMethodRS256, private, testClaims(nil)))
	require.NoError(t, err)

	for _, secret := range [][]byte{public, der} {
		forged := signWith(t, jwt.SigningMethodHS256, secret, testClaims(nil))
		p, err := v.Verify(forged)
		requireRefused(t, p, err, forged)
	}
	p, err := v.Verify(signWith(t, jwt.SigningMethodPS256, private, testClaims(nil)))
	requireRefused(t, p, err, "")
}

func TestVerifyKeyFunctionFails(t *testing.T) {
	token := sign(t, nil)
	boom := errors.New("the key server is down")
	for name, keyFunc := range map[string]jwt.Keyfunc{
		"error":      func(*jwt.Token) (any, error) { return nil, boom },
		"leaky":      func(token *jwt.Token) (any, error) { return nil, fmt.Errorf("no key for %s: %w", token.Raw, boom) },
		"nil key":    keyOf(nil),
		"wrong key":  keyOf("a string"),
		"no keys":    keyOf(jwt.VerificationKeySet{}),
		"both":       func(*jwt.Token) (any, error) { return testSecret, boom },
		"other keys": keyOf(jwt.VerificationKeySet{Keys: []jwt.VerificationKey{[]byte("other")}}),
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig()
			cfg.Keyfunc = keyFunc
			p, err := newVerifier(t, cfg).Verify(token)
			requireRefused(t, p, err, token)
			switch name {
			case "error", "leaky", "both":
				require.ErrorIs(t, err, boom, "the cause is there for logs")
			}
		})
	}

	forged := signWith(t, jwt.SigningMethodHS256, []byte{}, testClaims(nil))
	for name, key := range map[string]any{ // an unset environment variable
		"the only secret": []byte{},
		"the old secret":  jwt.VerificationKeySet{Keys: []jwt.VerificationKey{testSecret, []byte{}}},
		"the new secret":  jwt.VerificationKeySet{Keys: []jwt.VerificationKey{[]byte(nil), testSecret}},
	} {
		cfg := testConfig()
		cfg.Keyfunc = keyOf(key)
		p, err := newVerifier(t, cfg).Verify(forged)
		requireRefused(t, p, err, forged)
		require.ErrorIs(t, err, jwt.ErrTokenUnverifiable, name)
	}
}

func TestVerifyLeeway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig()
		strict := newVerifier(t, cfg)
		cfg.Leeway = 10 * time.Second
		lenient := newVerifier(t, cfg)
		now := time.Now()
		token := sign(t, jwt.MapClaims{"exp": now.Add(time.Minute).Unix(), "nbf": now.Add(5 * time.Second).Unix()})
		for _, step := range []struct {
			after           time.Duration
			strict, lenient bool
		}{
			{0, false, true}, {4 * time.Second, false, true}, {5 * time.Second, true, true}, {59 * time.Second, true, true},
			{60 * time.Second, false, true}, {69 * time.Second, false, true}, {70 * time.Second, false, false},
		} {
			time.Sleep(time.Until(now.Add(step.after)))
			_, err := strict.Verify(token)
			require.Equal(t, step.strict, err == nil, "strict after %v", step.after)
			_, err = lenient.Verify(token)
			require.Equal(t, step.lenient, err == nil, "lenient after %v", step.after)
		}
	})
}

// CONTRACT S-2
func TestRefreshedTokenIsTheSamePrincipal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVerifier(t, testConfig())
		first, err := v.Verify(sign(t, nil))
		require.NoError(t, err)
		time.Sleep(2 * time.Hour)
		second, err := v.Verify(sign(t, jwt.MapClaims{"jti": "2", "roles": []string{"customer", "seller"}}))
		require.NoError(t, err)
		require.Equal(t, []string{"customer", "seller"}, second.Roles, "rights are those of now")
		require.Equal(t, core.Scoping{}.PrincipalScope(first), core.Scoping{}.PrincipalScope(second))
		require.Equal(t, core.Scoping{}.RecordID(first, "k"), core.Scoping{}.RecordID(second, "k"))
	})
}

// The client counts where core.Scoping says so, and nowhere else.
//
// CONTRACT S-4
func TestClient(t *testing.T) {
	v := newVerifier(t, testConfig())
	for name, tt := range map[string]struct {
		changes jwt.MapClaims
		want    string
	}{
		"none":      {nil, ""},
		"azp":       {jwt.MapClaims{"azp": "web"}, "web"},
		"client_id": {jwt.MapClaims{"client_id": "app"}, "app"},
		"both":      {jwt.MapClaims{"azp": "web", "client_id": "app"}, "web"},
		"empty":     {jwt.MapClaims{"azp": ""}, ""},
	} {
		p, err := v.Verify(sign(t, tt.changes))
		require.NoError(t, err, name)
		require.Equal(t, tt.want, p.Client, name)
	}
	for name, changes := range map[string]jwt.MapClaims{
		"number": {"azp": 1}, "list": {"client_id": []string{"web"}}, "null": {"azp": null{}, "client_id": "web"},
		"too long": {"azp": strings.Repeat("c", 256)}, "no Unicode": {"client_id": "\ufffd"},
	} {
		_, err := v.Verify(sign(t, changes))
		require.ErrorIs(t, err, authctx.ErrUnauthenticated, name)
	}
}

// CONTRACT S-1
func TestOneSubjectAtTwoIssuers(t *testing.T) {
	const otherIssuer = "https://other.example"
	otherSecret := []byte("another secret, of the forty-eight bytes of HS384")
	other := testConfig()
	other.Issuer, other.Keyfunc, other.Algorithms = otherIssuer, keyOf(otherSecret), []string{"HS384"}
	v := newVerifier(t, testConfig(), other)

	first, err := v.Verify(sign(t, nil))
	require.NoError(t, err)
	otherClaims := testClaims(jwt.MapClaims{"iss": otherIssuer})
	second, err := v.Verify(signWith(t, jwt.SigningMethodHS384, otherSecret, otherClaims))
	require.NoError(t, err)
	require.Equal(t, first.Subject, second.Subject)
	require.NotEqual(t, core.Scoping{}.PrincipalScope(first), core.Scoping{}.PrincipalScope(second))
	require.NotEqual(t, core.Scoping{}.RecordID(first, "k"), core.Scoping{}.RecordID(second, "k"))

	// neither issuer can speak for the other, nor anybody for a third
	for name, token := range map[string]string{
		"with the first's key":       signWith(t, jwt.SigningMethodHS384, testSecret, otherClaims),
		"with the first's algorithm": signWith(t, jwt.SigningMethodHS256, otherSecret, otherClaims),
		"with the second's key":      signWith(t, jwt.SigningMethodHS256, otherSecret, testClaims(nil)),
		"a third issuer":             sign(t, jwt.MapClaims{"iss": "https://third.example"}),
		"no issuer":                  sign(t, jwt.MapClaims{"iss": nil}),
		"garbage":                    "garbage",
	} {
		p, err := v.Verify(token)
		require.Error(t, err, name)
		requireRefused(t, p, err, token)
	}
}

// CONTRACT S-1
func TestOneSubjectAtTwoTenants(t *testing.T) {
	v := newVerifier(t, testConfig())
	seen := map[core.ID]bool{}
	for _, tenant := range []any{"shop-7", "shop-8", nil} {
		p, err := v.Verify(sign(t, jwt.MapClaims{"tenant": tenant}))
		require.NoError(t, err)
		id := core.Scoping{}.RecordID(p, "k")
		require.False(t, seen[id])
		seen[id] = true
	}
}

// A set of keys with names. Sets over HTTP are tried where the packages are that read them: the example app, internal/interop.
func TestVerifyWithKeySet(t *testing.T) {
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)

	set := map[any]any{"ec": ecKey.Public(), "ed": edKey.Public()}
	cfg := testConfig()
	cfg.Algorithms = []string{"ES256", "EdDSA"}
	cfg.Keyfunc = func(token *jwt.Token) (any, error) {
		key, ok := set[token.Header["kid"]]
		if !ok {
			return nil, errors.New("no such key")
		}
		return key, nil
	}
	v := newVerifier(t, cfg)
	signKID := func(method jwt.SigningMethod, kid string, key any) string {
		token := jwt.NewWithClaims(method, testClaims(nil))
		token.Header["kid"] = kid
		signed, err := token.SignedString(key)
		require.NoError(t, err)
		return signed
	}
	for _, token := range []string{
		signKID(jwt.SigningMethodES256, "ec", ecKey), signKID(jwt.SigningMethodEdDSA, "ed", edKey),
	} {
		p, err := v.Verify(token)
		require.NoError(t, err)
		require.Equal(t, "customer-1", p.Subject)
	}
	for name, token := range map[string]string{
		"unknown key":     signKID(jwt.SigningMethodEdDSA, "other", edKey),
		"key of another":  signKID(jwt.SigningMethodEdDSA, "ec", edKey),
		"public key":      signKID(jwt.SigningMethodHS256, "ed", []byte(edKey.Public().(ed25519.PublicKey))),
		"without key id":  signWith(t, jwt.SigningMethodES256, newECKey(t), testClaims(nil)),
		"none, key known": signKID(jwt.SigningMethodNone, "ed", jwt.UnsafeAllowNoneSignatureType),
	} {
		p, err := v.Verify(token)
		require.Error(t, err, name)
		requireRefused(t, p, err, token)
	}
}

func newECKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return key
}

func BenchmarkVerify(b *testing.B) {
	v := newVerifier(b, testConfig())
	token := sign(b, nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.Verify(token); err != nil {
			b.Fatal(err)
		}
	}
}
