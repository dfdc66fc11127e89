package idemclient_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/idemclient"
)

// CONTRACT C-1, C-2
func TestOneKeyInAllAttempts(t *testing.T) {
	var mu sync.Mutex
	var keys, bodies []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body := make([]byte, 100)
		n, _ := r.Body.Read(body)
		keys, bodies = append(keys, r.Header.Get("Idempotency-Key")), append(bodies, string(body[:n]))
		if len(keys) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusCreated)
	}))
	defer server.Close()
	client, err := idemclient.New(idemclient.Config{FirstPause: time.Millisecond})
	require.NoError(t, err)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader("pay"))
	require.NoError(t, err)
	res, err := client.Do(t.Context(), "order-7", r)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusCreated, res.StatusCode)
	require.Equal(t, idemclient.Result{Attempts: 3}, idemclient.ResultOf(res))
	require.Equal(t, []string{"pay", "pay", "pay"}, bodies)
	require.Len(t, keys[0], 36)
	require.Equal(t, []string{keys[0], keys[0], keys[0]}, keys)
	require.Empty(t, r.Header, "the caller's request is not changed")
}
