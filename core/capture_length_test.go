package core_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
)

// A handler that announces another length than it writes would have its answer broken off by net/http, while the replay
// is whole.
//
// CONTRACT R-1
func TestContentLengthIsCounted(t *testing.T) {
	idem, err := core.New(core.Config{Store: memstore.New(), Policy: core.Policy{Recovery: core.Park}})
	require.NoError(t, err)
	p := core.Principal{Issuer: "https://issuer.example", Subject: "customer-1"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		admitted, reply := idem.Admit(r, "/pay", p)
		if reply == nil {
			var attempt *core.Attempt
			if attempt, reply = idem.Begin(admitted, "/pay", p); attempt != nil {
				c := attempt.Capture(w)
				c.Header().Set("Content-Length", r.Header.Get("X-Length"))
				_, _ = c.WriteString("0123456789")
				reply = attempt.Finish()
			}
		}
		_ = reply.WriteTo(w)
	}))
	defer server.Close()
	for _, length := range []string{"3", "10", "300"} {
		for range 2 {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, http.NoBody)
			require.NoError(t, err)
			req.Header.Set("Idempotency-Key", "key-"+length)
			req.Header.Set("X-Length", length)
			res, err := server.Client().Do(req)
			require.NoError(t, err)
			body, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			require.Equal(t, "0123456789", string(body))
		}
	}
}
