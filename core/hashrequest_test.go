package core_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/internal/command"
	"github.com/auth19/idem/core/store"
)

// A caller computes what its server will.
//
// CONTRACT H-1, H-4
func TestHashRequestIsTheServersHash(t *testing.T) {
	const body = `{"amount":"12.50","currency":"EUR"}`
	request := func() *http.Request {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://bank.example/v1/pay%20ments?b=2&a=1",
			strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/json; charset=utf-8")
		return r
	}
	r := request()
	hash, err := command.Of(r, nil, []byte(body)).Hash(command.Version)
	require.NoError(t, err)
	left, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	require.Len(t, left, len(body), "it does not read the body")

	var served store.CommandHash
	app := newApp(t, core.Config{Policy: core.Policy{Recovery: core.Park}}, func(_ http.ResponseWriter, r *http.Request) {
		served, _ = core.CommandHashOf(r.Context())
	})
	r = request()
	r.Header.Set("Idempotency-Key", "k")
	app.pattern = "/v1/:payments"
	app.serve(httptest.NewRecorder(), r, alice)
	require.Equal(t, served, hash)

	same, err := command.Of(request(), nil, []byte(body)).Hash(served.Version)
	require.NoError(t, err)
	require.Equal(t, served, same)
	_, err = command.Of(request(), nil, []byte(body)).Hash(99)
	require.Error(t, err)
}
