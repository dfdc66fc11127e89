package smoketest

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/examples/internal/shop"
	"github.com/auth19/idem/internal/apptest"
)

// api runs what leaves the process alive.
func api(outer *app) {
	for _, test := range []struct {
		name string
		run  func(a *app)
	}{
		{"guards", guards}, {"published policy", publishedPolicy}, {"payments", payments}, {"test methods", testMethods},
		{"orders", orders},
		{"balance", balance}, {"the rest", rest}, {"bad input", badInput},
		{"printed lines", printedLines},
	} {
		outer.t.Run(test.name, func(t *testing.T) {
			a := *outer
			a.t = t
			test.run(&a)
		})
	}
}

func guards(a *app) {
	require.Equal(a.t, http.StatusOK, a.get("", "/healthz").Status)
	a.checkProblem(a.get("", "/nowhere"), http.StatusNotFound, "not_found")
	a.checkProblem(a.Do(a.t, apptest.Request{Method: "DELETE", Path: "/healthz"}), http.StatusMethodNotAllowed,
		"method_not_allowed")
	a.checkProblem(a.get("", "/v1/payments"), http.StatusUnauthorized, "unauthenticated")
	a.checkProblem(a.get(seller, "/v1/payments"), http.StatusForbidden, "forbidden")
	a.checkProblem(a.get(customer, "/v1/ledger"), http.StatusForbidden, "forbidden")
	a.checkProblem(a.get(customer, "/v1/operations"), http.StatusForbidden, "forbidden")
	a.checkProblem(a.post(seller, "/v1/payments", "g", payment("1", "pm_ok")), http.StatusForbidden, "forbidden")
	a.checkProblem(a.Do(a.t, apptest.Request{Method: "POST", Path: "/v1/payments", Token: a.Tokens[customer],
		Body: payment("1", "pm_ok")}), http.StatusBadRequest, "key_missing")
}

// publishedPolicy reads the policy as a program and as a browser, from the address that a problem names.
//
// CONTRACT P-1
func publishedPolicy(a *app) {
	refused := a.post(customer, "/v1/payments", "a b", payment("1", "pm_ok"))
	a.checkProblem(refused, http.StatusBadRequest, "key_invalid")
	require.Equal(a.t, `</idempotency>; rel="describedby"`, refused.Header.Get("Link"))
	policy := a.get("", "/idempotency")
	require.Equal(a.t, http.StatusOK, policy.Status)
	require.Contains(a.t, policy.Body, `{"method":"POST","path":"/v1/payments/{id}/refunds","key_required":true`)
	page := a.Do(a.t, apptest.Request{Path: "/idempotency", Header: http.Header{"Accept": {"text/html"}}})
	require.Equal(a.t, "text/html; charset=utf-8", page.Header.Get("Content-Type"))
	require.Contains(a.t, page.Body, "<code>POST /v1/payments/{id}/refunds</code>")
	for _, role := range []string{shop.RoleSeller, shop.RoleOperator} {
		require.NotContains(a.t, policy.Body+page.Body, role)
	}
}

// printedLines does what the app tells a newcomer to try.
//
// CONTRACT M-1, M-3, M-7
func printedLines(a *app) {
	printed := regexp.MustCompile(`(?s)\nKEY=(\S+)\n.*(/v1/operations/\S+)`).FindStringSubmatch(a.Output())
	require.Len(a.t, printed, 3, a.Output())
	pay := apptest.Request{
		Method: "POST", Path: "/v1/payments", Token: a.Tokens[customer], Key: printed[1], Body: payment("12.50", "pm_ok"),
	}
	a.checkProblem(a.get(customer, printed[2]), http.StatusNotFound, "operation_not_found")
	first := a.Do(a.t, pay)
	require.Equal(a.t, http.StatusCreated, first.Status, first.Body)
	a.checkReplay(first, a.Do(a.t, pay))
	pay.Body = payment("99.00", "pm_ok")
	a.checkProblem(a.Do(a.t, pay), http.StatusConflict, "key_reused")
	operation := a.get(customer, printed[2])
	require.Equal(a.t, http.StatusOK, operation.Status, operation.Body)
	require.Contains(a.t, operation.Body, `"state":"completed"`)
}

