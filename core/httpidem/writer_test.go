package httpidem_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
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

// zip is compression as middleware of net/http.
func zip(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "gzip" {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		zipped := gzip.NewWriter(w)
		defer func() { _ = zipped.Close() }()
		next.ServeHTTP(zipWriter{w, zipped}, r)
	})
}

type zipWriter struct {
	http.ResponseWriter
	zipped *gzip.Writer
}

func (w zipWriter) Write(p []byte) (int, error) { return w.zipped.Write(p) }

// Outside, compression is each answer's own; inside, it is part of what is recorded.
//
// CONTRACT
func TestCompression(t *testing.T) {
	long := strings.Repeat("x", 1000)
	answer := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, long) }
	declined := func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusPaymentRequired)
		_, _ = io.WriteString(w, "declined")
	}
	guard, money := httpidem.JWTGuard(adaptertest.NewVerifier(t)), httpidem.Idempotent(adaptertest.NewModule(t, core.Config{}))
	router := httpidem.NewRouter()
	outside, inside := router.Group("", zip, guard, money), router.Group("", guard, money, zip)
	outside.HandleFunc("POST /outside", answer)
	outside.HandleFunc("POST /outside/failing", declined)
	inside.HandleFunc("POST /inside", answer)
	inside.HandleFunc("POST /inside/failing", declined)
	adaptertest.Compression(t, router, long, "declined")
}
