package inspect_test

import (
	"encoding/hex"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/inspect"
	"github.com/auth19/idem/core/store"
)

// erasure opens the form that erases a principal, and fills it in.
func (d *desk) erasure(p core.Principal) url.Values {
	d.t.Helper()
	opened := d.get("/idem/erase")
	require.Equal(d.t, http.StatusOK, opened.Code, opened.text)
	return url.Values{"key": {opened.hidden(d.t, "key")}, "who": {opened.hidden(d.t, "who")}, "issuer": {p.Issuer}, "tenant": {p.Tenant},
		"client": {p.Client}, "subject": {p.Subject}, "why": {"request 7"}, "confirm": {"erase"}}
}

// An operator erases on a page. It says what was erased and what is still open. Where nothing was found, it says so, with the first
// digits of the scope's hash, and shows what was typed: the recorded answer does not have it. A form that is sent twice erases once.
//
// CONTRACT S-5, M-5
func TestErase(t *testing.T) {
	d := newDesk(t)
	require.Contains(t, d.get("/idem/").html, `href="/idem/erase"`)
	open := d.unknown("payout-1", customer)
	d.command("/v1/payouts", "payout-2", `{}`, customer, ok)

	anonymous := customer
	anonymous.Subject = "al<ice"
	for range 2 {
		form := d.erasure(anonymous)
		for range 2 {
			p := d.ask(http.MethodPost, "/idem/erase", form)
			require.Equal(t, http.StatusOK, p.Code, p.text)
			require.Contains(t, p.text, "Nothing was erased: nothing was found under this principal")
			scope := core.Scoping{}.PrincipalScope(anonymous)
			require.Contains(t, p.text, "its scope begins with "+hex.EncodeToString(scope[:4]))
			for _, typed := range []string{anonymous.Subject, anonymous.Tenant, anonymous.Issuer, "request 7"} {
				require.Contains(t, p.text, typed)
			}
		}
		answer, err := d.store.Find(t.Context(), core.Scoping{}.RecordID(olga, form.Get("key")), store.Viewer{All: true})
		require.NoError(t, err)
		require.NotContains(t, string(answer.Answer.Body), anonymous.Subject)
		anonymous.Subject = "bob" // with a form of its own
	}

	form := d.erasure(customer)
	p := d.ask(http.MethodPost, "/idem/erase", form)
	require.Contains(t, p.text, "The records of 1 operation were erased")
	require.Contains(t, p.html, `href="/idem/operations/`+open.String()+`"`)
	form.Set("subject", "bob")
	p = d.ask(http.MethodPost, "/idem/erase", form) // the same form cannot be another erasure
	require.Equal(t, http.StatusConflict, p.Code, p.text)
	require.NotContains(t, p.text, "were erased")
	require.NotEqual(t, form.Get("key"), p.hidden(t, "key"), "the corrected form is a command of its own")

	for name, wrong := range map[string]string{"confirm": "yes", "why": " ", "subject": "", "tenant": "shop-2", "client": "app"} {
		before := len(d.kinds(core.EventErasing))
		form := d.erasure(customer)
		form.Set(name, wrong)
		p := d.ask(http.MethodPost, "/idem/erase", form)
		require.GreaterOrEqual(t, p.Code, http.StatusBadRequest, name)
		require.Contains(t, p.html, `role="alert"`)
		require.Contains(t, p.html, `value="`+form.Get("issuer")+`"`, "what was typed is given back")
		require.Len(t, d.kinds(core.EventErasing), before, name)
	}
}

// Who may not erase is told so before the form.
//
// CONTRACT O-3
func TestWhoMayErase(t *testing.T) {
	d := newDesk(t, func(cfg *inspect.Config) { cfg.Erase = restorerRoute })
	require.NotContains(t, d.get("/idem/").html, "/idem/erase")
	require.Contains(t, d.get("/idem/erase").text, "the login needs one of the roles restorer. Nothing was erased")
	d = newDesk(t, func(cfg *inspect.Config) { cfg.Erase = "" })
	require.NotContains(t, d.get("/idem/").html, "/idem/erase")
	require.Contains(t, d.get("/idem/erase").text, "These pages only read")
	p := d.ask(http.MethodPost, "/idem/erase", url.Values{"key": {"k"}, "who": {olga.Name()}, "why": {"why-1"}, "confirm": {"erase"}})
	require.Equal(t, http.StatusForbidden, p.Code)
	require.Empty(t, d.kinds(core.EventErasing))
}
