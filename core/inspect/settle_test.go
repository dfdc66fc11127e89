package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/inspect"
	"github.com/auth19/idem/core/store"
)

func ok(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

// As applied: repeats get the answer. Who comes from the login, and the settlement is a command of the API's route, with a
// record of its own.
//
// CONTRACT X-7, M-3
func TestSettleApplied(t *testing.T) {
	d := newDesk(t)
	id := d.unknown("payout-7", customer)
	form := d.form(id, "applied", "seen at the bank\r\nline 7")
	form.Set("status", "202")
	form.Set("body", `{"id": "out-7"}`)
	p := d.settle(id, form)
	require.Equal(t, http.StatusSeeOther, p.Code, p.text)
	require.Equal(t, "/idem/operations/"+id.String(), p.Header().Get("Location"))

	again := d.command("/v1/payouts", "payout-7", `{"amount":"1.00"}`, customer, ok)
	require.Equal(t, http.StatusAccepted, again.Status)
	require.JSONEq(t, `{"id": "out-7"}`, string(again.Body))
	history := d.store.Settlements(id)
	require.Len(t, history, 1)
	require.Equal(t, `issuer="https://issuer.example" tenant="shop-1" subject="olga"`, history[0].Who)
	require.Equal(t, "seen at the bank\nline 7", history[0].Why)
	rec, err := d.store.Find(t.Context(), core.Scoping{}.RecordID(olga, form.Get("key")), store.Viewer{All: true})
	require.NoError(t, err)
	require.Equal(t, "/v1/operations/:id/settle", rec.Route)
	require.Equal(t, store.Completed, rec.State())

	text := d.get("/idem/operations/" + id.String()).text
	for _, want := range []string{"Settled as applied", "olga", "seen at the bank", "fence 1", "fence 2", "202 Accepted"} {
		require.Contains(t, text, want)
	}
}

// As not applied: the page says that the key is free from then on, and it is.
//
// CONTRACT X-7
func TestSettleNotApplied(t *testing.T) {
	d := newDesk(t)
	id := d.unknown("payout-7", customer)
	require.Contains(t, d.get("/idem/operations/"+id.String()+"/settle").text, "the next repeat runs the command again")
	require.Equal(t, http.StatusSeeOther, d.settle(id, d.form(id, "not_applied", "the bank has nothing")).Code)
	require.Contains(t, d.get("/idem/operations/"+id.String()).text, "Settled as not applied")
	require.Equal(t, http.StatusNoContent, d.command("/v1/payouts", "payout-7", `{"amount":"1.00"}`, customer, ok).Status)
	require.Contains(t, d.get("/idem/operations/"+id.String()).text, "That was an earlier operation with the same key.")
}

// A form that is sent twice settles once.
func TestSettleTwice(t *testing.T) {
	d := newDesk(t)
	id := d.unknown("payout-7", customer)
	form := d.form(id, "applied", "seen at the bank")
	for range 3 {
		require.Equal(t, http.StatusSeeOther, d.settle(id, form).Code)
	}
	require.Len(t, d.store.Settlements(id), 1)
}

// Nothing is sent until the form is whole, and the right words are typed. What was filled in stays.
func TestSettleConfirmed(t *testing.T) {
	d := newDesk(t)
	id := d.unknown("payout-7", customer)
	for name, change := range map[string]func(f url.Values){
		"no outcome":       func(f url.Values) { f.Del("outcome") },
		"other outcome":    func(f url.Values) { f.Set("outcome", "maybe") },
		"no reason":        func(f url.Values) { f.Set("why", " \n") },
		"nothing typed":    func(f url.Values) { f.Set("confirm", "") },
		"the other words":  func(f url.Values) { f.Set("confirm", "not applied "+id.String()[56:]) },
		"another id":       func(f url.Values) { f.Set("confirm", "applied 00000000") },
		"no fence":         func(f url.Values) { f.Del("fence") },
		"no key":           func(f url.Values) { f.Del("key") },
		"a bad status":     func(f url.Values) { f.Set("status", "500"); f.Set("body", "{}") },
		"a status alone":   func(f url.Values) { f.Set("status", "402") },
		"a body no JSON":   func(f url.Values) { f.Set("body", "{") },
		"undone, yet true": func(f url.Values) { f.Set("undone", "a refund") },
	} {
		form := d.form(id, "applied", "seen </textarea><script>alert(1)</script> there")
		change(form)
		p := d.settle(id, form)
		require.Equal(t, http.StatusBadRequest, p.Code, name)
		require.Contains(t, p.html, `class="problem"`, name)
		require.NotContains(t, p.html, "<script>", name)
		if form.Get("why") != " \n" {
			require.Contains(t, p.html, "seen &lt;/textarea&gt;", name)
		}
	}
	require.Empty(t, d.store.Settlements(id))
}

// A decision about one attempt never settles the next one.
//
// CONTRACT X-7
func TestSettleStaleForm(t *testing.T) {
	d := newDesk(t)
	id := d.unknown("payout-7", customer)
	old := d.form(id, "not_applied", "the bank has nothing")
	require.Equal(t, http.StatusSeeOther, d.settle(id, d.form(id, "not_applied", "the same, by a colleague")).Code)
	d.unknown("payout-7", customer) // the client repeats it, and this attempt is lost, too
	p := d.settle(id, old)
	require.Equal(t, http.StatusConflict, p.Code)
	require.Contains(t, p.text, "not settled by this form")
	require.Len(t, d.store.Settlements(id), 1)
}

// A settlement commits, and its confirmation is lost. The form stays with its key and text, also while the store is away, and
// sending it again finds out what became of it.
//
// CONTRACT X-7
func TestSettleConfirmationLost(t *testing.T) {
	d := newDesk(t)
	id := d.unknown("payout-7", customer)
	form := d.form(id, "applied", "seen at the bank\r\nline 7")
	d.shaky.loses.Store(true)
	p := d.settle(id, form)
	require.Equal(t, http.StatusServiceUnavailable, p.Code)
	require.Contains(t, p.text, "Nobody knows yet whether it was recorded")
	require.Equal(t, form.Get("key"), p.hidden(t, "key"))
	require.Contains(t, p.text, "seen at the bank")
	require.NotContains(t, p.text, "nothing was changed")

	p = d.settle(id, form)
	require.Equal(t, http.StatusServiceUnavailable, p.Code)
	require.Contains(t, p.text, "Reload the page")
	require.NotContains(t, p.text, "nothing was changed")

	d.shaky.away.Store(false)
	p = d.settle(id, form)
	require.Equal(t, http.StatusSeeOther, p.Code, p.text)
	require.Len(t, d.store.Settlements(id), 1)
}

// The operator corrects a form whose confirmation was lost: what was recorded is not what it says now.
//
// CONTRACT M-1
func TestSettleEditedBehindALostConfirmation(t *testing.T) {
	d := newDesk(t)
	id := d.unknown("payout-7", customer)
	form := d.form(id, "applied", "seen at the bank")
	form.Set("body", `{"amount":"1.00"}`)
	d.shaky.loses.Store(true)
	unsure := d.settle(id, form)
	require.Equal(t, http.StatusServiceUnavailable, unsure.Code)
	d.shaky.loses.Store(false)
	d.shaky.away.Store(false)
	form.Set("sent", unsure.hidden(t, "sent"))
	form.Set("body", `{"amount":"2.00"}`)
	p := d.settle(id, form)
	require.Equal(t, http.StatusConflict, p.Code)
	for _, want := range []string{"not settled by this form", "Settled as applied", "olga", "seen at the bank"} {
		require.Contains(t, p.text, want)
	}
	form.Set("body", `{"amount":"1.00"}`)
	require.Equal(t, http.StatusSeeOther, d.settle(id, form).Code, "as it was sent first")
	require.Len(t, d.store.Settlements(id), 1)
}

// Nobody knows what became of the operator's own sending, and somebody else has settled the other way.
//
// CONTRACT X-7
func TestSettleOvertakenWhileUnsure(t *testing.T) {
	d := newDesk(t)
	id := d.unknown("payout-7", customer)
	form := d.form(id, "applied", "seen at the bank")
	d.shaky.panics.Store(true)
	require.Panics(t, func() { d.settle(id, form) })
	d.shaky.panics.Store(false)
	d.advance(2 * store.DefaultDeadline)
	d.caller = chief
	require.Equal(t, http.StatusSeeOther, d.settle(id, d.form(id, "not_applied", "nothing is there")).Code)
	d.caller = olga
	p := d.settle(id, form)
	require.Equal(t, http.StatusConflict, p.Code)
	for _, want := range []string{"not settled by this form", "Settled as not applied", "chief", "nothing is there", "seen at the bank"} {
		require.Contains(t, p.text, want)
	}
}

// Only what may have been recorded is unsure, whatever its status is: a 409 outcome_unknown is, and a 500 misconfigured is not.
func TestSettleUnsure(t *testing.T) {
	d := newDesk(t)
	id := d.unknown("payout-7", customer)
	form := d.form(id, "applied", "seen at the bank")
	d.shaky.panics.Store(true)
	require.Panics(t, func() { d.settle(id, form) })
	d.advance(2 * store.DefaultDeadline)
	p := d.settle(id, form)
	require.Equal(t, http.StatusConflict, p.Code, p.text)
	require.Contains(t, p.text, "Nobody knows yet whether it was recorded")
	require.Equal(t, form.Get("key"), p.hidden(t, "key"))

	wrong, err := core.New(core.Config{Store: d.store, OperatorRoles: []core.IssuerRole{{Issuer: olga.Issuer, Role: "operator"}}, Observer: inspect.NewNumbers(),
		Scoping: core.Scoping{RequireTenant: true}, Now: d.clock, Routes: core.Routes{settleRoute: {Recovery: core.Park}}})
	require.NoError(t, err)
	d.pages, err = inspect.New(inspect.Config{Module: wrong, Settle: settleRoute,
		Caller: func(*http.Request) (core.Principal, error) { return olga, nil }})
	require.NoError(t, err)
	p = d.settle(id, form)
	require.Equal(t, http.StatusInternalServerError, p.Code, p.text)
	require.Contains(t, p.text, "otherwise than before")
	require.NotContains(t, p.text, "Nobody knows")
	require.NotEqual(t, form.Get("key"), p.hidden(t, "key"))
	require.Empty(t, d.store.Settlements(id))
}

// Another site cannot settle with the operator's cookie.
func TestSettleCrossSite(t *testing.T) {
	d := newDesk(t)
	id := d.unknown("payout-7", customer)
	form := d.form(id, "not_applied", "the bank has nothing")
	path := "/idem/operations/" + id.String() + "/settle"
	for _, header := range [][]string{
		{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"},
		{"Sec-Fetch-Site", "", "Origin", "https://evil.example"}, {"Sec-Fetch-Site", "", "Origin", "null"},
	} {
		p := d.ask(http.MethodPost, path, form, header...)
		require.Equal(t, http.StatusForbidden, p.Code, header)
		require.Contains(t, p.text, "another site")
	}
	require.Empty(t, d.store.Settlements(id))
}

// Without the API's route the pages only read.
func TestReadOnly(t *testing.T) {
	d := newDesk(t, func(c *inspect.Config) { c.Settle = "" })
	id := d.unknown("payout-7", customer)
	p := d.get("/idem/operations/" + id.String())
	require.Contains(t, p.text, "read-only")
	require.NotContains(t, p.html, "/settle")
	require.Equal(t, http.StatusForbidden, d.get("/idem/operations/"+id.String()+"/settle").Code)
	require.Equal(t, http.StatusForbidden, d.settle(id, url.Values{"outcome": {"not_applied"}}).Code)
	require.Empty(t, d.store.Settlements(id))
}

// Before the deadline the handler may be at work, and what is over needs nobody.
func TestSettleOnlyUnknown(t *testing.T) {
	d := newDesk(t)
	d.command("/v1/payouts", "payout-7", `{}`, customer, failing)
	early := core.Scoping{}.RecordID(customer, "payout-7")
	d.command("/v1/payouts", "payout-8", `{}`, customer, ok)
	done := core.Scoping{}.RecordID(customer, "payout-8")
	for id, want := range map[core.ID]string{early: "too early", done: "nothing to settle"} {
		p := d.get("/idem/operations/" + id.String() + "/settle")
		require.Equal(t, http.StatusConflict, p.Code)
		require.Contains(t, p.text, want)
	}
	require.Contains(t, d.get("/idem/operations/"+early.String()).text, "It can be settled from 2026-11-22 12:01:00 UTC on")
}

// The life of a Resume operation: its steps, and the attempt that took over, with the fences.
func TestTimeline(t *testing.T) {
	d := newDesk(t)
	refund := func(lost string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			for _, name := range []string{"reserve", "call the bank"} {
				_, err := core.Call(r.Context(), name, func(context.Context, core.DerivedKey) (string, error) {
					d.advance(time.Second)
					if name == lost {
						return "", errors.New("the connection broke off")
					}
					return "secret of " + name, nil
				}, core.Dedup(time.Hour))
				if err != nil {
					w.WriteHeader(http.StatusInternalServerError)
					return
				}
			}
			w.WriteHeader(http.StatusCreated)
		}
	}
	id := core.Scoping{}.RecordID(customer, "refund-1")
	path := "/idem/operations/" + id.String()
	d.command("/v1/refunds", "refund-1", `{}`, customer, refund("call the bank"))
	d.advance(10 * time.Minute)
	p := d.get(path)
	require.Contains(t, p.text, "half-done")
	require.Contains(t, p.text, "No result was recorded")
	require.Contains(t, p.text, id.DeriveStep("call the bank").String(), "to ask the bank with")

	require.Equal(t, http.StatusCreated, d.command("/v1/refunds", "refund-1", `{}`, customer, refund("")).Status)
	p = d.get(path)
	last := 0
	for _, want := range []string{"Claimed", "The first attempt began, with fence 1", "Step reserve", "Step call the bank",
		"no time is kept", "Taken over", "Attempt 2 went on, with fence 2", "When that was, the record does not say", "Answered 201 Created", "The answer is kept until then"} {
		at := strings.Index(p.text, want)
		require.Greater(t, at, last, "%s\n%s", want, p.text)
		last = at
	}
	require.NotContains(t, p.text, "secret")
	p = d.ask(http.MethodPost, path+"/answer", nil)
	require.Contains(t, p.text, "secret of call the bank")
}

// The loser of a race reads who has settled it, how, when and why, and gets back what was typed.
//
// CONTRACT X-7
func TestSettleLost(t *testing.T) {
	d := newDesk(t)
	id := d.unknown("payout-7", customer)
	mine := d.form(id, "not_applied", "I saw nothing at the bank")
	d.caller = chief
	require.Equal(t, http.StatusSeeOther, d.settle(id, d.form(id, "applied", "line 7 of the account")).Code)
	d.caller = olga
	p := d.settle(id, mine)
	require.Equal(t, http.StatusConflict, p.Code)
	for _, want := range []string{"not settled by this form", "Settled as applied", "chief", "2026-11-22 12:02:00 UTC", "line 7 of the account",
		"I saw nothing at the bank"} {
		require.Contains(t, p.text, want)
	}
	require.Contains(t, p.html, `href="/idem/operations/`+id.String()+`"`)
	p = d.get("/idem/operations/" + id.String() + "/settle")
	require.Equal(t, http.StatusConflict, p.Code)
	require.Contains(t, p.text, "chief")

	require.Len(t, d.kinds(core.EventSettled), 1)
	require.Contains(t, d.kinds(core.EventSettled)[0].Who, "chief")
	refused := d.kinds(core.EventSettleRefused)
	require.Len(t, refused, 1)
	require.Contains(t, refused[0].Who, "olga")
	require.Equal(t, id, refused[0].Operation)
}

// The form shows what the route has answered last, without what it said, and takes headers.
//
// CONTRACT R-3, S-1
func TestSettleWithHeaders(t *testing.T) {
	d := newDesk(t)
	require.NotContains(t, d.get("/idem/operations/"+d.unknown("payout-6", customer).String()+"/settle").text, "has answered last")
	d.command("/v1/payouts", "payout-1", `{}`, customer, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.Header().Set("Location", "/v1/payouts/secret-1")
		w.WriteHeader(http.StatusAccepted)
		_, _ = w.Write([]byte(`{"id":"secret-2","amount":12.50,"paid":true,"note":null,"lines":[{"a":"secret-3"},{"b":[]}],"deep":{"x":[1,2]}}`))
	})
	id := d.unknown("payout-7", customer)
	p := d.get("/idem/operations/" + id.String() + "/settle")
	require.NotContains(t, p.html, "secret")
	require.Contains(t, p.text, "What this route has answered last: 202 Accepted")
	require.Contains(t, p.text, "Location …")
	require.Contains(t, p.text, `{ "id": "…", "amount": 0, "paid": false, "note": null, "lines": [ { "a": "…" } ], "deep": { "x": [ 0 ] } }`)
	require.Contains(t, p.text, "books no row")
	bob := customer
	bob.Subject = "bob" // the names may be accounts: those of another caller are not his
	foreign := d.get("/idem/operations/" + d.unknown("payout-8", bob).String() + "/settle")
	require.Contains(t, foreign.text, "What this route has answered last: 202 Accepted")
	for _, name := range []string{"amount", "lines", "deep"} {
		require.NotContains(t, foreign.html, `"`+name)
		require.NotContains(t, foreign.html, `&#34;`+name)
	}

	form := d.form(id, "applied", "seen at the bank")
	form.Set("headers", "Location: /v1/payouts/7")
	require.Contains(t, d.settle(id, form).text, "needs a body")
	form.Set("body", `{"id": "out-7"}`)
	for _, wrong := range []string{"Location", "Location: /1\nlocation: /2", ": x"} {
		form.Set("headers", wrong)
		p := d.settle(id, form)
		require.Contains(t, p.text, "each on its own line and once", wrong)
		require.Contains(t, p.html, "<title>Not settled")
	}
	form.Set("headers", "Set-Cookie: a=b")
	require.Contains(t, d.settle(id, form).text, "only headers that are recorded may be given")
	form = d.form(id, "applied", "seen at the bank")
	form.Set("headers", "location: /v1/payouts/7\r\nETag: \"7\"")
	form.Set("body", `{"id": "out-7"}`)
	require.Equal(t, http.StatusSeeOther, d.settle(id, form).Code)
	again := d.command("/v1/payouts", "payout-7", `{"amount":"1.00"}`, customer, ok)
	require.Equal(t, "/v1/payouts/7", again.Header.Get("Location"))
	require.Equal(t, `"7"`, again.Header.Get("Etag"))
}

