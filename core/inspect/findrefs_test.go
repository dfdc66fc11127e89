package inspect_test

import (
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

// referring is a handler that attaches references, in pairs of name and value, and answers.
func referring(status int, refs ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for i := 0; i < len(refs); i += 2 {
			_ = core.Reference(r.Context(), refs[i], refs[i+1])
		}
		w.WriteHeader(status)
	}
}

func (d *desk) lookByReferences(form url.Values) page {
	d.t.Helper()
	if !form.Has("value") {
		form.Set("value", "seller-1")
	}
	return d.ask(http.MethodPost, "/idem/find", form)
}

// next is the form of the next page, nil if there is none.
func (p page) next(t *testing.T) url.Values {
	t.Helper()
	before, _, found := strings.Cut(p.html, "<button>Next page")
	if !found {
		return nil
	}
	form := page{html: before[strings.LastIndex(before, "<form"):]}
	fields := url.Values{}
	for _, name := range []string{"name", "value", "name2", "value2", "state", "from", "until", "after"} {
		fields.Set(name, form.hidden(t, name))
	}
	return fields
}

// "seller-1, 77.10, yesterday at four": two references, a time and a state lead to the operation, also to one that is over, and
// nothing that was typed is in an address.
//
// CONTRACT S-5, K-6
func TestFindByTwoReferences(t *testing.T) {
	d := newDesk(t)
	id := func(key string) string { return core.Scoping{}.RecordID(customer, key).String() }
	d.command("/v1/payouts", "k-1", `{}`, customer, referring(http.StatusCreated, "seller", "seller-1", "amount", "77.10"))
	d.command("/v1/payouts", "k-2", `{}`, customer, referring(http.StatusCreated, "seller", "seller-1", "amount", "8.00"))
	d.advance(time.Hour)
	d.command("/v1/payouts", "k-3", `{}`, customer, referring(http.StatusInternalServerError, "seller", "seller-1", "amount", "77.10"))
	d.command("/v1/payouts", "k-4", `{}`, customer, referring(http.StatusCreated, "seller", "seller-1", "fee", "77.10"))
	d.advance(2 * store.DefaultDeadline)
	for _, name := range []string{"seller", "amount", "fee"} {
		require.Contains(t, d.get("/idem/find").html, `<option value="`+name+`">`, "the names that this process knows")
	}

	requireFound := func(form url.Values, keys ...string) {
		t.Helper()
		p := d.lookByReferences(form)
		if len(keys) == 1 {
			require.Equal(t, http.StatusSeeOther, p.Code, p.text)
			require.Equal(t, "/idem/operations/"+id(keys[0]), p.Header().Get("Location"))
			return
		}
		require.Equal(t, http.StatusOK, p.Code, p.text)
		require.Equal(t, len(keys), strings.Count(p.html, "<tr>")-1)
		for _, key := range keys {
			require.Contains(t, p.html, "/idem/operations/"+id(key)+`"`)
		}
		require.NotContains(t, p.html, "seller-1&amp;")
	}
	requireFound(url.Values{}, "k-1", "k-2", "k-3", "k-4")
	requireFound(url.Values{"value2": {"77.10"}}, "k-1", "k-3", "k-4")
	requireFound(url.Values{"value2": {" 77.10 "}, "name2": {"amount"}}, "k-1", "k-3")
	requireFound(url.Values{"value2": {"77.10"}, "name2": {"fee"}}, "k-4")
	requireFound(url.Values{"value": {"77.10"}, "name": {"amount"}, "value2": {"seller-1"}, "until": {"2026-11-22T12:30"}}, "k-1")
	requireFound(url.Values{"value2": {"77.10"}, "from": {"2026-11-22T12:30"}}, "k-3", "k-4")
	requireFound(url.Values{"value2": {"77.10"}, "state": {"completed"}}, "k-1", "k-4")
	requireFound(url.Values{"value2": {"77.10"}, "state": {"unknown"}}, "k-3")
	p := d.lookByReferences(url.Values{"value2": {"77.10"}})
	require.Contains(t, p.text, "Operations with seller-1 and 77.10, the last ones first")

	form := d.get("/idem/find")
	for _, name := range []string{"amount", "fee", "seller"} {
		require.Contains(t, form.html, fmt.Sprintf("<option value=%q></option>", name), "the form offers what it knows")
	}

	wrong := func(form url.Values, status int, field, says string) {
		t.Helper()
		p := d.lookByReferences(form)
		require.Equal(t, status, p.Code, p.text)
		require.Contains(t, p.text, says)
		require.Regexp(t, `name="`+field+`"[^>]*aria-invalid="true"`, p.html)
		require.Equal(t, 1, strings.Count(p.html, "aria-invalid"))
	}
	wrong(url.Values{"value": {" "}}, http.StatusBadRequest, "value", "Type the value")
	wrong(url.Values{"value": {"a\x00"}}, http.StatusBadRequest, "value", "No operation can have this")
	wrong(url.Values{"name2": {strings.Repeat("n", 65)}, "value2": {"7"}}, http.StatusBadRequest, "value", "No operation can have this")
	wrong(url.Values{"from": {"2026-11-22T12:30"}, "until": {"2026-11-22T12:00"}}, http.StatusBadRequest, "until", "not after the first")
	wrong(url.Values{"state": {"late"}}, http.StatusBadRequest, "state", "There is no such state")
	wrong(url.Values{"after": {"7"}}, http.StatusBadRequest, "value", "a place in the list that nobody can read")
	wrong(url.Values{"value2": {"9.99"}}, http.StatusNotFound, "value", "No operation that you may look at has seller-1 and 9.99")
	wrong(url.Values{"state": {"half_done"}}, http.StatusNotFound, "value", "as far as state and times go")

	d.caller = other
	require.Equal(t, http.StatusNotFound, d.lookByReferences(url.Values{}).Code, "of another tenant")
	d.caller = chief
	requireFound(url.Values{"value2": {"77.10"}, "name2": {"fee"}}, "k-4")
}

