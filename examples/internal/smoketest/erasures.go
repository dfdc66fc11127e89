package smoketest

import (
	"fmt"
	"net/http"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/examples/internal/shop"
)

// erased is what an erasure answers.
type erased struct {
	Records int       `json:"records"`
	Open    []string  `json:"open"`
	AgainAt time.Time `json:"again_at"`
}

// erasures erases a customer with more records than a batch has, and a seller with a payout that nobody knows of.
//
// CONTRACT M-1, M-5, X-4
func erasures(a *app) {
	const records = 130 // the first batch looks at 100
	credit := func(n int) (key, body string) { return fmt.Sprint("credit-", n), `{"amount":"1.00"}` }
	for n := range records {
		key, body := credit(n)
		require.Equal(a.t, http.StatusCreated, a.post(customer, "/v1/balance/credit", key, body).Status)
	}
	theirs := a.post(stranger, "/v1/balance/credit", "credit-0", `{"amount":"1.00"}`)
	require.Equal(a.t, http.StatusCreated, theirs.Status)
	lost := a.post(seller, "/v1/payouts", "payout", payout("50.00", "pm_error"))
	require.Equal(a.t, http.StatusInternalServerError, lost.Status)

	order := func(who string) string {
		return `{"principal":{"issuer":"https://issuer.example","subject":"` + who + `"},"reason":"request 7"}`
	}
	for _, who := range []string{customer, seller} {
		a.checkProblem(a.post(who, "/v1/erasures", "erase", order(customer)), http.StatusForbidden, "forbidden")
	}
	a.checkProblem(a.post(operator, "/v1/erasures", "no-reason", `{"principal":{"issuer":"i","subject":"s"}}`),
		http.StatusBadRequest, "bad_request")

	sent := time.Now()
	first := a.post(operator, "/v1/erasures", "erase", order(customer))
	require.Equal(a.t, http.StatusOK, first.Status, first.Body)
	var done erased
	first.Decode(a.t, &done)
	require.Equal(a.t, records, done.Records)
	require.Empty(a.t, done.Open)
	require.True(a.t, done.AgainAt.After(sent.Add(4*time.Second)), "a Rollback attempt has 4 s: %v", done.AgainAt)
	a.checkReplay(first, a.post(operator, "/v1/erasures", "erase", order(customer)))

	for _, n := range []int{0, records - 1} { // no key became free
		key, body := credit(n)
		a.checkProblem(a.post(customer, "/v1/balance/credit", key, body), http.StatusConflict, "key_expired")
	}
	require.Len(a.t, a.ledger("credit"), records+1)
	a.checkReplay(theirs, a.post(stranger, "/v1/balance/credit", "credit-0", `{"amount":"1.00"}`))

	a.post(operator, "/v1/erasures", "erase-again", order(customer)).Decode(a.t, &done)
	require.Zero(a.t, done.Records)

	a.post(operator, "/v1/erasures", "erase-the-seller", order(seller)).Decode(a.t, &done)
	require.Equal(a.t, []string{a.providerCharge().Operation}, done.Open)
	a.checkProblem(a.post(seller, "/v1/payouts", "payout", payout("50.00", "pm_error")), http.StatusConflict, "outcome_unknown")
	require.Contains(a.t, a.Log(), `why="request 7"`)
}

// providerCharge is the one entry of the provider's ledger.
func (a *app) providerCharge() shop.Line {
	a.t.Helper()
	charged := a.ledger("provider")
	require.Len(a.t, charged, 1)
	return charged[0]
}