// What was known before a settlement stays in the story, and attempts that were freed are counted.
func TestTimelineKeepsWhatWasKnown(t *testing.T) {
	d := newDesk(t)
	parked := d.unknown("payout-1", customer)
	r := httptest.NewRequest(http.MethodPost, "/v1/payouts", nil)
	r.Header.Set("Idempotency-Key", "payout-2")
	r, reply := d.module.Admit(r, "/v1/payouts", customer)
	require.Nil(t, reply)
	_, reply = d.module.Begin(r, "/v1/payouts", customer) // and the process is killed
	require.Nil(t, reply)
	killed := core.Scoping{}.RecordID(customer, "payout-2")
	d.advance(2 * store.DefaultDeadline)
	for id, want := range map[core.ID]string{parked: "The attempt ended without proof", killed: "The lease ran out"} {
		require.Contains(t, d.get("/idem/operations/"+id.String()).text, want)
		require.Equal(t, http.StatusSeeOther, d.settle(id, d.form(id, "applied", "seen")).Code)
		text := d.get("/idem/operations/" + id.String()).text
		require.Contains(t, text, want)
		require.Contains(t, text, "deadline passed")
		require.Less(t, strings.Index(text, want), strings.Index(text, "Settled as applied"))
	}
	for range 2 {
		d.command("/v1/payouts", "payout-3", `{}`, customer, func(w http.ResponseWriter, r *http.Request) {
			core.NotApplied(r.Context())
			w.WriteHeader(http.StatusPaymentRequired)
		})
	}
	freed := core.Scoping{}.RecordID(customer, "payout-3")
	text := d.get("/idem/operations/" + freed.String()).text
	require.Contains(t, text, "with fence 2. An attempt before it had ended, and the key was free again.")
	require.Contains(t, text, "Freed")
}

