package browser

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/internal/apptest"
	"github.com/auth19/idem/internal/pgtest"
)

// The walk of docs/operations.md: a seller calls, and all that is known are its name and about when. The operator finds the
// payout, looks it up at the provider, settles it, and sees that it is settled. The seller's next repeat gets the answer.
//
// CONTRACT X-7, K-6
func TestInspectorWalk(t *testing.T) {
	t.Parallel()
	onEachApp(t, func(t *testing.T, framework string) {
		t.Run("sqlite", func(t *testing.T) { walk(t, inspected(t, framework)) })
		t.Run("postgres", func(t *testing.T) { walk(t, inspected(t, framework, "DATABASE_URL="+pgtest.URL(t))) })
	})
}

func walk(t *testing.T, p *apptest.Process) {
	t.Helper()
	about := time.Now().UTC()
	operation := unknownPayout(t, p, "secret-payout-7")
	b := newTab(t)
	signIn(b, p, "operator-1")

	find := func(who string) {
		b.click("a[href$='/find']")
		b.until("document.querySelector('#by-caller')")
		form := "#by-caller ~ form "
		b.click(form + "[name=subject]")
		b.press(who)
		b.reach("[name=from]")
		b.typeTime(about.Add(-time.Hour))
		b.reach("[name=until]")
		b.typeTime(about.Add(time.Hour))
		b.click(form + "button")
		b.until("document.querySelector('table.list, .problem')")
	}
	find("customer-1")
	require.Contains(t, b.text(".problem"), `subject="customer-1"`, "nothing of another caller is shown")
	find("seller-1")
	require.Contains(t, b.text("table.list"), "125.00")
	require.Contains(t, b.text(".pages"), "1 operation,")
	require.NotContains(t, eval[string](b, "location.href"), "seller-1")

	b.click("table.list a.id")
	b.until("document.querySelector('.timeline')")
	require.Contains(t, b.text(".facts"), operation)
	b.click("[name=call]")
	b.press("payout\r")
	b.until("document.querySelector('.keys')")
	key := eval[string](b, "document.querySelector('.keys dd').textContent")
	ledger := p.Do(t, apptest.Request{Method: http.MethodGet, Path: "/v1/ledger", Token: p.Tokens["operator-1"]})
	require.Contains(t, ledger.Body, key, "the provider has made it")

	// So does what the service has attached, with a time.
	b.open(p.URL + "/idem/find")
	b.click("#by-references ~ form [name=value]")
	b.press("125.00")
	b.reach("[name=from]")
	b.typeTime(about.Add(-time.Hour))
	b.press("\r")
	b.until("document.querySelector('.timeline')")
	require.Contains(t, b.text(".facts"), operation)

	// The provider's support would give the same key, and it leads back here.
	b.open(p.URL + "/idem/find")
	b.click("[name=id]")
	b.press(key + "\r")
	b.until("document.querySelector('.timeline')")
	require.Contains(t, b.text(".facts"), operation)

	b.click(".head a.button")
	b.until("document.querySelector('form.settle')")
	require.Contains(t, b.text("form.settle"), "books no row")
	b.click("input[value=applied]")
	b.click("[name=body]")
	b.press(`{"id":"out_1","status":"paid"}`)
	b.click("[name=headers]")
	b.press("Location: /v1/payouts/out_1")
	b.click("[name=why]")
	b.press("The provider has it, ticket 7")
	b.click("[name=confirm]")
	b.press("applied " + operation[56:] + "\r")
	b.until("document.querySelector('.timeline')")
	require.Contains(t, b.text(".timeline"), "Settled as applied")

	b.click("a[href$='/history']")
	b.until("document.querySelector('table.list')")
	require.Contains(t, b.text("table.list"), "The provider has it, ticket 7")
	repeat := payout(t, p, "secret-payout-7", "pm_error")
	require.Equal(t, http.StatusCreated, repeat.Status, repeat.Body)
	require.Equal(t, "/v1/payouts/out_1", repeat.Header.Get("Location"))
	require.JSONEq(t, `{"id":"out_1","status":"paid"}`, repeat.Body)
	log := p.Log()
	require.Contains(t, log, "idem: settled")
	for _, secret := range []string{"secret-payout-7", "ticket 7", "125.00"} {
		require.NotContains(t, log, secret)
		require.NotContains(t, strings.Join(b.asked(), "\n"), secret)
	}
	b.quiet(p.URL, notFound) // what another caller has
}
