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

// Trailers reach the first client, and are not recorded.
//
// CONTRACT R-3
func TestTrailers(t *testing.T) {
	router := httpidem.NewRouter()
	guarded(t, router, core.Config{}).HandleFunc("POST /pay", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		_, _ = io.WriteString(w, "paid")
		w.Header().Set("X-Sum", "7")
		w.Header().Set(http.TrailerPrefix+"X-Late", "8")
	})
	client := adaptertest.Serve(t, router)
	for _, want := range []http.Header{{"X-Sum": {"7"}, "X-Late": {"8"}}, nil} {
		res, err := client.HTTP.Do(client.Request(adaptertest.Call{Key: "key-1"}))
		require.NoError(t, err)
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, "paid", string(body))
		require.Equal(t, want, res.Trailer)
		require.NotContains(t, res.Header, "Trailer")
	}
}
