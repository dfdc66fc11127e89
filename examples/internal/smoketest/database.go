package smoketest

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/internal/apptest"
	"github.com/auth19/idem/internal/pgtest"
)

// databaseGone takes the database away in the middle of a payment and of a payout, and gives it back.
//
// CONTRACT F-1, F-2
func databaseGone(t *testing.T, program string) {
	cluster := pgtest.Own(t)
	a := &app{t: t, program: program, dir: t.TempDir(), env: []string{
		"DATABASE_URL=" + cluster.URL(), "LEASE=1s", "DEADLINE=4s",
	}}
	a.start()
	before := a.post(customer, "/v1/payments", "before", payment("1.00", "pm_ok"))
	require.Equal(t, http.StatusCreated, before.Status)
	pay := post(a, customer, "/v1/payments", "during", payment("2.00", "pm_slow"))
	paying := a.inFlight(pay)
	payOut := post(a, seller, "/v1/payouts", "during", payout("3.00", "pm_slow"))
	payingOut := a.inFlight(payOut)
	ledger := apptest.Request{Method: "GET", Path: "/v1/ledger", Token: a.Tokens[operator]}
	a.Until(t, &ledger, func(r apptest.Response) bool { return strings.Contains(r.Body, `"provider"`) })
	cluster.Stop(pgtest.Immediate)

	a.checkProblem(a.Do(t, pay), http.StatusServiceUnavailable, "store_unavailable")
	a.checkProblem(a.get(customer, "/v1/payments"), http.StatusServiceUnavailable, "database_unavailable")
	cut := <-paying
	require.NoError(t, cut.err)
	require.Contains(t, []int{http.StatusInternalServerError, http.StatusServiceUnavailable}, cut.Status, cut.Body)
	cutOut := <-payingOut
	require.NoError(t, cutOut.err)
	require.Equal(t, "unknown", cutOut.Header.Get("Idempotency-Result"), cutOut.Body)

	cluster.Start()
	known := func(r apptest.Response) bool { return r.Code() != "in_flight" && r.Code() != "store_unavailable" }
	paid := a.Until(t, &pay, known)
	require.Equal(t, http.StatusCreated, paid.Status, paid.Body)
	a.checkProblem(a.Until(t, &payOut, known), http.StatusConflict, "outcome_unknown")
	a.checkReplay(before, a.post(customer, "/v1/payments", "before", payment("1.00", "pm_ok")))
	require.Len(t, a.ledger("payment"), 2)
	require.Len(t, a.ledger("provider"), 1)
	require.Empty(t, a.ledger("payout"))
	a.checkLog()
}
