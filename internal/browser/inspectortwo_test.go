package browser

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/inspect"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/wire"
)

// One operator proposes to settle a payout, and cannot carry it out. Another one reads it, first withdraws it, and carries
// the next one out. On a telephone it fits, too.
//
// CONTRACT X-7
func TestInspectorTwoToSettle(t *testing.T) {
	t.Parallel()
	b := newTab(t)
	const settle, route = "/v1/operations/:id/settle", "/v1/payouts"
	roles := []string{"operator"}
	olga := core.Principal{Issuer: "https://issuer.example", Subject: "olga", Roles: roles}
	otto := core.Principal{Issuer: "https://issuer.example", Subject: "otto", Roles: roles}
	var who atomic.Pointer[core.Principal]
	who.Store(&olga)
	var passed atomic.Int64
	clock := func() time.Time { return time.Date(2026, time.November, 22, 12, 0, 0, int(passed.Load()), time.UTC) }
	module, err := core.New(core.Config{Store: memstore.New(memstore.WithClock(clock)), Now: clock,
		OperatorRoles: []core.IssuerRole{{Issuer: olga.Issuer, Role: "operator"}}, Observer: core.LogObserver(slog.New(slog.DiscardHandler)),
		Routes:       core.Routes{"POST " + route: {Recovery: core.Park, TwoToSettle: true}, "POST " + settle: {Recovery: core.Park, Roles: roles}},
		ClaimTimeout: time.Minute}) // the machine may be busy
	require.NoError(t, err)
	// pay sends the payout, and returns the status.
	pay := func() int {
		r := httptest.NewRequest(http.MethodPost, route, strings.NewReader(`{}`))
		r.Header.Set(wire.HeaderKey, "payout-7")
		r, reply := module.Admit(r, route, olga)
		require.Nil(t, reply)
		attempt, reply := module.Begin(r, route, olga)
		if reply != nil {
			return reply.Status
		}
		attempt.Capture(httptest.NewRecorder()).WriteHeader(http.StatusInternalServerError)
		attempt.Finish()
		return http.StatusInternalServerError
	}
	require.Equal(t, http.StatusInternalServerError, pay())
	passed.Add(int64(time.Hour))
	id := core.Scoping{}.RecordID(olga, "payout-7").String()
	pages, err := inspect.New(inspect.Config{Module: module, Settle: "POST " + settle,
		Caller: func(*http.Request) (core.Principal, error) { return *who.Load(), nil }})
	require.NoError(t, err)
	server := httptest.NewServer(pages)
	t.Cleanup(server.Close)
	at := server.URL + "/idem/operations/" + id

	// done ends a form, and waits for the operation's page.
	done := func() {
		b.click("form.settle button")
		b.until("document.querySelector('.timeline')")
	}
	propose := func(why string) {
		who.Store(&olga)
		b.open(at + "/settle")
		b.accessible()
		require.Contains(t, b.text(".meaning"), "Settlements of this route take two")
		b.click("input[value=applied]")
		b.click("[name=why]")
		b.press(why)
		b.click("[name=body]")
		b.press(`{"id":"out-7"}`)
		b.click("[name=confirm]")
		b.press("applied " + id[56:])
		done()
		require.Contains(t, b.text(".timeline"), why)
		require.Contains(t, b.text(".head"), "A settlement is proposed.")
		require.Equal(t, http.StatusConflict, pay(), "no client hears of it")
	}
	propose("charge ch_1")
	b.click(".head a.button")
	b.until("document.querySelector('[value=withdraw]')")
	require.False(t, eval[bool](b, "!!document.querySelector('[value=carry_out]')"), "one's own")
	b.looks()

	who.Store(&otto)
	b.open(server.URL + "/idem/operations")
	require.Contains(t, b.text("table.list"), "Settlement proposed: “charge ch_1”")
	b.click("a.do-settle")
	b.until("document.querySelector('[value=carry_out]')")
	for _, want := range []string{`subject="olga"`, "charge ch_1", "201 Created", `{"id":"out-7"}`} {
		require.Contains(t, b.text("main"), want)
	}
	b.accessible()
	b.looks()
	b.click("[value=withdraw]")
	b.click("[name=why]")
	b.press("that is another charge")
	done()
	require.Contains(t, b.text(".timeline"), "The proposal was withdrawn")

	propose("charge ch_2")
	who.Store(&otto)
	b.size(390, 844)
	b.open(at + "/proposal")
	b.looks()
	b.click("[value=carry_out]")
	b.click("[name=why]")
	b.press("I see ch_2, too")
	b.click("[name=confirm]")
	b.press("applied 0")
	b.click("form.settle button")
	b.until("document.querySelector('.problem')")
	require.Equal(t, "I see ch_2, too", eval[string](b, "document.querySelector('[name=why]').value"))
	b.accessible()
	b.click("[name=confirm]")
	b.press("applied " + id[56:])
	done()
	require.Contains(t, b.text(".timeline"), "Another operator has carried it out.")
	require.Contains(t, b.text(".timeline"), "Settled as applied")
	b.looks()
	require.Equal(t, http.StatusCreated, pay())
}