func payments(a *app) {
	first := a.post(customer, "/v1/payments", "pay", payment("10.5", "pm_ok"))
	require.Equal(a.t, http.StatusCreated, first.Status, first.Body)
	a.checkReplay(first, a.post(customer, "/v1/payments", "pay", payment("10.5", "pm_ok")))
	a.checkProblem(a.post(customer, "/v1/payments", "pay", payment("10.50", "pm_ok")), http.StatusConflict, "key_reused")

	var paid shop.Payment
	first.Decode(a.t, &paid)
	require.Equal(a.t, "/v1/payments/"+paid.ID, first.Header.Get("Location"))
	require.Equal(a.t, []string{"captured", "10.5", "EUR", "pm_ok", secret + "order"},
		[]string{paid.Status, paid.Amount, paid.Currency, paid.Method, paid.OrderID})
	booked := a.ledger("payment")
	require.Len(a.t, booked, 1)
	require.Equal(a.t, "10.5", booked[0].Amount)
	require.Equal(a.t, customer, booked[0].Principal)

	operation := a.get(customer, "/v1/operations/"+booked[0].Operation)
	require.Equal(a.t, http.StatusOK, operation.Status, operation.Body)
	require.Equal(a.t, http.StatusOK, a.get(operator, "/v1/operations/"+booked[0].Operation).Status)
	require.Equal(a.t, http.StatusNotFound, a.get(stranger, "/v1/operations/"+booked[0].Operation).Status)

	byKey := a.Do(a.t, apptest.Request{Method: "GET", Path: "/v1/operation", Token: a.Tokens[customer], Key: secret + "pay"})
	require.JSONEq(a.t, operation.Body, byKey.Body)

	require.JSONEq(a.t, first.Body, a.get(customer, "/v1/payments/"+paid.ID).Body)
	require.JSONEq(a.t, "["+first.Body+"]", a.get(customer, "/v1/payments").Body)
	a.checkProblem(a.get(stranger, "/v1/payments/"+paid.ID), http.StatusNotFound, "not_found")
	require.JSONEq(a.t, "[]", a.get(stranger, "/v1/payments").Body)

	// Another principal's key is another key.
	other := a.post(stranger, "/v1/payments", "pay", payment("10.5", "pm_ok"))
	require.Equal(a.t, "created", other.Header.Get("Idempotency-Result"))
	require.NotEqual(a.t, first.Body, other.Body)
	require.Len(a.t, a.ledger("payment"), 2)
}

func testMethods(a *app) {
	before := len(a.ledger("payment"))
	declined := a.post(customer, "/v1/payments", "declined", payment("1", "pm_declined"))
	a.checkProblem(declined, http.StatusPaymentRequired, "declined")
	a.checkReplay(declined, a.post(customer, "/v1/payments", "declined", payment("1", "pm_declined")))

	for range 2 { // the key is free again each time
		a.checkProblem(a.post(customer, "/v1/payments", "unavailable", payment("1", "pm_unavailable")),
			http.StatusServiceUnavailable, "unavailable")
		a.checkProblem(a.post(customer, "/v1/payments", "error", payment("1", "pm_error")),
			http.StatusInternalServerError, "simulated")
		a.checkProblem(a.post(customer, "/v1/payments", "panic", payment("1", "pm_panic")),
			http.StatusInternalServerError, "internal")
	}
	require.Len(a.t, a.ledger("payment"), before)
	for _, key := range []string{"unavailable", "error", "panic"} {
		paid := a.post(customer, "/v1/payments", key, payment("2", "pm_ok"))
		require.Equal(a.t, http.StatusCreated, paid.Status, paid.Body)
	}
	require.Len(a.t, a.ledger("payment"), before+3)
}

