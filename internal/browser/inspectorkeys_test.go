package browser

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/internal/apptest"
)

// providerKey is the key that the provider of the demo got for an operation. Its ledger has it.
func providerKey(t *testing.T, p *apptest.Process, operation string) string {
	t.Helper()
	var lines []struct{ Kind, Operation, Key string }
	p.Do(t, apptest.Request{Method: http.MethodGet, Path: "/v1/ledger", Token: p.Tokens["operator-1"]}).Decode(t, &lines)
	for _, line := range lines {
		if line.Kind == "provider" && line.Operation == operation {
			require.NotEmpty(t, line.Key)
			return line.Key
		}
	}
	t.Fatalf("the provider knows no call of operation %s: %v", operation, lines)
	return ""
}

// An operator types the name of the call, and gets the key that the provider got: of a Park operation, which has no steps, and
// of a step of a Resume operation. Nobody has to know the client's key for that, and no page shows it.
//
// CONTRACT X-3
func TestInspectorFindsThePayment(t *testing.T) {
	t.Parallel()
	onEachApp(t, func(t *testing.T, framework string) {
		b := newTab(t)
		p := inspected(t, framework)
		payout := unknownPayout(t, p, "secret-payout-7")
		signIn(b, p, "operator-1")
		keysOf := func(operation, call string) string {
			b.open(p.URL + "/idem/operations/" + operation)
			b.reach("[name=call]")
			b.press(call + kb.Enter)
			b.until("document.querySelector('.keys')")
			require.NotContains(t, eval[string](b, "document.documentElement.outerHTML"), "secret-")
			require.Equal(t, call, eval[string](b, "document.querySelector('[name=call]').value"))
			return b.text(".keys")
		}
		got := providerKey(t, p, payout)
		require.Contains(t, keysOf(payout, "payout"), "Key of the call\n"+got+"\n")
		require.NotContains(t, keysOf(payout, "Payout"), got, "another name is another key")

		var payment struct{ ID string }
		pay := apptest.Request{Method: http.MethodPost, Path: "/v1/payments", Token: p.Tokens["customer-1"], Key: "secret-payment-7",
			Body: `{"order_id":"o-1","amount":"12.50","currency":"EUR","method":"pm_ok"}`}
		p.Do(t, pay).Decode(t, &payment)
		refund := apptest.Request{Method: http.MethodPost, Path: fmt.Sprintf("/v1/payments/%s/refunds", payment.ID),
			Token: pay.Token, Key: "secret-refund-7", Body: `{"amount":"5.00","method":"pm_stuck"}`}
		p.Do(t, refund)
		var listed []struct{ ID string }
		half := apptest.Request{Method: http.MethodGet, Path: "/v1/operations?state=half_done", Token: p.Tokens["operator-1"]}
		p.Until(t, &half, func(r apptest.Response) bool { r.Decode(t, &listed); return len(listed) == 1 })

		got = providerKey(t, p, listed[0].ID)
		require.Contains(t, keysOf(listed[0].ID, "provider"), "Key, if it is the name of a step\n"+got+"\n")
		require.Contains(t, b.text(".timeline"), got, "a step that has begun shows its key by itself")
		require.Equal(t, []string{"", "provider"}, eval[[]string](b,
			"[...document.querySelectorAll('[name=inside] option')].map((option) => option.value)"))
		b.looks()
		b.quiet(p.URL)
	})
}
