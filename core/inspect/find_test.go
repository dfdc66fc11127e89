package inspect_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
)

// look sends the first form of the page Find.
func (d *desk) look(text, call string) page {
	d.t.Helper()
	return d.ask(http.MethodPost, "/idem/find", url.Values{"id": {text}, "call": {call}})
}

// charged is a handler that calls a provider, attaches what it was told, and breaks down.
func charged(reference string, key *core.DerivedKey) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		*key, _ = core.DeriveCall(r.Context(), "payout")
		_ = core.Reference(r.Context(), "charge", reference)
		_ = core.Reference(r.Context(), "amount", "77.10")
		failing(w, r)
	}
}

// Whatever a person has of an operation leads to its page; and where nothing is found, the page says what was understood.
//
// CONTRACT S-5, K-6
func TestFindByWhatAPersonKnows(t *testing.T) {
	d := newDesk(t)
	var key core.DerivedKey
	d.command("/v1/payouts", "k-1", `{}`, customer, charged("ch_7", &key))
	d.advance(2 * store.DefaultDeadline)
	id := core.Scoping{}.RecordID(customer, "k-1")
	text := id.String()
	for _, known := range []string{text, strings.ToUpper(text), " " + text + " ", text[:8], text[:11], text[:63], text[:8] + "…" + text[56:],
		text[:8] + "..." + text[60:], "ch_7", "77.10", key.String(), key.UUID(), strings.ToUpper(key.UUID())} {
		p := d.look(known, "")
		require.Equal(t, http.StatusSeeOther, p.Code, "%s: %s", known, p.text)
		require.Equal(t, "/idem/operations/"+text, p.Header().Get("Location"))
	}
	require.Equal(t, http.StatusSeeOther, d.look(key.String(), "payout").Code)

	for known, says := range map[string]string{
		"":                        "Type what you have",
		strings.Repeat("7", 300):  "too long",
		text[:7]:                  "taken for a reference. No operation",
		"ch_8":                    "taken for a reference. No operation",
		"zz" + text[2:]:           "taken for a reference. No operation",
		"0000" + text[4:20]:       "taken for the beginning of an id, for a reference. No operation",
		text[:8] + "…" + "000000": "taken for the beginning of an id, for a reference.",
		"0000" + text[4:]:         "taken for the id of an operation, for a provider's key of an open operation, for a reference.",
	} {
		p := d.look(known, "")
		require.GreaterOrEqual(t, p.Code, 400, known)
		require.Contains(t, p.text, says, known)
		require.Contains(t, p.html, `aria-invalid="true"`)
	}
	require.Contains(t, d.look(key.String(), "refund").text, "the calls named refund")
	require.Contains(t, d.look(text[:60]+"0000", "").text, "the calls named payout")
	require.Contains(t, d.look("ch_8", "").html, "<title>Not found")

	d.caller = other // of another tenant
	for _, known := range []string{text, text[:8], "ch_7", key.String()} {
		require.Equal(t, http.StatusNotFound, d.look(known, "payout").Code, known)
	}
	d.caller = chief
	require.Equal(t, http.StatusSeeOther, d.look("ch_7", "").Code)
}

// Before any handler of this process has made a call, the name is asked for.
func TestFindByAProvidersKeyAfterARestart(t *testing.T) {
	d := newDesk(t)
	id := d.unknown("k-1", customer)
	key := id.DeriveCall("payout")
	require.Contains(t, d.look(key.UUID(), "").text, "No name of a call is known here")
	require.Equal(t, http.StatusSeeOther, d.look(key.UUID(), "payout").Code)

	// A step is known by its record.
	d.command("/v1/refunds", "k-2", `{}`, customer, func(w http.ResponseWriter, r *http.Request) {
		_ = core.CallDo(r.Context(), "refund", func(context.Context, core.DerivedKey) error { return errAway })
		failing(w, r)
	})
	resume := core.Scoping{}.RecordID(customer, "k-2")
	for _, key := range []core.DerivedKey{resume.DeriveStep("refund"), resume.DeriveStep("refund").DeriveCall("pay")} {
		p := d.look(key.String(), "pay")
		require.Equal(t, "/idem/operations/"+resume.String(), p.Header().Get("Location"), p.text)
	}
}

// Several operations may have one amount. They are listed, with what tells them apart.
func TestFindSeveral(t *testing.T) {
	d := newDesk(t)
	var key core.DerivedKey
	for i := range 3 {
		d.command("/v1/payouts", fmt.Sprint("k-", i), `{}`, customer, charged(fmt.Sprint("ch_", i), &key))
		d.advance(time.Minute)
	}
	p := d.look("77.10", "")
	require.Equal(t, http.StatusOK, p.Code)
	require.Contains(t, p.text, "Several operations have this")
	for i := range 3 {
		require.Contains(t, p.text, fmt.Sprint("ch_", i))
		require.Contains(t, p.html, core.Scoping{}.RecordID(customer, fmt.Sprint("k-", i)).String())
	}
}