func orders(a *app) {
	body := `{"customer_id":"me","items":[{"sku":"pen","qty":2,"price":"1.50"}],"gift":true}`
	first := a.post(customer, "/v1/orders", "order", body)
	require.Equal(a.t, http.StatusCreated, first.Status, first.Body)
	a.checkReplay(first, a.post(customer, "/v1/orders", "order", body))
	location := first.Header.Get("Location")
	require.JSONEq(a.t, first.Body, a.get(customer, location).Body)
	a.checkProblem(a.get(stranger, location), http.StatusNotFound, "not_found")

	a.checkProblem(a.post(stranger, location+"/cancel", "cancel", ""), http.StatusNotFound, "not_found")
	cancelled := a.post(customer, location+"/cancel", "cancel", "")
	require.Equal(a.t, http.StatusOK, cancelled.Status, cancelled.Body)
	require.Contains(a.t, cancelled.Body, `"status":"cancelled"`)
	a.checkReplay(cancelled, a.post(customer, location+"/cancel", "cancel", ""))
	a.checkProblem(a.post(customer, location+"/cancel", "cancel-again", ""), http.StatusConflict, "already_cancelled")

	none := `{"customer_id":"me","items":[{"sku":"sold-out","qty":1,"price":"1.50"}]}`
	refused := a.post(customer, "/v1/orders", "sold-out", none)
	a.checkProblem(refused, http.StatusConflict, "out_of_stock")
	a.checkReplay(refused, a.post(customer, "/v1/orders", "sold-out", none))

	sold := a.post(seller, "/v1/orders", "sold", strings.Replace(body, `"me"`, `"`+customer+`"`, 1))
	require.Equal(a.t, http.StatusOK, a.get(customer, sold.Header.Get("Location")).Status)
}

func balance(a *app) {
	require.JSONEq(a.t, `{"balance":"0.00"}`, a.get(customer, "/v1/balance").Body)
	credited := a.post(customer, "/v1/balance/credit", "credit", `{"amount":"12.3"}`)
	require.Equal(a.t, http.StatusCreated, credited.Status, credited.Body)
	a.checkReplay(credited, a.post(customer, "/v1/balance/credit", "credit", `{"amount":"12.3"}`))
	charged := a.post(customer, "/v1/balance/charge", "charge", `{"amount":"12.00"}`)
	require.JSONEq(a.t, `{"balance":"0.30"}`, charged.Body)
	refused := a.post(customer, "/v1/balance/charge", "too-much", `{"amount":"0.31"}`)
	a.checkProblem(refused, http.StatusConflict, "insufficient_funds")
	a.checkReplay(refused, a.post(customer, "/v1/balance/charge", "too-much", `{"amount":"0.31"}`))
	require.JSONEq(a.t, `{"balance":"0.30"}`, a.get(customer, "/v1/balance").Body)
	require.JSONEq(a.t, `{"balance":"0.00"}`, a.get(stranger, "/v1/balance").Body)
	require.Len(a.t, a.ledger("credit"), 1)
	require.Len(a.t, a.ledger("charge"), 1)
}

func rest(a *app) {
	rename := apptest.Request{Method: "PATCH", Path: "/v1/profile", Token: a.Tokens[customer], Body: `{"name":"Anna"}`}
	renamed := a.Do(a.t, rename)
	require.Equal(a.t, http.StatusOK, renamed.Status)
	require.JSONEq(a.t, `{"name":"Anna"}`, renamed.Body)

	paid := a.post(seller, "/v1/payouts", "payout", payout("7.00", "pm_ok"))
	require.Equal(a.t, http.StatusCreated, paid.Status, paid.Body)
	a.checkReplay(paid, a.post(seller, "/v1/payouts", "payout", payout("7.00", "pm_ok")))
	declined := a.post(seller, "/v1/payouts", "declined", payout("7.00", "pm_declined"))
	a.checkProblem(declined, http.StatusPaymentRequired, "declined")
	a.checkReplay(declined, a.post(seller, "/v1/payouts", "declined", payout("7.00", "pm_declined")))
	for range 2 {
		a.checkProblem(a.post(seller, "/v1/payouts", "unavailable", payout("7.00", "pm_unavailable")),
			http.StatusServiceUnavailable, "unavailable")
	}
	require.Len(a.t, a.ledger("payout"), 1)
	require.Len(a.t, a.ledger("provider"), 1)
	require.Equal(a.t, a.ledger("payout")[0].Operation, a.ledger("provider")[0].Operation)
}