// Who has settled what, lately.
//
// CONTRACT S-5, X-7
func TestSettledLately(t *testing.T) {
	d := newDesk(t)
	require.Contains(t, d.get("/idem/history").text, "Nothing was settled")
	mine, hers := d.unknown("payout-1", customer), d.unknown("payout-2", customer)
	require.Equal(t, http.StatusSeeOther, d.settle(mine, d.form(mine, "applied", "line 1")).Code)
	require.Contains(t, d.get("/idem/history").text, "1 settlement,")
	d.caller = chief
	require.Equal(t, http.StatusSeeOther, d.settle(hers, d.form(hers, "not_applied", "line 2")).Code)
	d.caller = olga
	p := d.get("/idem/history")
	for _, want := range []string{"not applied", "line 1", "line 2", "chief", "olga", "2 settlements"} {
		require.Contains(t, p.text, want)
	}
	p = d.get("/idem/history?by=me")
	require.Contains(t, p.text, "line 1")
	require.NotContains(t, p.text, "line 2")
	d.caller = other
	require.NotContains(t, d.get("/idem/history").text, "line")
}

// The session has ended while the form was filled in: the answer is the form with all that was typed, and nothing is kept. Sent
// again it is checked anew. It shows nothing of the operation.
//
// CONTRACT X-7, S-5
func TestSessionEndsWhileTheFormIsFilledIn(t *testing.T) {
	d := newDesk(t)
	id := d.unknown("payout-7", customer)
	form := d.form(id, "applied", "seen at </textarea><script>alert(1)</script> the bank")
	form.Set("body", `{"id": "out-7"}`)
	form.Set("headers", "Location: /v1/payouts/7")
	d.caller = core.Principal{}
	p := d.settle(id, form)
	require.Equal(t, http.StatusUnauthorized, p.Code)
	require.Equal(t, "no-store", p.Header().Get("Cache-Control"))
	require.Contains(t, p.text, "Nothing was settled by this sending")
	require.Contains(t, p.html, `href="/login" target="_blank"`)
	require.NotContains(t, p.html, "<script>")
	require.NotContains(t, p.text, "payouts </span>")
	for _, name := range []string{"key", "fence", "who", "outcome"} {
		require.Equal(t, form.Get(name), p.hidden(t, name))
	}
	for _, name := range []string{"why", "body", "headers", "status", "confirm"} {
		require.Contains(t, p.text, form.Get(name))
		require.Contains(t, p.html, `<textarea name="`+name+`"`)
	}
	require.Equal(t, http.StatusForbidden, d.ask(http.MethodPost, "/idem/operations/"+id.String()+"/settle", form,
		"Sec-Fetch-Site", "cross-site").Code, "another site gets nothing back")
	large := d.ask(http.MethodPost, "/idem/operations/"+id.String()+"/settle", url.Values{"fence": {"1"}, "why": {strings.Repeat("x", 1<<20)}})
	require.Equal(t, http.StatusUnauthorized, large.Code)
	require.Less(t, large.Body.Len(), 1<<16)
	require.NotContains(t, d.ask(http.MethodPost, "/idem/find", url.Values{"key": {"secret-key"}}).html, "secret-key")
	require.Empty(t, d.store.Settlements(id))

	d.caller = chief // signs in in another tab, as somebody else
	p = d.settle(id, form)
	require.Equal(t, http.StatusConflict, p.Code)
	require.Contains(t, p.text, "opened under another login")
	require.Equal(t, chief.Name(), p.hidden(t, "who"))
	require.Contains(t, p.text, "out-7")
	require.Empty(t, d.store.Settlements(id))
	d.caller = olga
	require.Equal(t, http.StatusSeeOther, d.settle(id, form).Code)
	require.Len(t, d.store.Settlements(id), 1)
}

