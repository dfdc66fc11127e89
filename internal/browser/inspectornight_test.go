package browser

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/inspect"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/core/wire"
	"github.com/auth19/idem/internal/apptest"
)

// An alert, a ticket or a chat has a link to an operation. The browser follows it without the cookie (SameSite=Strict): the page
// says so, and its own link is enough. Nobody is signed out by that. A sign-in leads back to it.
func TestInspectorFromALink(t *testing.T) {
	t.Parallel()
	onEachApp(t, func(t *testing.T, framework string) {
		p := inspected(t, framework)
		b := newTab(t)
		operation := unknownPayout(t, p, "payout-7")
		page := p.URL + "/idem/operations/" + operation + "?call=payout"
		chat := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = fmt.Fprintf(w, `<a href="%s">It is unknown</a> <a id="out" href="%s">and this</a>`, page, p.URL+"/idem-sign-in?out=1")
		}))
		t.Cleanup(chat.Close)
		elsewhere := strings.Replace(chat.URL, "127.0.0.1", "localhost", 1)

		b.open(page)
		b.click("main a.button")
		b.until("document.querySelector('button[value=operator-1]')")
		b.click("button[value=operator-1]")
		b.until("document.querySelector('.keys')")
		require.Equal(t, page, eval[string](b, "location.href"), "the sign-in leads back")

		b.open(elsewhere)
		b.click("a#out") // no GET signs anybody out
		b.until("location.pathname == '/idem-sign-in'")
		b.open(elsewhere)
		b.click("a")
		b.until("document.querySelector('.failure')")
		require.Contains(t, b.text("main"), "Signed in already?")
		b.looks()
		b.click("a[href='']")
		b.until("document.querySelector('.keys')")
		require.Contains(t, b.text(".facts"), operation)

		for _, back := range []string{"/v1/ledger", "//elsewhere.example/idem/", "/idem/../v1/ledger", "https://elsewhere.example/idem/"} {
			b.open(p.URL + "/idem-sign-in?return=" + url.QueryEscape(back))
			b.click("button[value=operator-1]")
			b.until("location.href == '" + p.URL + "/idem/'")
		}
		for path, status := range map[string]int{"/idem/": http.StatusUnauthorized, "/idem/style.css": http.StatusOK} {
			require.Equal(t, status, p.Do(t, apptest.Request{Method: http.MethodHead, Path: path}).Status, path)
		}
	})
}

// The session ends while the form is filled in. Nothing of what was typed is lost: after a sign-in in another tab, the form is sent
// again as it is.
//
// CONTRACT X-7
func TestInspectorSessionEnds(t *testing.T) {
	t.Parallel()
	onEachApp(t, func(t *testing.T, framework string) {
		p := inspected(t, framework)
		b := newTab(t)
		operation := unknownPayout(t, p, "payout-7")
		signIn(b, p, "operator-1")
		b.open(p.URL + "/idem/operations/" + operation + "/settle")
		b.click("input[value=applied]")
		eval[any](b, `document.querySelector('[name=why]').value = 'Seen </textarea> in the account,\nline 7'`)
		eval[any](b, `document.querySelector('[name=body]').value = '{"id":"out-7"}'`)
		b.click("input[name=confirm]")
		b.press("applied " + operation[56:])
		b.call(func(ctx context.Context, s *chromedp.Target) error {
			_, err := cdp.Call(ctx, s, network.ClearBrowserCookies, cdp.Empty{})
			return err
		})
		b.click("form.settle button")
		b.until("document.querySelector('.failure')")
		require.Contains(t, b.text("main"), "Nothing was settled")
		require.Equal(t, "Seen </textarea> in the account,\nline 7", eval[string](b, "document.querySelector('[name=why]').value"))
		b.looks()
		b.accessible()
		require.Equal(t, "_blank", eval[string](b, "document.querySelector('main a.button').target"))
		signsIn := "fetch('/idem-sign-in', {method: 'POST', body: new URLSearchParams({as: '%s'})}).then((r) => r.status)"
		require.Equal(t, 200, eval[int](b, fmt.Sprintf(signsIn, "operator-1")), "as another tab does")
		b.click("form.settle button")
		b.until("document.querySelector('.timeline')")
		require.Contains(t, b.text(".timeline"), "line 7")
		require.JSONEq(t, `{"id":"out-7"}`, payout(t, p, "payout-7", "pm_error").Body)
	})
}

