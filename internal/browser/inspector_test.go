package browser

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/internal/apptest"
	"github.com/auth19/idem/internal/pgtest"
)

// payout sends a payout that ends as its method says.
func payout(t *testing.T, p *apptest.Process, key, method string) apptest.Response {
	t.Helper()
	return p.Do(t, apptest.Request{Method: http.MethodPost, Path: "/v1/payouts", Token: p.Tokens["seller-1"], Key: key,
		Body: fmt.Sprintf(`{"amount":"125.00","currency":"EUR","method":%q}`, method)})
}

// unknownPayout sends a payout that nobody knows the outcome of, and returns the operation, which can be settled.
func unknownPayout(t *testing.T, p *apptest.Process, key string) (operation string) {
	t.Helper()
	payout(t, p, key, "pm_error")
	var problem struct{ Operation string }
	payout(t, p, key, "pm_error").Decode(t, &problem)
	require.NotEmpty(t, problem.Operation)
	page := apptest.Request{Method: http.MethodGet, Path: "/idem/operations/" + problem.Operation,
		Header: http.Header{"Cookie": {"idem-operator=" + p.Tokens["operator-1"]}}}
	p.Until(t, &page, func(r apptest.Response) bool { return strings.Contains(r.Body, "Settle this operation") })
	return problem.Operation
}

// signIn signs in: as somebody of the demo, or with a token where the app has a database of its own.
func signIn(b *tab, p *apptest.Process, name string) {
	b.t.Helper()
	b.open(p.URL + "/idem-sign-in")
	b.looks()
	if button := fmt.Sprintf("button[value=%q]", name); eval[bool](b, fmt.Sprintf("Boolean(document.querySelector(%q))", button)) {
		b.click(button)
	} else {
		eval[any](b, fmt.Sprintf("document.querySelector('[name=token]').value = %q", p.Tokens[name]))
		b.click("form button")
	}
	b.until("location.pathname == '/idem/'")
}

// inspected starts an app whose attempts end soon.
func inspected(t *testing.T, framework string, env ...string) *apptest.Process {
	t.Helper()
	return startApp(t, framework, append(env, "UNSAFE_SIMULATOR=1", "DEADLINE=1s", "LEASE=1s")...)
}

// An operator finds an unknown payout, reads what happened, and settles it with the words that are asked for. The seller
// then gets the settled answer.
//
// CONTRACT X-7
func TestInspectorSettles(t *testing.T) {
	t.Parallel()
	onEachApp(t, func(t *testing.T, framework string) {
		t.Run("sqlite", func(t *testing.T) { settlesInTheBrowser(t, inspected(t, framework)) })
		t.Run("postgres", func(t *testing.T) {
			settlesInTheBrowser(t, inspected(t, framework, "DATABASE_URL="+pgtest.URL(t)))
		})
	})
}

func settlesInTheBrowser(t *testing.T, p *apptest.Process) {
	t.Helper()
	b := newTab(t)
	for i := range 3 {
		payout(t, p, fmt.Sprint("paid-", i), "pm_ok")
	}
	operation := unknownPayout(t, p, "payout-7")
	signIn(b, p, "operator-1")
	require.Contains(t, b.text("main"), "POST /v1/payouts")
	b.looks()
	b.picture("inspector-overview")

	b.click("table.rows a")
	b.until("document.querySelector('table.list')")
	require.Equal(t, "POST /v1/payouts", eval[string](b, "document.querySelector('select[name=route]').value"))
	require.Contains(t, b.text("table.list"), "unknown")
	b.looks()
	b.click("table.list a.id[href$='" + operation + "']") // on a busy machine others become unknown, too
	b.until("document.querySelector('.timeline')")
	require.Contains(t, b.text(".facts"), operation)
	b.click("[name=call]")
	b.press("payout")
	b.click("#provider ~ form button")
	b.until("document.querySelector('.keys')")
	b.looks()
	b.size(1280, 1180)
	eval[any](b, "scrollTo(0, 0)") // from where the keys are
	b.picture("inspector-operation")

	b.click(".head a.button")
	b.until("document.querySelector('form.settle')")
	require.Contains(t, b.text("form.settle"), "operator-1")
	b.looks()
	b.size(1280, 1180)
	b.picture("inspector-settle")
	fill := func(confirm string) {
		b.click("input[value=applied]")
		eval[any](b, "document.querySelector('[name=why]').value = 'Seen in the account of the bank, line 7'")
		b.click("input[name=confirm]")
		b.press(confirm)
		b.click("form.settle button")
	}
	fill("not applied " + operation[56:])
	b.until("document.querySelector('.problem')")
	require.Contains(t, b.text(".problem"), "type exactly: applied "+operation[56:])
	b.looks()
	fill("applied " + operation[56:])
	b.until("location.pathname.length < 90 && document.querySelector('.timeline')")
	require.Contains(t, b.text(".timeline"), "Settled as applied")
	require.Contains(t, b.text(".timeline"), "line 7")
	b.click("form[action$='/answer'] button")
	b.until("document.querySelector('main pre')")
	require.Contains(t, b.text("main"), "was told that you have read this")
	b.looks()
	require.Equal(t, http.StatusCreated, payout(t, p, "payout-7", "pm_error").Status)
	require.NotContains(t, p.Log(), "payout-7")
	for _, host := range b.asked() {
		require.NotContains(t, host, "payout-7")
	}
}

