package inspect_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
)

var oscar = core.Principal{Issuer: olga.Issuer, Tenant: olga.Tenant, Subject: "oscar", Roles: []string{"operator"}}

// wire makes an unknown wire, whose settlement takes two.
func (d *desk) wire(key string) core.ID {
	d.t.Helper()
	d.command("/v1/wires", key, `{"amount":"1.00"}`, customer, failing)
	d.advance(2 * store.DefaultDeadline)
	return core.Scoping{}.RecordID(customer, key)
}

// proposes fills in the form that proposes a settlement, and sends it.
func (d *desk) proposes(id core.ID, why string) page {
	d.t.Helper()
	form := d.form(id, "applied", why)
	form.Set("status", "202")
	form.Set("headers", "Location: /w/7")
	form.Set("body", `{"id": "w-7"}`)
	form.Set("act", "propose")
	return d.settle(id, form)
}

// ending opens the page of a proposal, and fills in what ends it.
func (d *desk) ending(id core.ID, what, why string) url.Values {
	d.t.Helper()
	p := d.get("/idem/operations/" + id.String() + "/proposal")
	require.Equal(d.t, http.StatusOK, p.Code, p.text)
	return url.Values{"key": {p.hidden(d.t, "key")}, "fence": {p.hidden(d.t, "fence")}, "who": {p.hidden(d.t, "who")},
		"digest": {p.hidden(d.t, "digest")}, "outcome": {what}, "why": {why}, "confirm": {"applied " + id.String()[56:]}}
}

func (d *desk) end(id core.ID, form url.Values) page {
	d.t.Helper()
	return d.ask(http.MethodPost, "/idem/operations/"+id.String()+"/proposal", form)
}

// One operator proposes, another one sees who, when, why and what, and carries it out. The list and the life say so.
//
// CONTRACT X-7, S-5
func TestProposals(t *testing.T) {
	d := newDesk(t)
	id := d.wire("wire-7")
	at := "/idem/operations/" + id.String()
	p := d.get(at + "/settle")
	require.Contains(t, p.text, "Settlements of this route take two")
	require.Equal(t, "propose", p.hidden(t, "act"))
	require.Contains(t, p.html, "<button>Propose it</button>")
	require.NotContains(t, p.html, "Settle for good")
	require.NotContains(t, d.get(at).text, "proposed")
	p = d.proposes(id, "charge <b>ch_1</b>")
	require.Equal(t, http.StatusSeeOther, p.Code, p.text)
	require.Equal(t, at, p.Header().Get("Location"))

	life := d.get(at)
	require.Contains(t, life.text, "A settlement is proposed.")
	require.Contains(t, life.text, "A settlement was proposed It waits for another operator")
	require.Contains(t, life.html, "charge &lt;b&gt;ch_1&lt;/b&gt;")
	require.NotContains(t, life.text, "w-7", "the answer is for who carries it out")
	require.Contains(t, d.get("/idem/operations").html, at+"/proposal")
	require.Equal(t, at+"/proposal", d.get(at+"/settle").Header().Get("Location"))
	p = d.get(at + "/proposal")
	require.Contains(t, p.text, "You have proposed it: another operator has to carry it out.")
	require.NotContains(t, p.html, `value="carry_out"`)
	mine := d.ending(id, "carry_out", "I say so twice")
	p = d.end(id, mine)
	require.Equal(t, http.StatusConflict, p.Code)
	require.Contains(t, p.text, "the same principal has proposed it")
	require.Empty(t, d.store.Settlements(id))
	require.Equal(t, http.StatusConflict, d.command("/v1/wires", "wire-7", `{"amount":"1.00"}`, customer, ok).Status)

	d.caller = oscar
	p = d.get(at + "/proposal")
	for _, want := range []string{`subject="olga"`, "charge <b>ch_1</b>", "Settle as applied", "202 Accepted", "/w/7", `{"id":"w-7"}`} {
		require.Contains(t, p.text, want)
	}
	for what, change := range map[string]func(url.Values){
		"Choose what":                    func(f url.Values) { f.Del("outcome") },
		"The form is not whole":          func(f url.Values) { f.Del("fence") },
		"Say why":                        func(f url.Values) { f.Set("why", " ") },
		"type exactly: applied":          func(f url.Values) { f.Set("confirm", "not applied "+id.String()[56:]) },
		"the form was opened under":      func(f url.Values) { f.Set("who", olga.Name()) },
		"this is another proposal than":  func(f url.Values) { f.Set("digest", strings.Repeat("0", 64)) },
		"has come since the fence that ": func(f url.Values) { f.Set("fence", "9") },
	} {
		form := d.ending(id, "carry_out", "I see it, too")
		change(form)
		p = d.end(id, form)
		require.GreaterOrEqual(t, p.Code, http.StatusBadRequest, what)
		require.Contains(t, p.text, what)
		if form.Get("why") != " " {
			require.Contains(t, p.text, "I see it, too", "it stays")
		}
		require.Empty(t, d.store.Settlements(id))
	}
	form := d.ending(id, "carry_out", "I see it, too")
	for range 2 {
		require.Equal(t, http.StatusSeeOther, d.end(id, form).Code, "sent twice, it is carried out once")
	}
	require.Len(t, d.store.Settlements(id), 1)
	answer := d.command("/v1/wires", "wire-7", `{"amount":"1.00"}`, customer, ok)
	require.Equal(t, http.StatusAccepted, answer.Status)
	require.JSONEq(t, `{"id":"w-7"}`, string(answer.Body))
	life = d.get(at)
	require.Contains(t, life.text, "A settlement was proposed Another operator has carried it out.")
	require.Contains(t, life.text, "Settled as applied")
	require.Equal(t, http.StatusConflict, d.get(at+"/proposal").Code)
	d.advance(store.DefaultRetention)
	require.NotContains(t, d.get(at).text, "ch_1", "its text goes with the answer, swept or not")
}

