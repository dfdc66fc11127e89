package httpidem_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/httpidem"
	"github.com/auth19/idem/internal/adaptertest"
)

// A route is named as its own router spells it, also within another router.
func TestRouterInARouter(t *testing.T) {
	idem := adaptertest.NewModule(t, core.Config{Routes: core.Routes{
		"POST /pay": {Recovery: core.Park}, "POST /refunds/{id}": {Recovery: core.Park},
	}})
	inner := httpidem.NewRouter()
	inner.Use(httpidem.JWTGuard(adaptertest.NewVerifier(t)), httpidem.Idempotent(idem))
	inner.HandleFunc("POST /pay", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Pattern) })
	inner.HandleFunc("POST example.com/refunds/{id}", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Pattern+" "+r.PathValue("id"))
	})
	require.NoError(t, httpidem.Audit(inner, idem))
	outer := http.NewServeMux()
	outer.Handle("/v1/", http.StripPrefix("/v1", inner))
	client := adaptertest.Serve(t, outer)
	require.Equal(t, "POST /pay", client.RequireReplay(adaptertest.Call{}).Body)
	require.Equal(t, "POST example.com/refunds/{id} 7", client.RequireReplay(adaptertest.Call{
		Host: "example.com", Path: "/v1/refunds/7", Key: "key-2"}).Body)
	require.Equal(t, http.StatusNotFound, client.Do(adaptertest.Call{Path: "/v1/refunds/7"}).Status)
}

// A pattern of http.ServeMux may have a tab behind its method.
//
// CONTRACT O-4, K-8
func TestMethodBeforeATab(t *testing.T) {
	jwt, money := httpidem.JWTGuard(adaptertest.NewVerifier(t)), httpidem.Idempotent(adaptertest.NewModule(t, core.Config{}))
	guarded := jwt(money(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a handler ran") })))
	mux := http.NewServeMux()
	mux.HandleFunc("POST\t/v1/pay", func(w http.ResponseWriter, r *http.Request) {
		r = r.Clone(r.Context()) // the server looks at its own after the answer
		r.Method = http.MethodGet
		guarded.ServeHTTP(w, r)
	})
	adaptertest.RequireProblem(t, http.StatusInternalServerError, "misconfigured",
		adaptertest.Serve(t, mux).Do(adaptertest.Call{}))
}