// What was found beyond the last fifty is on further pages: none is left out, none comes twice.
func TestPagesOfReferences(t *testing.T) {
	d := newDesk(t)
	for i := range 120 {
		status := http.StatusCreated
		if i%2 == 0 {
			status = http.StatusInternalServerError
		}
		d.command("/v1/payouts", fmt.Sprint("k-", i), `{}`, customer, referring(status, "seller", "seller-1", "amount", fmt.Sprint(i%2)))
		d.advance(time.Second)
	}
	d.advance(2 * store.DefaultDeadline)
	for state, want := range map[string]int{"": 120, "completed": 60, "unknown": 60} {
		seen := map[string]bool{}
		form := url.Values{"state": {state}}
		pages := 0
		for ; form != nil; pages++ {
			p := d.lookByReferences(form)
			require.Equal(t, http.StatusOK, p.Code, p.text)
			for _, cell := range strings.Split(p.html, `<a class="id" href="`)[1:] {
				href, _, _ := strings.Cut(cell, `"`)
				require.False(t, seen[href], "no page repeats an operation")
				seen[href] = true
			}
			require.Equal(t, pages > 0, strings.Contains(p.text, "First page"))
			form = p.next(t)
		}
		require.Len(t, seen, want, state)
		require.Equal(t, (want+49)/50, pages, state)
	}
	p := d.look("seller-1", "")
	require.Contains(t, p.text, "50 operations on this page")
	require.NotNil(t, p.next(t), "also from the form that takes any text")
}

// A route that does not exist is told as that.
func TestFindByCallerAndARouteThatIsNot(t *testing.T) {
	d := newDesk(t)
	d.unknown("k-1", customer)
	p := d.ask(http.MethodPost, "/idem/find", url.Values{"issuer": {customer.Issuer}, "tenant": {customer.Tenant}, "subject": {"alice"},
		"route": {"POST /v1/payout"}})
	require.Equal(t, http.StatusNotFound, p.Code)
	require.Contains(t, p.text, "This release has no route POST /v1/payout")
	require.Regexp(t, `name="route"[^>]*aria-invalid="true"`, p.html)
}