// A half-done refund says that the service goes on with it. On a small telephone the list begins on the first screen.
//
// CONTRACT X-10
func TestInspectorHalfDone(t *testing.T) {
	t.Parallel()
	onEachApp(t, func(t *testing.T, framework string) {
		p := inspected(t, framework)
		b := newTab(t)
		var paid struct{ ID string }
		request := func(path, key, body string) apptest.Response {
			return p.Do(t, apptest.Request{Method: http.MethodPost, Path: path, Token: p.Tokens["customer-1"], Key: key, Body: body})
		}
		request("/v1/payments", "pay", `{"order_id":"o","amount":"10.00","currency":"EUR","method":"pm_ok"}`).Decode(t, &paid)
		request("/v1/payments/"+paid.ID+"/refunds", "refund", `{"amount":"5.00","method":"pm_stuck"}`)
		signIn(b, p, "operator-1")
		half := apptest.Request{Method: http.MethodGet, Path: "/v1/operations?state=half_done", Token: p.Tokens["operator-1"]}
		p.Until(t, &half, func(r apptest.Response) bool { return strings.Contains(r.Body, "half_done") })
		b.open(p.URL + "/idem/operations?state=half_done")
		require.Contains(t, b.text("table.list"), "goes on by itself; unknown from ")
		b.looks()
		b.click("table.list a.id")
		b.until("document.querySelector('.timeline')")
		require.Contains(t, b.text(".meaning"), "The service goes on with it by itself")
		require.NotContains(t, b.text("main"), "Show what was answered", "there is none")
		b.looks()
		b.click(".head a.button")
		b.until("document.querySelector('[value=give_up]')")
		b.looks()
		b.accessible()
		b.click("[value=give_up]")
		b.click("[name=why]")
		b.press("the provider has closed the account")
		b.click("form.settle button")
		b.until("document.querySelector('.timeline')")
		require.Contains(t, b.text(".timeline"), "Given up by an operator")
		require.Contains(t, b.text(".head"), "Settle this operation")
		b.looks()
		ends := "document.querySelector('.attempts table').checkVisibility()"
		require.False(t, eval[bool](b, ends), "how attempts have ended is folded")
		b.click(".attempts summary")
		b.until(ends)
		require.Contains(t, b.text(".attempts"), "answered 502")
		b.looks()
		b.accessible()
		b.size(390, 844)
		b.open(p.URL + "/idem/operations")
		require.Less(t, eval[float64](b, "document.querySelector('#list').getBoundingClientRect().top"), 460.0)
		b.click("label.fold")
		b.until("document.querySelector('.filter').checkVisibility()")
	})
}

// An erasure under whose principal nothing was found says so, with the first digits of the scope's hash, and shows what was typed.
//
// CONTRACT S-5
func TestInspectorErases(t *testing.T) {
	t.Parallel()
	onEachApp(t, func(t *testing.T, framework string) {
		p := inspected(t, framework)
		b := newTab(t)
		signIn(b, p, "operator-1")
		b.click("nav a[href='/idem/erase']")
		b.until("document.querySelector('form.settle')")
		b.looks()
		b.accessible()
		anonymous := core.Principal{Issuer: eval[string](b, "document.querySelector('[name=issuer]').value"),
			Tenant: eval[string](b, "document.querySelector('[name=tenant]').value"), Subject: "custmoer-1"}
		for field, text := range map[string]string{"subject": anonymous.Subject, "why": "request 7", "confirm": "erase"} {
			b.click("[name=" + field + "]")
			b.press(text)
		}
		b.click("form.settle button")
		b.until("document.querySelector('.done')")
		scope := core.Scoping{}.PrincipalScope(anonymous)
		require.Contains(t, b.text(".done"), fmt.Sprintf("Nothing was erased: nothing was found under this principal "+
			"that is to be erased; look at its issuer, tenant, client and subject: its scope begins with %x", scope[:4]))
		require.Contains(t, b.text(".typed"), "custmoer-1")
		require.Contains(t, b.text(".typed"), anonymous.Issuer)
		b.looks()
		b.accessible()
	})
}

// A reference and a reason without a place to break a line leave room for the other columns, and each table has a name.
func TestInspectorColumns(t *testing.T) {
	t.Parallel()
	b := newTab(t)
	operator := core.Principal{Issuer: "https://issuer.example", Subject: strings.Repeat("o", 120), Roles: []string{"operator"}}
	var passed atomic.Int64
	clock := func() time.Time { return time.Date(2026, time.November, 22, 12, 0, 0, int(passed.Load()), time.UTC) }
	module, err := core.New(core.Config{Store: memstore.New(memstore.WithClock(clock)), Now: clock, Policy: core.Policy{Recovery: core.Park},
		OperatorRoles: []core.IssuerRole{{Issuer: operator.Issuer, Role: "operator"}},
		Observer:      core.LogObserver(slog.New(slog.DiscardHandler))})
	require.NoError(t, err)
	for _, key := range []string{"k-1", "k-2"} {
		r := httptest.NewRequest(http.MethodPost, "/v1/payouts", strings.NewReader(`{}`))
		r.Header.Set(wire.HeaderKey, key)
		r, reply := module.Admit(r, "/v1/payouts", operator)
		require.Nil(t, reply)
		attempt, reply := module.Begin(r, "/v1/payouts", operator)
		require.Nil(t, reply)
		w := attempt.Capture(httptest.NewRecorder())
		require.NoError(t, core.Reference(attempt.Request().Context(), "seller", strings.Repeat("s", store.MaxReferenceValue)))
		w.WriteHeader(http.StatusInternalServerError)
		attempt.Finish()
	}
	passed.Add(int64(time.Hour))
	_, err = operations.New(module).Settle(t.Context(), core.Scoping{}.RecordID(operator, "k-1"), core.Decision{Who: operator.Name(),
		Why: strings.Repeat("w", 4000)})
	require.NoError(t, err)
	pages, err := inspect.New(inspect.Config{Module: module, Settle: "POST /v1/operations/:id/settle",
		Caller: func(*http.Request) (core.Principal, error) { return operator, nil }})
	require.NoError(t, err)
	server := httptest.NewServer(pages)
	t.Cleanup(server.Close)
	for _, path := range []string{"", "operations", "history"} {
		b.open(server.URL + "/idem/" + path)
		require.Empty(t, eval[[]string](b, `[...document.querySelectorAll('tbody td:not(.n)')].filter((e) => e.getBoundingClientRect().width < 100)
			.map((e) => e.outerHTML.slice(0, 100))`), path)
		require.True(t, eval[bool](b, "[...document.querySelectorAll('table')].every((e) => e.caption?.textContent)"), path)
		b.looks()
	}
}
