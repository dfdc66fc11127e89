package authctx_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
)

// CONTRACT O-7, O-1
func TestRefuse(t *testing.T) {
	cfg := testConfig()
	quoting := cfg
	quoting.Keyfunc = func(token *jwt.Token) (any, error) { return nil, errors.New("no key for " + token.Raw) }
	token := sign(t, nil)
	_, quoted := newVerifier(t, quoting).Verify(token)
	require.Error(t, quoted)
	somebody := authctx.Principal{Issuer: testIssuer, Subject: "customer-1"}
	_, expired := newVerifier(t, cfg).Verify(sign(t, jwt.MapClaims{"exp": 1}))

	r := httptest.NewRequest(http.MethodPost, "/v1/payments/7", nil)
	for name, tt := range map[string]struct {
		p    authctx.Principal
		err  error
		want string
	}{
		"expired":              {err: expired, want: "the token has expired"},
		"expired, quoted":      {err: fmt.Errorf("%s: %w", token, expired), want: "the token has expired"},
		"a key function":       {err: quoted, want: "cannot be verified"},
		"an error of the app":  {p: somebody, err: errors.New("bad: " + token), want: "*errors.errorString"},
		"a refusal of the app": {err: fmt.Errorf("%s: %w", token, authctx.ErrUnauthenticated), want: "idem: unauthenticated"},
		"nobody":               {want: "lacks Issuer or Subject"},
	} {
		t.Run(name, func(t *testing.T) {
			var told []core.Event
			observer := core.ObserverFunc(func(_ context.Context, e core.Event) { told = append(told, e) })
			panics := core.ObserverFunc(func(context.Context, core.Event) { panic("observer") })
			reply := authctx.Refuse(r, "/v1/payments/:id", tt.p, tt.err, nil, panics, observer)
			require.Equal(t, http.StatusUnauthorized, reply.Status)
			require.NotContains(t, string(reply.Body), tt.want)
			require.Len(t, told, 1)
			require.Equal(t, core.EventRefused, told[0].Kind)
			require.Equal(t, core.CodeUnauthenticated, told[0].Code)
			require.Equal(t, http.MethodPost, told[0].Method)
			require.Equal(t, "/v1/payments/:id", told[0].Route)
			require.ErrorContains(t, told[0].Err, tt.want)
			for err := told[0].Err; err != nil; err = errors.Unwrap(err) {
				require.NotContains(t, err.Error(), token)
			}
		})
	}
	require.Nil(t, authctx.Refuse(r, "", somebody, nil, nil))
}
