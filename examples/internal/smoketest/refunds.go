package smoketest

import (
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/examples/internal/shop"
	"github.com/auth19/idem/internal/apptest"
)

func refund(amount, method string) string {
	if method == "" {
		return `{"amount":"` + amount + `"}`
	}
	return `{"amount":"` + amount + `","method":"` + method + `"}`
}

// pay makes a payment of 10.00 of the customer, and returns the path of its refunds.
func (a *app) pay(key string) (refunds string) {
	a.t.Helper()
	paid := a.post(customer, "/v1/payments", key, payment("10.00", "pm_ok"))
	require.Equal(a.t, http.StatusCreated, paid.Status, paid.Body)
	return paid.Header.Get("Location") + "/refunds"
}

// checkRefunded asserts that refunds of the given amounts, and no others, were booked and made by the provider: one
// entry each for each operation.
func (a *app) checkRefunded(amounts ...string) {
	a.t.Helper()
	booked, charged := map[string]string{}, map[string]string{}
	var list []string
	for _, line := range a.ledger("refund") {
		require.NotContains(a.t, booked, line.Operation)
		booked[line.Operation] = line.Amount
		list = append(list, line.Amount)
	}
	for _, line := range a.ledger("provider") {
		require.NotContains(a.t, charged, line.Operation)
		charged[line.Operation] = line.Amount
	}
	require.ElementsMatch(a.t, amounts, list)
	require.Equal(a.t, booked, charged)
}

// refunds leaves nothing of a payment of 10.00.
//
// CONTRACT
func refunds(a *app) {
	path := a.pay("refundable")
	first := a.post(customer, path, "r1", refund("1.5", ""))
	require.Equal(a.t, http.StatusCreated, first.Status, first.Body)
	a.checkReplay(first, a.post(customer, path, "r1", refund("1.5", "")))
	a.checkProblem(a.post(customer, path, "r1", refund("1.50", "")), http.StatusConflict, "key_reused")
	var made shop.Refund
	first.Decode(a.t, &made)
	require.Equal(a.t, []string{"/v1/payments/" + made.PaymentID + "/refunds", "1.5", "EUR", "refunded"},
		[]string{path, made.Amount, made.Currency, made.Status})

	a.checkProblem(a.post(stranger, path, "r1", refund("1.00", "")), http.StatusNotFound, "not_found")
	a.checkProblem(a.post(operator, path, "r1", refund("1.00", "")), http.StatusForbidden, "forbidden")
	a.checkProblem(a.post(customer, path, "bad", refund("0", "")), http.StatusUnprocessableEntity, "invalid")
	a.checkProblem(a.post(customer, path, "bad-method", refund("1", "pm_x")), http.StatusUnprocessableEntity, "invalid")
	bySeller := a.post(seller, path, "r1", refund("0.50", "pm_ok"))
	require.Equal(a.t, http.StatusCreated, bySeller.Status, bySeller.Body)

	declined := a.post(customer, path, "declined", refund("8.00", "pm_declined"))
	a.checkProblem(declined, http.StatusPaymentRequired, "declined")
	a.checkReplay(declined, a.post(customer, path, "declined", refund("8.00", "pm_declined")))
	for range 2 { // the key is free again each time
		a.checkProblem(a.post(customer, path, "unavailable", refund("8.00", "pm_unavailable")),
			http.StatusServiceUnavailable, "unavailable")
	}
	for method, refused := range map[string]struct {
		status int
		code   string
	}{
		"pm_error": {http.StatusInternalServerError, "simulated"},
		"pm_panic": {http.StatusInternalServerError, "internal"},
		"pm_lost":  {http.StatusBadGateway, "no_answer"},
	} {
		a.checkProblem(a.post(customer, path, method, refund("1.00", method)), refused.status, refused.code)
		went := a.post(customer, path, method, refund("1.00", method)) // goes on
		require.Equal(a.t, http.StatusCreated, went.Status, went.Body)
		a.checkReplay(went, a.post(customer, path, method, refund("1.00", method)))
	}
	a.checkRefunded("1.5", "0.50", "1.00", "1.00", "1.00")

	tooHigh := a.post(customer, path, "too-high", refund("5.01", ""))
	a.checkProblem(tooHigh, http.StatusConflict, "refund_exceeds_payment")
	a.checkReplay(tooHigh, a.post(customer, path, "too-high", refund("5.01", "")))
	var succeeded atomic.Int64
	var group sync.WaitGroup
	for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
		again := post(a, customer, path, "at-once-"+key, refund("2.50", ""))
		group.Go(func() {
			if answer, _ := a.Try(a.t.Context(), again); answer.Status == http.StatusCreated {
				succeeded.Add(1)
			}
		})
	}
	group.Wait()
	require.LessOrEqual(a.t, succeeded.Load(), int64(2)) // of those that found the database free
	for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
		again := post(a, customer, path, "at-once-"+key, refund("2.50", ""))
		a.Until(a.t, &again, func(r apptest.Response) bool {
			return r.Status == http.StatusCreated || r.Code() == "refund_exceeds_payment"
		})
	}
	a.checkRefunded("1.5", "0.50", "1.00", "1.00", "1.00", "2.50", "2.50")
}

// crashedRefund lets the app end itself after the provider was charged and before the refund was booked. As soon as
// the lease of the crashed attempt has run out, a repeat goes on.
//
// CONTRACT X-3
func crashedRefund(a *app) {
	path := a.pay("pay")
	crash := post(a, customer, path, "refund", refund("4.00", "pm_crash"))
	_, err := a.Try(a.t.Context(), crash)
	require.Error(a.t, err)
	require.Equal(a.t, 137, a.Wait(a.t))

	a.start()
	require.Len(a.t, a.ledger("provider"), 1)
	require.Empty(a.t, a.ledger("refund"))
	went := a.Until(a.t, &crash, func(r apptest.Response) bool { return r.Code() != "in_flight" })
	require.Equal(a.t, http.StatusCreated, went.Status, went.Body)
	a.checkReplay(went, a.Do(a.t, crash))
	a.checkRefunded("4.00")
}

// hangingRefund does not return by itself: its deadline ends it, and the next repeat goes on at once.
//
// CONTRACT X-1
func hangingRefund(a *app) {
	path := a.pay("pay")
	hanging := post(a, customer, path, "refund", refund("4.00", "pm_hang"))
	a.checkProblem(a.Do(a.t, hanging), http.StatusServiceUnavailable, "interrupted")
	went := a.Do(a.t, hanging)
	require.Equal(a.t, http.StatusCreated, went.Status, went.Body)
	a.checkReplay(went, a.Do(a.t, hanging))
	a.checkRefunded("4.00")
}