// By the keyboard alone: every element that is used can be reached and shows that it has the focus.
func TestInspectorKeyboard(t *testing.T) {
	t.Parallel()
	onEachApp(t, func(t *testing.T, framework string) {
		b := newTab(t)
		p := inspected(t, framework)
		operation := unknownPayout(t, p, "payout-7")
		signIn(b, p, "operator-1")
		b.prefer("dark")
		b.reach("a.skip")
		b.reach("a[href='/idem/find']")
		b.press(kb.Enter)
		b.until("document.querySelector('[name=id]')")
		b.reach("[name=id]")
		b.press(operation + kb.Enter)
		b.until("document.querySelector('.timeline')")
		b.reach(".head a.button")
		b.press(kb.Enter)
		b.until("document.querySelector('form.settle')")
		b.reach("[value=applied]")
		b.press(" ")
		b.reach("[name=why]")
		b.press("The bank has it")
		b.reach("[name=confirm]")
		b.press("applied " + operation[56:] + kb.Enter)
		b.until("document.querySelector('.timeline')")
		require.Contains(t, b.text(".timeline"), "The bank has it")
		dark := eval[string](b, "getComputedStyle(document.body).backgroundColor")
		b.prefer("light")
		require.NotEqual(t, dark, eval[string](b, "getComputedStyle(document.body).backgroundColor"))
		b.quiet(p.URL)
	})
}

// A seller has told its key on the phone. The operator types it into the form, with the seller's name. The key is in no address
// and in no page after that, and not in the log.
//
// CONTRACT K-6
func TestInspectorFindsByKey(t *testing.T) {
	t.Parallel()
	onEachApp(t, func(t *testing.T, framework string) {
		b := newTab(t)
		p := inspected(t, framework)
		operation := unknownPayout(t, p, "secret-payout-7")
		signIn(b, p, "operator-1")
		find := func(subject string) {
			b.open(p.URL + "/idem/find")
			b.reach("[name=key]")
			b.press("secret-payout-7")
			b.reach("[name=subject]")
			b.press(subject)
			require.Equal(t, "https://issuer.example", eval[string](b, "document.querySelector('[name=issuer]').value"))
			b.press(kb.Enter)
		}
		find("seller-1")
		b.until("document.querySelector('.timeline')")
		require.Equal(t, "/idem/operations/"+operation, eval[string](b, "location.pathname"))
		require.NotContains(t, eval[string](b, "document.documentElement.outerHTML"), "secret-payout-7")
		require.NotContains(t, strings.Join(b.asked(), "\n"), "secret-payout-7")
		require.NotContains(t, p.Log(), "secret-payout-7")
		b.quiet(p.URL)
		find("customer-1")
		b.until("document.querySelector('.problem')")
		require.Contains(t, b.text(".problem"), "This principal has no operation with this key")
		require.NotContains(t, eval[string](b, "document.documentElement.outerHTML"), "secret-payout-7")
		b.looks()
	})
}

// A customer is signed in, and sees nothing. Who is not signed in gets the way to the sign-in.
//
// CONTRACT S-5
func TestInspectorRefuses(t *testing.T) {
	t.Parallel()
	onEachApp(t, func(t *testing.T, framework string) {
		b := newTab(t)
		p := inspected(t, framework)
		operation := unknownPayout(t, p, "payout-7")
		b.open(p.URL + "/idem/operations")
		b.looks()
		b.click("a.button")
		b.until("document.querySelector('button[value=customer-1]')")
		b.click("button[value=customer-1]")
		b.until("location.pathname == '/idem/operations'") // the page that was asked for
		for _, path := range []string{"", "operations", "operations/" + operation, "operations/" + operation + "/settle", "find"} {
			b.open(p.URL + "/idem/" + path)
			require.Contains(t, b.text("main"), "You are no operator", path)
			require.NotContains(t, b.text("body"), "payouts")
		}
		b.looks()
	})
}