// What is withdrawn says by whom and why. A form that was quicker wins, and the other one gets its text back.
//
// CONTRACT X-7
func TestAProposalThatIsWithdrawn(t *testing.T) {
	d := newDesk(t)
	id := d.unknown("payout-7", customer) // a route that one may settle can be proposed to be settled, too
	require.Contains(t, d.get("/idem/operations/"+id.String()+"/settle").html, "Propose it only")
	require.Equal(t, http.StatusSeeOther, d.proposes(id, "charge ch_1").Code)
	d.caller = oscar
	late := d.ending(id, "carry_out", "I see it, too")
	form := d.ending(id, "withdraw", "it is another customer's")
	form.Del("confirm")
	require.Equal(t, http.StatusSeeOther, d.end(id, form).Code)
	life := d.get("/idem/operations/" + id.String())
	require.Contains(t, life.text, "The proposal was withdrawn")
	require.Contains(t, life.text, "it is another customer's")
	require.Contains(t, life.text, "Settle this operation")
	require.Contains(t, d.get("/idem/operations").text, "Proposal withdrawn: “it is another customer's”")
	p := d.end(id, late)
	require.Equal(t, http.StatusConflict, p.Code)
	require.Contains(t, p.text, "There is no open proposal")
	require.Contains(t, p.text, "I see it, too")
	require.Empty(t, d.store.Settlements(id))
	require.Len(t, d.kinds(core.EventWithdrawn), 1)
}

// A session that ends keeps what was typed; who lacks the role, or is of another tenant, sees nothing; a lost answer is
// found.
//
// CONTRACT X-7, S-5, O-3
func TestProposalsAndLogins(t *testing.T) {
	d := newDesk(t)
	id := d.wire("wire-7")
	at := "/idem/operations/" + id.String() + "/proposal"
	require.Equal(t, http.StatusConflict, d.get(at).Code, "there is none")
	require.Equal(t, http.StatusSeeOther, d.proposes(id, "charge ch_1").Code)
	d.caller = oscar
	form := d.ending(id, "carry_out", "I see it, too")
	d.caller = core.Principal{}
	p := d.end(id, form)
	require.Equal(t, http.StatusUnauthorized, p.Code)
	for name := range form {
		require.Contains(t, p.html, `name="`+name+`"`)
	}
	require.Contains(t, p.text, "carry the proposal out")
	d.caller = other
	require.Equal(t, http.StatusNotFound, d.get(at).Code)
	require.Equal(t, http.StatusNotFound, d.end(id, form).Code)
	d.caller = customer
	require.Equal(t, http.StatusForbidden, d.get(at).Code)
	d.caller = oscar
	p = d.ask(http.MethodPost, at, form, "Sec-Fetch-Site", "cross-site")
	require.Equal(t, http.StatusForbidden, p.Code)
	require.Empty(t, d.store.Settlements(id))

	d.shaky.loses.Store(true)
	p = d.end(id, form)
	require.Equal(t, http.StatusServiceUnavailable, p.Code)
	d.shaky.loses.Store(false)
	d.shaky.away.Store(false)
	d.advance(2 * store.DefaultDeadline)
	require.Equal(t, http.StatusConflict, d.end(id, form).Code)
	require.Len(t, d.store.Settlements(id), 1)
	require.Contains(t, d.get("/idem/operations/"+id.String()).text, "Settled as applied")
}

// The second has read who, when and why. Another proposal is not carried out by the form of the first.
//
// CONTRACT X-7
func TestAnotherProposalOfTheSameAnswer(t *testing.T) {
	d := newDesk(t)
	id := d.wire("wire-7")
	require.Equal(t, http.StatusSeeOther, d.proposes(id, "charge ch_1, seen at the provider").Code)
	d.caller = oscar
	read := d.ending(id, "carry_out", "I see it, too")
	d.caller = olga
	withdraw := d.ending(id, "withdraw", "a mistake")
	withdraw.Del("confirm")
	require.Equal(t, http.StatusSeeOther, d.end(id, withdraw).Code)
	require.Equal(t, http.StatusSeeOther, d.proposes(id, "the customer wants it").Code)
	d.caller = oscar
	require.Equal(t, http.StatusConflict, d.end(id, read).Code, "oscar has read another proposal")
	require.Empty(t, d.store.Settlements(id))
}

// A form whose proposal was refused is not told as proposed because an older one has the same reason.
//
// CONTRACT X-7
func TestAnotherAnswerWithTheSameReason(t *testing.T) {
	d := newDesk(t)
	id := d.wire("wire-7")
	second := d.form(id, "applied", "charge ch_1")
	second.Set("status", "202")
	second.Set("body", `{"id": "another"}`)
	second.Set("act", "propose")
	require.Equal(t, http.StatusSeeOther, d.proposes(id, "charge ch_1").Code)
	require.Equal(t, http.StatusConflict, d.settle(id, second).Code, "it was not proposed")
}
