package demo

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// answered is an answer, read whole.
type answered struct {
	status         int
	location, body string
	closes         bool // the connection
}

// ask sends a request with a fault to a handler that answers with a status. ran is how often the handler ran.
func ask(t *testing.T, fault string, status int) (got answered, ran int, err error) {
	t.Helper()
	server := httptest.NewServer((&Demo{}).Faults("nowhere", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		ran++
		w.Header().Add("Location", "/v1/payments/1")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "the answer")
	})))
	defer server.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, nil)
	require.NoError(t, err)
	if fault != "" {
		r.Header.Set(Header, fault)
	}
	res, err := server.Client().Do(r)
	if err != nil {
		return answered{}, ran, err
	}
	body, err := io.ReadAll(res.Body)
	require.NoError(t, errors.Join(err, res.Body.Close()))
	return answered{res.StatusCode, res.Header.Get("Location"), string(body), res.Close}, ran, nil
}

// The handler has run, and the client has no answer.
func TestLost(t *testing.T) {
	_, ran, err := ask(t, faultLost, http.StatusCreated)
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, 1, ran)
}

// Only the answer to a booked payment is struck. Everything else passes whole. The page's requests, which name a fault or
// "none", have a connection each.
func TestNoFault(t *testing.T) {
	for _, test := range []struct {
		fault  string
		status int
	}{
		{"", http.StatusCreated}, {"none", http.StatusCreated}, {"another", http.StatusCreated},
		{faultLost, http.StatusConflict}, {faultDies, http.StatusPaymentRequired}, {faultSlow, http.StatusServiceUnavailable},
	} {
		got, ran, err := ask(t, test.fault, test.status)
		require.NoError(t, err)
		require.Equal(t, answered{test.status, "/v1/payments/1", "the answer", test.fault != ""}, got)
		require.Equal(t, 1, ran)
	}
	require.Empty(t, os.Getenv(Reborn), "this process has not been replaced")
}
