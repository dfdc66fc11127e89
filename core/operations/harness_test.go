package operations_test

import (
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/httpidem"
)

// guard mounts a handler behind the guards. Its caller is seller-1.
func guard(idem *core.Module, path string, handler http.HandlerFunc) http.Handler {
	mux := http.NewServeMux()
	caller := httpidem.Bridge(func(*http.Request) (authctx.Principal, error) {
		return authctx.Principal{Issuer: "https://issuer.example", Subject: "seller-1"}, nil
	})
	mux.Handle("POST "+path, caller(httpidem.Idempotent(idem)(handler)))
	return mux
}

// post sends a command with a key.
func post(app http.Handler, path, key, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Idempotency-Key", key)
	w := httptest.NewRecorder()
	app.ServeHTTP(w, r)
	return w
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