// A support call begins with a name and a time. The name is in no address.
//
// CONTRACT K-6
func TestFindByCallerAndTime(t *testing.T) {
	d := newDesk(t)
	bob := customer
	bob.Subject = "bob"
	of := d.unknown("k-1", customer)
	d.unknown("k-2", bob)
	ask := func(form url.Values) page {
		form.Set("issuer", customer.Issuer)
		form.Set("tenant", customer.Tenant)
		return d.ask(http.MethodPost, "/idem/find", form)
	}
	p := ask(url.Values{"subject": {" alice "}, "from": {"2026-11-22T11:55"}, "until": {"2026-11-22T12:05"}})
	require.Equal(t, http.StatusSeeOther, p.Code, p.text)
	require.NotContains(t, p.Header().Get("Location"), "alice")
	list := d.get(p.Header().Get("Location"))
	require.Equal(t, http.StatusOK, list.Code, list.text)
	require.Contains(t, list.html, of.String())
	require.Equal(t, 1, strings.Count(list.html, "<tr>")-1)
	require.Contains(t, list.text, "1 operation,")
	require.Contains(t, list.html, `name="caller"`, "the next filter keeps the caller")
	scope := core.Scoping{}.PrincipalScope(customer)
	require.Contains(t, list.html, fmt.Sprintf("/idem/operations?caller=%x", scope))

	require.Equal(t, http.StatusSeeOther, ask(url.Values{"subject": {"alice"}, "state": {"unknown"}}).Code)

	wrong := func(form url.Values, status int, field, says string) {
		t.Helper()
		p := ask(form)
		require.Equal(t, status, p.Code)
		require.Contains(t, p.text, says)
		require.Regexp(t, `name="`+field+`"[^>]* aria-describedby="[^"]*problem" aria-invalid="true"`, p.html)
		require.Equal(t, 1, strings.Count(p.html, "aria-invalid"))
	}
	wrong(url.Values{"subject": {""}}, http.StatusBadRequest, "subject", "No operation can have such a caller")
	wrong(url.Values{"subject": {"alice"}, "from": {"yesterday"}}, http.StatusBadRequest, "from", "A time is written as")
	wrong(url.Values{"subject": {"alice"}, "state": {"half_done"}}, http.StatusNotFound, "subject", `This was taken for the caller `+
		`issuer="https://issuer.example" tenant="shop-1" subject="alice". No operation of it that you may look at needs somebody`)
	wrong(url.Values{"subject": {"alice"}, "key": {"\x01"}}, http.StatusBadRequest, "key", "The key is not valid")
	require.Equal(t, http.StatusBadRequest, d.get("/idem/operations?caller=alice").Code)
}

// Oldest or newest first, with a total.
func TestListOrderAndTotal(t *testing.T) {
	d := newDesk(t)
	var ids []string
	for i := range 60 {
		ids = append(ids, d.unknown(fmt.Sprint("k-", i), customer).String())
	}
	for order, first := range map[string]string{"": ids[0], "?order=newest": ids[59]} {
		p := d.get("/idem/operations" + order)
		require.Contains(t, p.text, "60 operations,")
		require.Contains(t, p.text, "50 on this page")
		require.Less(t, strings.Index(p.html, first), strings.Index(p.html, ids[30]))
		_, next, _ := strings.Cut(p.html, `rel="next" href="`)
		next, _, _ = strings.Cut(next, `"`)
		p = d.get(strings.ReplaceAll(next, "&amp;", "&"))
		require.Contains(t, p.text, "10 on this page")
		require.NotContains(t, p.html, first)
	}
}

// What a page cannot show is told to the observer, and the page has a way out.
func TestPagesTellOfTheirErrors(t *testing.T) {
	d := newDesk(t)
	id := d.unknown("k-1", customer)
	d.shaky.away.Store(true)
	p := d.get("/idem/operations/" + id.String())
	require.Equal(t, http.StatusServiceUnavailable, p.Code)
	require.Contains(t, p.html, `href="/idem/operations/`+id.String()+`">Try again`)
	require.Contains(t, p.html, `href="/idem/"`)
	failed := d.kinds(core.EventFailed)
	require.Len(t, failed, 1)
	require.ErrorIs(t, failed[0].Err, errAway)
	require.Contains(t, failed[0].Err.Error(), "/idem/operations/"+id.String())
	require.Contains(t, failed[0].Who, "olga")
}

// No field of a search costs more than a name can: a long one is refused before anything is looked for.
//
// CONTRACT S-5
func TestFieldsThatAreTooLong(t *testing.T) {
	d := newDesk(t)
	id := d.unknown("k-1", customer)
	long := strings.Repeat("x", 60_000)
	p := d.look(id.DeriveCall("payout").String(), long[:256])
	require.Equal(t, http.StatusBadRequest, p.Code)
	require.Contains(t, p.text, "at most 255 bytes")
	for _, form := range []url.Values{
		{"id": {long}}, {"id": {id.DeriveCall("payout").String()}, "call": {long}}, {"subject": {long}}, {"subject": {"s"}, "issuer": {long}}, {"subject": {"s"}, "tenant": {long}},
		{"subject": {"s"}, "client": {long}}, {"subject": {"s"}, "route": {"POST " + long}}, {"subject": {"s"}, "from": {long}},
		{"key": {long}, "issuer": {"i"}, "subject": {"s"}}, {"key": {"k"}, "issuer": {long}, "subject": {"s"}},
	} {
		p := d.ask(http.MethodPost, "/idem/find", form)
		require.Equal(t, http.StatusBadRequest, p.Code, p.text)
		require.NotContains(t, p.html, long)
	}
	for _, field := range []string{"state", "route", "from", "until", "caller", "order", "after"} {
		p := d.get("/idem/operations?" + url.Values{field: {long}}.Encode())
		require.Equal(t, http.StatusBadRequest, p.Code, field)
		require.NotContains(t, p.html, long)
	}
	for _, field := range []string{"call", "inside"} {
		p := d.get("/idem/operations/" + id.String() + "?" + url.Values{"call": {"payout"}, field: {long}}.Encode())
		require.Equal(t, http.StatusBadRequest, p.Code, field)
		require.NotContains(t, p.html, long)
	}
}