// Who lost the race gets back all that it has typed.
func TestLostRaceGivesTheFieldsBack(t *testing.T) {
	d := newDesk(t)
	id := d.unknown("payout-7", customer)
	mine := d.form(id, "applied", "seen at the bank")
	mine.Set("body", `{"id": "out-7"}`)
	mine.Set("headers", "Location: /v1/payouts/7")
	require.Equal(t, http.StatusSeeOther, d.settle(id, d.form(id, "not_applied", "by a colleague")).Code)
	p := d.settle(id, mine)
	require.Equal(t, http.StatusConflict, p.Code)
	for _, typed := range []string{"seen at the bank", `{"id": "out-7"}`, "Location: /v1/payouts/7"} {
		require.Contains(t, p.text, typed)
	}
	mine.Set("confirm", "applied") // and it has slipped
	p = d.settle(id, mine)
	require.Equal(t, http.StatusConflict, p.Code)
	require.Contains(t, p.text, "seen at the bank")
}

// A supervisor that looks at all tenants, and has no role of the route that settles, sees so before the form.
//
// CONTRACT O-3
func TestWhoMaySettleIsSaidBeforeTheForm(t *testing.T) {
	d := newDesk(t)
	id := d.unknown("payout-7", customer)
	module, err := core.New(core.Config{Store: d.store, Now: d.clock, Observer: core.ObserverFunc(func(context.Context, core.Event) {}),
		SupervisorRoles: []core.IssuerRole{{Issuer: chief.Issuer, Role: "supervisor"}}, Routes: core.Routes{
			"POST /v1/payouts": {Recovery: core.Park}, settleRoute: {Recovery: core.Park, Roles: []string{"operator"}}}})
	require.NoError(t, err)
	d.pages, err = inspect.New(inspect.Config{Module: module, Settle: settleRoute,
		Caller: func(*http.Request) (core.Principal, error) { return chief, nil }})
	require.NoError(t, err)
	require.Contains(t, d.get("/idem/").text, "read-only")
	require.NotContains(t, d.get("/idem/operations").html, id.String()+"/settle")
	require.NotContains(t, d.get("/idem/operations/"+id.String()).html, id.String()+"/settle")
	for method, status := range map[string]int{http.MethodGet: http.StatusForbidden, http.MethodPost: http.StatusForbidden} {
		p := d.ask(method, "/idem/operations/"+id.String()+"/settle", url.Values{"why": {"seen"}})
		require.Equal(t, status, p.Code)
		require.Contains(t, p.text, "one of the roles operator")
	}
}

