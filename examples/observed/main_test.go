package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/auth19/idem/examples/internal/shop"
	"github.com/auth19/idem/internal/apptest"
	"github.com/auth19/idem/internal/pgtest"
	"github.com/auth19/idem/internal/testhost"
)

func TestMain(m *testing.M) {
	testhost.RunFour()
	goleak.VerifyTestMain(m)
}

// TestApp drives the app as a process, and compares what it counts, and what rules and dashboard ask for, with its metrics.
func TestApp(t *testing.T) {
	program := apptest.Build(t, ".")
	t.Run("sqlite", func(t *testing.T) { observe(t, program, "") })
	t.Run("postgres", func(t *testing.T) { observe(t, program, pgtest.URL(t)) })
}

func observe(t *testing.T, program, database string) {
	p := apptest.Start(t, program, t.TempDir(), "DATABASE_URL="+database, "METRICS_ADDR=127.0.0.1:0", "LEASE=5s", "DEADLINE=5s")
	require.Equal(t, "0", openPayouts(t, p))

	pay := request(p, "customer-1", "/v1/payments", "a-key-of-a-payment", payment("12.50", shop.MethodOK))
	paid := do(t, p, pay, http.StatusCreated).Body
	require.Equal(t, paid, do(t, p, pay, http.StatusCreated).Body)
	pay.Body = payment("99.00", shop.MethodOK)
	do(t, p, pay, http.StatusConflict)
	payout := commands(t, p, "README.md", "See an alert", "")[0]
	do(t, p, payout, http.StatusInternalServerError)
	do(t, p, request(p, "", "/v1/payouts", "no-token", payment("5.00", shop.MethodOK)), http.StatusUnauthorized)

	m := scrape(t, p)
	for series, want := range map[string]string{
		`idem_requests_total{http_request_method="POST",http_route="/v1/payments",idem_recovery="rollback",idem_result="created"}`:    "1",
		`idem_requests_total{http_request_method="POST",http_route="/v1/payments",idem_recovery="rollback",idem_result="reused"}`:     "1",
		`idem_requests_total{http_request_method="POST",http_route="/v1/payments",idem_recovery="rollback",idem_result="key_reused"}`: "1",
		`idem_requests_total{http_request_method="POST",http_route="/v1/payouts",idem_recovery="park",idem_result="unknown"}`:         "1",
		`idem_warnings_total{idem_kind="unknown"}`:    "1",
		`idem_warnings_total{idem_kind="lease_lost"}`: "0",
	} {
		require.Equal(t, want, m.value(series), "%s\n%s", series, m.text)
	}
	require.Equal(t, "1", openPayouts(t, p))
	for _, secret := range []string{"a-key-of", "payout-1", "no-token", "eyJ", "12.50", "customer-1"} {
		require.NotContains(t, m.text, secret)
	}
	require.Equal(t, http.StatusNotFound, do(t, p, apptest.Request{Method: "GET", Path: "/metrics"}, 404).Status)
	probe := apptest.Request{Method: http.MethodGet, Path: "/readyz"}
	p.Until(t, &probe, func(r apptest.Response) bool { return r.Status == http.StatusOK })

	compareQueries(t, m)
	followRunbook(t, p, payout)
	require.Zero(t, p.Stop(t))
	require.Contains(t, p.Log(), "idem: unknown", "the log is told, too")
}

func request(p *apptest.Process, who, path, key, body string) apptest.Request {
	return apptest.Request{Method: "POST", Path: path, Token: p.Tokens[who], Key: key, Body: body}
}

func payment(amount, method string) string {
	return `{"order_id": "o-1", "amount": "` + amount + `", "currency": "EUR", "method": "` + method + `"}`
}

func do(t *testing.T, p *apptest.Process, r apptest.Request, status int) apptest.Response {
	t.Helper()
	response := p.Do(t, r)
	require.Equal(t, status, response.Status, response.Body)
	return response
}

// openPayouts is how many payouts are unknown.
func openPayouts(t *testing.T, p *apptest.Process) string {
	t.Helper()
	return scrape(t, p).value(`idem_operations_open{http_route="/v1/payouts",idem_state="unknown"}`)
}

func content(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(name))
	require.NoError(t, err)
	return string(text)
}

// metricsURL is what the app has printed.
func metricsURL(t *testing.T, p *apptest.Process) string {
	t.Helper()
	_, rest, found := strings.Cut(p.Output(), "metrics: ")
	require.True(t, found)
	url, _, _ := strings.Cut(rest, "\n")
	return url
}
