package authctx_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/auth19/idem/authctx"
	"github.com/stretchr/testify/require"
)

func TestBearerToken(t *testing.T) {
	for _, line := range []string{"Bearer a.b-c_d~e+f/g==", "bearer a.b-c_d~e+f/g==", "BEARER   a.b-c_d~e+f/g== "} {
		token, err := authctx.BearerToken(http.Header{"Authorization": {line}})
		require.NoError(t, err)
		require.Equal(t, "a.b-c_d~e+f/g==", token)
	}
	const secret = "secret-token"
	for name, lines := range map[string][]string{
		"no header":         nil,
		"two headers":       {"Bearer " + secret, "Bearer " + secret},
		"two, one empty":    {"Bearer " + secret, ""},
		"empty":             {""},
		"no token":          {"Bearer"},
		"blank token":       {"Bearer  "},
		"no scheme":         {secret},
		"basic":             {"Basic " + secret},
		"longer scheme":     {"Bearer2 " + secret},
		"no space":          {"Bearer:" + secret},
		"tab":               {"Bearer\t" + secret},
		"two tokens":        {"Bearer " + secret + " " + secret},
		"list":              {"Bearer " + secret + ", Bearer " + secret},
		"parameters":        {"Bearer token=" + secret},
		"padding only":      {"Bearer =="},
		"padding inside":    {"Bearer " + secret + "=" + secret},
		"quotes":            {`Bearer "` + secret + `"`},
		"control character": {"Bearer " + secret + "\x00"},
		"non-ASCII":         {"Bearer " + secret + "é"},
		"100 KB of spaces":  {"Bearer " + strings.Repeat(" ", 100<<10)},
	} {
		t.Run(name, func(t *testing.T) {
			token, err := authctx.BearerToken(http.Header{"Authorization": lines})
			require.ErrorIs(t, err, authctx.ErrUnauthenticated)
			require.NotContains(t, err.Error(), secret)
			require.Empty(t, token)
		})
	}
}

func TestVerifyRequest(t *testing.T) {
	v := newVerifier(t, testConfig())
	token := sign(t, nil)
	r := httptest.NewRequest(http.MethodPost, "/v1/payments?access_token="+token, http.NoBody)
	p, err := v.VerifyRequest(r)
	requireRefused(t, p, err, token)
	require.ErrorContains(t, err, "no Authorization header")

	r.Header.Set("Authorization", "Bearer "+token)
	p, err = v.VerifyRequest(r)
	require.NoError(t, err)
	require.Equal(t, "customer-1", p.Subject)

	r.Header.Add("Authorization", "Bearer "+token)
	p, err = v.VerifyRequest(r)
	requireRefused(t, p, err, token)

	r.Header.Set("Authorization", "Bearer "+strings.Repeat("A", 100<<10))
	p, err = v.VerifyRequest(r)
	requireRefused(t, p, err, strings.Repeat("A", 100<<10))
}
