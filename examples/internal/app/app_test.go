package app

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/examples/internal/demo"
)

func load(env map[string]string) (Settings, error) {
	return LoadSettings(func(name string) string { return env[name] })
}

func TestDefaults(t *testing.T) {
	s, err := load(nil)
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:8080", s.Addr)
	require.Equal(t, "the SQLite file idem-example.db", s.Database.String())
	require.Equal(t, 30*time.Second, s.Lease)
	require.Equal(t, time.Minute, s.Deadline)
	require.Equal(t, 72*time.Hour, s.Retention)
	require.False(t, s.Unsafe)
}

// CONTRACT T-2
func TestBounds(t *testing.T) {
	for _, env := range []map[string]string{
		{"RETENTION": "24h", "LEASE": "1s", "DEADLINE": "1s"}, {"RETENTION": "72h", "LEASE": "1h", "DEADLINE": "24h"},
		{"JWT_SECRET": strings.Repeat("x", 32)}, {"JWT_SECRET": "unused", "JWKS_URL": "https://issuer.example/keys"},
	} {
		_, err := load(env)
		require.NoError(t, err)
	}
	for name, values := range map[string][]string{
		"RETENTION": {"23h59m59s", "72h1s", "3d", "72", "-24h"}, "LEASE": {"0", "999ms", "61m", "x"},
		"DEADLINE": {"0s", "25h"}, "UNSAFE_SIMULATOR": {"true", "2"}, "JWT_SECRET": {"x", strings.Repeat("x", 31)},
	} {
		for _, value := range values {
			_, err := load(map[string]string{name: value})
			require.ErrorContains(t, err, name+": ", value)
			require.NotContains(t, err.Error(), "\n")
		}
	}
}

func TestProviderURL(t *testing.T) {
	s, err := load(map[string]string{"PROVIDER_URL": "http://127.0.0.1:8081/", "PROVIDER_TOKEN": "eyJ"})
	require.NoError(t, err)
	require.Equal(t, "http://127.0.0.1:8081", s.ProviderURL)
	require.Equal(t, "eyJ", s.ProviderToken)
	for _, env := range []map[string]string{
		{"PROVIDER_URL": "http://127.0.0.1:8081"}, {"PROVIDER_URL": "nowhere", "PROVIDER_TOKEN": "eyJ"},
		{"PROVIDER_URL": "http://%", "PROVIDER_TOKEN": "eyJ"},
	} {
		_, err := load(env)
		require.ErrorContains(t, err, "PROVIDER_URL: ")
		require.NotContains(t, err.Error(), "eyJ")
	}
}

func TestTokensAreAccepted(t *testing.T) {
	s, err := load(map[string]string{"JWT_SECRET": "another secret of somebody, in 32 bytes"})
	require.NoError(t, err)
	verifier, err := s.verifier(t.Context())
	require.NoError(t, err)
	tokens, err := s.tokens(time.Now())
	require.NoError(t, err)
	seen := map[string]string{}
	for _, token := range tokens {
		p, err := verifier.Verify(token.text)
		require.NoError(t, err)
		require.Equal(t, "https://issuer.example", p.Issuer)
		seen[p.Subject] = p.Roles[0]
	}
	require.Equal(t, map[string]string{
		"customer-1": "customer", "customer-2": "customer", "seller-1": "seller", "operator-1": "operator",
	}, seen)

	other, err := load(nil)
	require.NoError(t, err)
	strange, err := other.tokens(time.Now())
	require.NoError(t, err)
	_, err = verifier.Verify(strange[0].text)
	require.Error(t, err)
	old, err := s.tokens(time.Now().Add(-tokenLife - time.Minute))
	require.NoError(t, err)
	_, err = verifier.Verify(old[0].text)
	require.Error(t, err)
}

func TestBanner(t *testing.T) {
	s, err := load(nil)
	require.NoError(t, err)
	try := trial{key: "a-key", operation: core.ID{1}, signIn: "/idem-sign-in?ticket=t"}
	text := banner(s, "http://h:1", []token{{"customer-1", "eyJ.x"}}, try)
	require.Regexp(t, "^Open http://h:1/ in a browser", text)
	require.Contains(t, text, "\ncustomer-1: eyJ.x\n")
	require.Contains(t, text, "\nlistening on http://h:1\n")
	require.Contains(t, text, developmentSecret)
	require.Contains(t, text, "\nKEY=a-key\n")
	require.Contains(t, text, "curl -i http://h:1/v1/operations/"+try.operation.String()+" ")
	require.Contains(t, text, "\nhttp://h:1/idem-sign-in?ticket=t\n")
	require.Contains(t, text, "curl -i http://h:1/v1/payouts ")
	require.Regexp(t, `(?m)^curl -i http://h:1/v1/payouts [^$\n]*"method":"pm_error"`, text, "it needs no variable")
	require.Contains(t, text, "Ctrl+C")
	require.Contains(t, text, "stays in the SQLite file idem-example.db")

	s.JWTSecret = "a secret"
	require.Regexp(t, "^http://h:1/\n", banner(s, "http://h:1", []token{{"customer-1", "eyJ.x"}}, try))
	require.NotContains(t, banner(s, "http://h:1", []token{{"customer-1", "eyJ.x"}}, try), "secret")
	text = banner(s, "http://h:1", nil, try)
	require.Contains(t, text, "Ctrl+C")
	require.NotContains(t, text, "curl")
}

// The demo hands out tokens: it is there only for those who could sign one themselves.
func TestDemoMode(t *testing.T) {
	for _, env := range []map[string]string{nil, {"DATABASE_URL": "sqlite:shop.db"}, {"JWT_SECRET": developmentSecret}} {
		s, err := load(env)
		require.NoError(t, err)
		require.True(t, s.isDemo(), env)
	}
	for _, env := range []map[string]string{
		{"DATABASE_URL": "postgres://localhost/shop"}, {"JWT_SECRET": "a secret of somebody, in 32 bytes or more"}, {"JWKS_URL": "https://issuer.example/keys"},
	} {
		s, err := load(env)
		require.NoError(t, err)
		require.False(t, s.isDemo(), env)
	}
}

func TestBaseURL(t *testing.T) {
	for address, want := range map[*net.TCPAddr]string{
		{IP: net.IPv4zero, Port: 80}:              "http://127.0.0.1:80",
		{IP: net.IPv6unspecified, Port: 80}:       "http://127.0.0.1:80",
		{IP: net.IPv6loopback, Port: 80}:          "http://[::1]:80",
		{IP: net.ParseIP("10.0.0.1"), Port: 8080}: "http://10.0.0.1:8080",
	} {
		require.Equal(t, want, baseURL(address))
	}
}

func TestExempt(t *testing.T) {
	for want, table := range map[string]core.Routes{
		"PATCH /v1/profile, POST /v1/operations/find": routes(core.AnyKey), "POST /demo/payments": demo.Routes(),
	} {
		exempt := []string{}
		for name, policy := range table {
			if policy.Exempt != "" {
				exempt = append(exempt, name)
			}
			require.NotEmpty(t, policy.Roles, name)
		}
		require.ElementsMatch(t, strings.Split(want, ", "), exempt)
	}
}
