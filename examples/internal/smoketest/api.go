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

// api runs what leaves the process alive, and is not of the contract: package contract has that.
func api(outer *app) {
	for _, test := range []struct {
		name string
		run  func(a *app)
	}{
		{"published policy", publishedPolicy}, {"bad input", badInput}, {"printed lines", printedLines},
	} {
		outer.t.Run(test.name, func(t *testing.T) {
			a := *outer
			a.t = t
			test.run(&a)
		})
	}
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
		refunded := a.post(customer, "/v1/payments/"+id+"/refunds", fmt.Sprint("bad-refund-", i), refund("1"))
		require.Equal(a.t, http.StatusNotFound, refunded.Status, id)
	}
}
