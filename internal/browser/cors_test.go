package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/internal/apptest"
)

// exposed are the headers that a page of another origin has to read (docs/mounting.md).
const exposed = `['Idempotency-Key', 'Idempotency-Problem', 'Idempotency-Result', 'Idempotent-Replayed', 'Retry-After', 'Location']`

// answer is what the script of a page gets: the status, the headers of [exposed], or the message of fetch's exception.
type answer struct {
	Status  int
	Headers map[string]*string
	Failed  string
}

// strangePage opens a page of another origin than the apps', and returns that origin.
func strangePage(t *testing.T) (b *tab, origin string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(`<!doctype html><html lang="en"><link rel="icon" href="data:,"><title>a shop elsewhere</title>`))
	}))
	t.Cleanup(server.Close)
	b = newTab(t)
	b.open(server.URL)
	return b, server.URL
}

// post is the expression of a fetch as the script of a shop would write it, with an answer as its value.
func post(url, token, key, body string) string {
	return fmt.Sprintf(`fetch(%q, {method: 'POST', body: %q, headers: {
		'Content-Type': 'application/json', 'Authorization': 'Bearer %s', 'Idempotency-Key': %q,
	}}).then((res) => ({Status: res.status, Headers: Object.fromEntries(%s.map((name) => [name, res.headers.get(name)]))}),
		(err) => ({Failed: String(err)}))`, url, body, token, key, exposed)
}

const payment = `{"order_id":"o-1","amount":"12.50","currency":"EUR","method":"pm_ok"}`

// A page of another origin pays with a key, and reads every header that it needs: of a first answer, a replay, a refusal
// that may be repeated, and one that may not.
//
// CONTRACT M-3
func TestCORS(t *testing.T) {
	t.Parallel()
	onEachApp(t, func(t *testing.T, framework string) {
		b, origin := strangePage(t)
		p := startApp(t, framework, "CORS_ORIGIN="+origin, "UNSAFE_SIMULATOR=1")
		payments, customer := p.URL+"/v1/payments", p.Tokens["customer-1"]

		first := eval[answer](b, post(payments, customer, "order-7", payment))
		require.Equal(t, http.StatusCreated, first.Status, first.Failed)
		require.Equal(t, "order-7", *first.Headers["Idempotency-Key"])
		require.Equal(t, "created", *first.Headers["Idempotency-Result"])
		require.Nil(t, first.Headers["Idempotent-Replayed"])
		require.Contains(t, *first.Headers["Location"], "/v1/payments/")

		again := eval[answer](b, post(payments, customer, "order-7", payment))
		require.Equal(t, http.StatusCreated, again.Status, again.Failed)
		require.Equal(t, "reused", *again.Headers["Idempotency-Result"])
		require.Equal(t, "true", *again.Headers["Idempotent-Replayed"])
		require.Equal(t, first.Headers["Location"], again.Headers["Location"])

		other := eval[answer](b, post(payments, customer, "order-7", strings.ReplaceAll(payment, "12.50", "99.00")))
		require.Equal(t, http.StatusConflict, other.Status, other.Failed)
		require.Nil(t, other.Headers["Retry-After"], "409 without it: never repeat")

		// One of the two hangs, the other one is refused meanwhile: it does not matter which.
		hanging := post(p.URL+"/v1/payouts", p.Tokens["seller-1"], "payout-7", `{"amount":"1.00","currency":"EUR","method":"pm_hang"}`)
		inFlight := eval[answer](b, "Promise.race(["+hanging+","+hanging+"])")
		require.Equal(t, http.StatusConflict, inFlight.Status, inFlight.Failed)
		require.NotNil(t, inFlight.Headers["Retry-After"], "409 with it: repeat with the same key")

		unauthorized := eval[answer](b, post(payments, "no-token", "order-8", payment))
		require.Equal(t, http.StatusUnauthorized, unauthorized.Status, "and not a network error: %s", unauthorized.Failed)
	})
}

// Without the setting, and for another origin than that of the setting, the browser does not even send the payment.
func TestCORSRefused(t *testing.T) {
	t.Parallel()
	onEachApp(t, func(t *testing.T, framework string) {
		b, _ := strangePage(t)
		for _, setting := range []string{"", "https://shop.example"} {
			p := startApp(t, framework, "CORS_ORIGIN="+setting)
			payments, customer := p.URL+"/v1/payments", p.Tokens["customer-1"]
			refused := eval[answer](b, post(payments, customer, "order-7", payment))
			require.Contains(t, refused.Failed, "Failed to fetch")
			require.Contains(t, strings.Join(b.complained(), "\n"), "blocked by CORS policy")
			ledger := p.Do(t, apptest.Request{Method: http.MethodGet, Path: "/v1/ledger", Token: p.Tokens["operator-1"]})
			require.JSONEq(t, "[]", ledger.Body, "nothing was paid")
		}
	})
}