func badInput(a *app) {
	for path, bodies := range map[string][]string{
		"/v1/payments": {
			"", "{", "[]", "null", `"x"`, "{}", payment("1", "pm_ok") + "x", payment("0", "pm_ok"), payment("-1", "pm_ok"),
			payment("1.001", "pm_ok"), payment("1e3", "pm_ok"), payment("99999999999", "pm_ok"), payment("", "pm_ok"),
			payment("1", ""), payment("1", "pm_nothing"), `{"order_id":"o","amount":1,"currency":"EUR","method":"pm_ok"}`,
			`{"order_id":"o","amount":"1","currency":"eur","method":"pm_ok"}`,
			`{"order_id":"\u0000","amount":"1","currency":"EUR","method":"pm_ok"}`,
			`{"order_id":"` + strings.Repeat("x", 256) + `","amount":"1","currency":"EUR","method":"pm_ok"}`,
			strings.Repeat(`{"a":`, 10_000) + "1" + strings.Repeat("}", 10_000),
		},
		"/v1/orders": {
			`{"customer_id":"c","items":[]}`, `{"customer_id":"c","items":[{"sku":"a","qty":0,"price":"1"}]}`,
			`{"customer_id":"c","items":[{"sku":"a","qty":1.5,"price":"1"}]}`,
			`{"customer_id":"c","items":[{"sku":"a","qty":1,"price":"-1"}]}`,
			`{"customer_id":"c","items":[{"sku":"\u0000","qty":1,"price":"1"}]}`, `{"customer_id":"c","items":[null]}`,
		},
		"/v1/balance/charge": {`{"amount":"0"}`, `{"amount":"NaN"}`, `{}`},
		"/v1/balance/credit": {`{"amount":"1,00"}`},
	} {
		for i, body := range bodies {
			answer := a.post(customer, path, fmt.Sprint("bad", path, i), body)
			require.Contains(a.t, []int{http.StatusBadRequest, http.StatusUnprocessableEntity}, answer.Status, "%s %.100s: %s",
				path, body, answer.Body)
			require.Equal(a.t, "application/problem+json", answer.Header.Get("Content-Type"))
		}
	}
	text := post(a, customer, "/v1/payments", "text", payment("1", "pm_ok"))
	text.Header = http.Header{"Content-Type": {"text/plain"}}
	a.checkProblem(a.Do(a.t, text), http.StatusUnsupportedMediaType, "unsupported_media_type")

	for i, id := range []string{"pay_1", "%00", "%ff", "..%2f..", strings.Repeat("x", 5000), "pay_" + strings.Repeat("a", 26)} {
		for _, path := range []string{"/v1/payments/" + id, "/v1/orders/" + id} {
			require.Equal(a.t, http.StatusNotFound, a.get(customer, path).Status, path)
		}
		cancelled := a.post(customer, "/v1/orders/"+id+"/cancel", fmt.Sprint("bad-id-", i), "")
		require.Equal(a.t, http.StatusNotFound, cancelled.Status, id)
		refunded := a.post(customer, "/v1/payments/"+id+"/refunds", fmt.Sprint("bad-refund-", i), refund("1", ""))
		require.Equal(a.t, http.StatusNotFound, refunded.Status, id)
	}
}
