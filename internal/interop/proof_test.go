package interop_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/httpidem"
	"github.com/auth19/idem/core/wire"
)

// A one-time code is new in each attempt. In a header it does not count, in the body it makes another command
// (docs/client.md).
//
// CONTRACT H-1
func TestProofOfTheCaller(t *testing.T) {
	idem := newModule(t)
	codes := map[string]bool{"111111": true, "222222": true}
	app := httpidem.NewRouter()
	app.Use(httpidem.Bridge(func(*http.Request) (authctx.Principal, error) { return authctx.User(shop, 17) }), httpidem.Idempotent(idem))
	app.HandleFunc("POST /payments", func(w http.ResponseWriter, r *http.Request) {
		code := r.Header.Get("One-Time-Code")
		if code != "" && !codes[code] {
			core.NotApplied(r.Context())
			http.Error(w, "the code is wrong", http.StatusForbidden)
			return
		}
		delete(codes, code)
		w.WriteHeader(http.StatusCreated)
	})
	require.NoError(t, httpidem.Audit(app, idem))
	for key, test := range map[string]struct {
		body   func(code string) string
		header bool
		result string
		status int
	}{
		"in-a-header": {func(string) string { return `{"amount":10}` }, true, wire.ResultReused, http.StatusCreated},
		"in-the-body": {func(code string) string { return `{"amount":10,"code":"` + code + `"}` }, false, "", http.StatusConflict},
	} {
		send := func(code string) *httptest.ResponseRecorder {
			r := httptest.NewRequest(http.MethodPost, "/payments", strings.NewReader(test.body(code)))
			r.Header.Set(wire.HeaderKey, key)
			if test.header {
				r.Header.Set("One-Time-Code", code)
			}
			w := httptest.NewRecorder()
			app.ServeHTTP(w, r)
			return w
		}
		if test.header {
			require.Equal(t, http.StatusForbidden, send("000000").Code, "the key stays free")
		}
		require.Equal(t, http.StatusCreated, send("111111").Code, key)
		again := send("222222")
		require.Equal(t, test.status, again.Code, key)
		require.Equal(t, test.result, again.Header().Get(wire.HeaderResult), key)
	}
	require.True(t, codes["222222"], "a repeat uses no code up")
}