// expired is an error as those of authctx.
type expired struct{ error }

func (expired) Reason() string { return "the token is expired" }

// Why a login was not accepted is an event with the page and the operation, and nothing of the token.
//
// CONTRACT O-7
func TestWhyNobodyIsSignedInIsTold(t *testing.T) {
	denied := map[string]error{"the token is expired": fmt.Errorf("session: %w", expired{errors.New("eyJ-secret")}),
		"no principal: *errors.errorString": errors.New("eyJ-secret"), "has no cookie": http.ErrNoCookie}
	for want, err := range denied {
		d := newDesk(t, func(c *inspect.Config) {
			c.Caller = func(*http.Request) (core.Principal, error) { return olga, err }
		})
		id := core.Scoping{}.RecordID(customer, "payout-7")
		d.settle(id, url.Values{"fence": {"1"}})
		told := d.kinds(core.EventRefused)
		require.Len(t, told, 1)
		require.Equal(t, "POST /idem/operations/{id}/settle "+id.String(), told[0].Method+" "+told[0].Route+" "+told[0].Operation.String())
		require.ErrorContains(t, told[0].Err, want)
		require.NotContains(t, told[0].Err.Error(), "secret")
	}
}

// halfDone makes a refund whose provider was away.
func (d *desk) halfDone() (id core.ID, path string) {
	d.command("/v1/refunds", "refund-1", `{}`, customer, func(w http.ResponseWriter, r *http.Request) {
		_ = core.CallDo(r.Context(), "refund", func(context.Context, core.DerivedKey) error { return errAway }, core.Dedup(time.Hour))
		failing(w, r)
	})
	id = core.Scoping{}.RecordID(customer, "refund-1")
	return id, "/idem/operations/" + id.String()
}

