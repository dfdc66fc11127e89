package httpidem_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/httpidem"
	"github.com/auth19/idem/core/wire"
	"github.com/auth19/idem/internal/adaptertest"
)

// proxyTo passes a command on to a service that deduplicates by Idempotency-Key. The client's key does not leave: it is
// unique per caller, and the service sees one caller for all.
func proxyTo(target *url.URL) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		key, err := core.DeriveCall(r.In.Context(), "charge")
		if err != nil {
			panic(http.ErrAbortHandler) // the attempt is over: nothing is sent
		}
		r.Out.Header.Set(wire.HeaderKey, key.UUID())
	}}
}

// net/http sends a POST without a body again if a connection breaks that was kept alive, because it has an Idempotency-Key.
// So the service gets one attempt twice, and with one key.
//
// CONTRACT C-3, X-3
func TestProxyReplacesTheKey(t *testing.T) {
	var keys []string
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, r.Header.Get(wire.HeaderKey))
		if len(keys) == 2 { // on the connection of the first command
			conn, _, err := w.(http.Hijacker).Hijack()
			require.NoError(t, err)
			require.NoError(t, conn.Close())
			return
		}
		w.WriteHeader(http.StatusCreated)
	}))
	defer service.Close()
	target, err := url.Parse(service.URL)
	require.NoError(t, err)

	idem := adaptertest.NewModule(t, core.Config{Policy: core.Policy{Recovery: core.Park}})
	router := httpidem.NewRouter()
	v1 := router.Group("/v1", httpidem.JWTGuard(adaptertest.NewVerifier(t)), httpidem.Idempotent(idem))
	proxy := proxyTo(target)
	proxy.Transport = &http.Transport{}
	defer proxy.Transport.(*http.Transport).CloseIdleConnections()
	v1.Handle("POST /pay", proxy)
	client := adaptertest.Serve(t, router)

	for _, key := range []string{"key-1", "key-2"} {
		require.Equal(t, http.StatusCreated, client.Do(adaptertest.Call{Key: key}).Status)
		require.Equal(t, "reused", client.Do(adaptertest.Call{Key: key}).Result())
	}
	require.Len(t, keys, 3)
	require.Equal(t, keys[1], keys[2], "sent twice, with one key")
	require.NotEqual(t, keys[0], keys[1])
	require.NotContains(t, keys, "key-1")
	require.NotContains(t, keys, "key-2")
}