// What an operator has sent may have been done, although its confirmation was lost. The page does not say that it was not.
//
// CONTRACT R-2
func TestPushWhoseConfirmationIsLost(t *testing.T) {
	d := newDesk(t)
	id, path := d.halfDone()
	d.advance(time.Hour)
	p := d.get(path + "/push")
	form := url.Values{"key": {p.hidden(t, "key")}, "fence": {p.hidden(t, "fence")}, "who": {p.hidden(t, "who")},
		"outcome": {"give_up"}, "why": {"the provider has closed"}}
	d.shaky.loses.Store(true)
	p = d.ask(http.MethodPost, path+"/push", form)
	require.Equal(t, http.StatusServiceUnavailable, p.Code)
	require.Contains(t, p.text, "not known yet")
	require.NotContains(t, strings.ToLower(p.text), "nothing was changed")
	d.shaky.away.Store(false)
	p = d.ask(http.MethodPost, path+"/push", form)
	require.Equal(t, http.StatusConflict, p.Code, "it was given up")
	require.NotContains(t, p.text, "not kept")
	require.Len(t, d.store.Settlements(id), 1)
}

// A half-done operation is tried again, and then given up, with a form of its own. Both are rows of the history, with words of
// their own.
//
// CONTRACT X-10
func TestPush(t *testing.T) {
	d := newDesk(t)
	id, path := d.halfDone()
	require.Equal(t, http.StatusConflict, d.get(path+"/push").Code, "it is not past its deadline")
	d.advance(time.Hour)
	require.Contains(t, d.get(path).html, path+"/push")
	form := func(outcome, why string) url.Values {
		p := d.get(path + "/push")
		require.Equal(t, http.StatusOK, p.Code, p.text)
		return url.Values{"key": {p.hidden(t, "key")}, "fence": {p.hidden(t, "fence")}, "who": {p.hidden(t, "who")},
			"outcome": {outcome}, "why": {why}}
	}
	send := func(f url.Values) page { return d.ask(http.MethodPost, path+"/push", f) }
	require.Equal(t, http.StatusBadRequest, send(form("retry", " ")).Code)
	require.Equal(t, http.StatusBadRequest, send(form("", "r")).Code)
	old := form("give_up", "the same, by a colleague")
	again := form("retry", "the provider is back")
	for range 2 {
		require.Equal(t, http.StatusSeeOther, send(again).Code, "sent twice, it is done once")
	}
	d.caller = core.Principal{}
	lost := send(old)
	require.Equal(t, http.StatusUnauthorized, lost.Code)
	require.Contains(t, lost.text, "give up now")
	require.Contains(t, lost.text, "by a colleague")
	d.caller = chief
	require.Contains(t, send(old).text, "opened under another login")
	d.caller = olga
	require.Equal(t, http.StatusSeeOther, send(form("give_up", "the provider has closed")).Code)
	require.Equal(t, http.StatusConflict, send(old).Code)
	require.Equal(t, http.StatusConflict, d.get(path+"/push").Code)
	text := d.get(path).text
	for _, want := range []string{"Tried again by an operator's word", "the provider is back", "Given up by an operator",
		"the provider has closed", "Settle this operation"} {
		require.Contains(t, text, want)
	}
	require.Contains(t, d.get("/idem/history").text, "tried again")
	require.Equal(t, http.StatusSeeOther, d.settle(id, d.form(id, "not_applied", "it was never made")).Code)
	require.Len(t, d.store.Settlements(id), 3)
}
