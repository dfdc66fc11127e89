package inspect_test

import (
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/inspect"
	"github.com/auth19/idem/core/store"
)

// restoreForm opens the page, and fills in one of its forms: keys or marks.
func (d *desk) restoreForm(name string, fields url.Values) url.Values {
	d.t.Helper()
	p := d.get("/idem/restore")
	require.Equal(d.t, http.StatusOK, p.Code, p.text)
	_, form, found := strings.Cut(p.html, `action="/idem/restore/`+name+`"`)
	require.True(d.t, found)
	p.html = form
	fields.Set("key", p.hidden(d.t, "key"))
	fields.Set("who", p.hidden(d.t, "who"))
	return fields
}

func (d *desk) refusal(before time.Time) url.Values {
	return d.restoreForm("keys", url.Values{"before": {before.Format(time.RFC3339)}, "why": {"restore, ticket 7"}, "confirm": {"refuse"}})
}

// A supervisor refuses keys on a page that says how many routes it concerns and what their clients are told. It leaves a row of
// the history.
//
// CONTRACT T-6, S-5
func TestRefuseKeys(t *testing.T) {
	d := newDesk(t)
	require.NotContains(t, d.get("/idem/").html, "/idem/restore")
	require.Equal(t, http.StatusForbidden, d.get("/idem/restore").Code, "an operator of one tenant")
	d.caller = chief
	require.Contains(t, d.get("/idem/").html, "/idem/restore")
	p := d.get("/idem/restore")
	for _, want := range []string{"It concerns 1 route of this service", "409 key_too_old", "5 minutes", chief.Name()} {
		require.Contains(t, p.text, want)
	}
	require.Contains(t, p.html, d.clock().Add(store.MaxKeyAhead).Format(time.RFC3339))

	for _, wrong := range []url.Values{{"before": {"yesterday"}}, {"confirm": {""}}, {"why": {" "}},
		{"before": {d.clock().Add(6 * time.Minute).Format(time.RFC3339)}}} {
		form := d.refusal(d.clock())
		for name := range wrong {
			form.Set(name, wrong.Get(name))
		}
		p := d.ask(http.MethodPost, "/idem/restore/keys", form)
		require.Equal(t, http.StatusBadRequest, p.Code, p.text)
		require.Contains(t, p.html, `role="alert"`)
		require.Equal(t, form.Get("key"), p.hidden(t, "key"))
	}
	require.Empty(t, d.kinds(core.EventKeysRefused))

	form := d.refusal(d.clock().Add(5 * time.Minute))
	for range 2 { // sent twice, it is carried out once
		p = d.ask(http.MethodPost, "/idem/restore/keys", form)
		require.Equal(t, http.StatusOK, p.Code, p.text)
		require.Contains(t, p.text, "are refused from now on")
	}
	p = d.get("/idem/restore")
	require.Contains(t, p.text, "Keys that were refused")
	require.Equal(t, 1, strings.Count(p.text, "restore, ticket 7"))
	require.Len(t, d.kinds(core.EventKeysRefused), 1)
	refused := d.command("/v1/timed", "019ac000-0000-7000-8000-000000000001", "{}", customer, ok)
	require.Contains(t, string(refused.Body), "key_too_old")
	require.NotContains(t, d.get("/idem/history").text, "ticket 7", "it is about no operation")
}

// CONTRACT F-4, S-5
func TestMarkOperations(t *testing.T) {
	d := newDesk(t)
	d.caller = chief
	there := d.unknown("payout-1", customer)
	lost := core.Scoping{}.RecordID(customer, "lost-1")
	form := d.restoreForm("marks", url.Values{"ids": {lost.String() + "\r\nnone"}, "why": {"the provider's list"}})
	p := d.ask(http.MethodPost, "/idem/restore/marks", form)
	require.Equal(t, http.StatusBadRequest, p.Code)
	require.Contains(t, p.text, lost.String()+" none", "what was typed is given back")
	form.Set("ids", lost.String()+"\r\n"+there.String())
	form.Set("key", p.hidden(t, "key"))
	p = d.ask(http.MethodPost, "/idem/restore/marks", d.restoreForm("marks", form))
	require.Contains(t, p.text, "Marked: 1 operation. Left alone, because they have a record: 1;")
	require.Contains(t, d.get("/idem/operations/"+lost.String()).text, "the provider's list")
}

// Every form that changes something gives back what was typed where a session has ended, another tab has signed in, or the new
// login may not do it; and who may not do it is told so before the form. A form of another site gets nothing back.
//
// CONTRACT X-7, S-5, O-3
func TestEveryFormIsGivenBack(t *testing.T) {
	d := newDesk(t)
	d.caller = chief
	half, _ := d.halfDone()
	unknown := d.unknown("payout-1", customer)
	chief2 := chief
	chief2.Subject = "chief-2"
	for path, open := range map[string]func() url.Values{
		"/idem/operations/" + unknown.String() + "/settle": func() url.Values { return d.form(unknown, "applied", "why-1") },
		"/idem/operations/" + half.String() + "/push": func() url.Values {
			p := d.get("/idem/operations/" + half.String() + "/push")
			return url.Values{"key": {p.hidden(t, "key")}, "who": {p.hidden(t, "who")}, "fence": {p.hidden(t, "fence")},
				"outcome": {"give_up"}, "why": {"why-1"}}
		},
		"/idem/erase":         func() url.Values { return d.erasure(customer) },
		"/idem/restore/keys":  func() url.Values { return d.refusal(d.clock()) },
		"/idem/restore/marks": func() url.Values { return d.restoreForm("marks", url.Values{"ids": {half.String()}, "why": {"why-1"}}) },
	} {
		t.Run(path[len("/idem/"):], func(t *testing.T) {
			d.caller = chief
			form := open()
			back := func(p page, hidden ...string) {
				t.Helper()
				require.Contains(t, p.html, `method="post"`)
				require.Equal(t, "no-store", p.Header().Get("Cache-Control"))
				for name := range form {
					if name != "confirm" || p.Code == http.StatusUnauthorized { // it is typed again
						require.Contains(t, p.text+html.UnescapeString(p.html), form.Get(name), name)
					}
				}
				for _, name := range hidden {
					require.Equal(t, form.Get(name), p.hidden(t, name))
				}
			}
			require.Contains(t, d.get(strings.NewReplacer("/keys", "", "/marks", "").Replace(path)).text, chief.Name(), "the form says who")

			d.caller = core.Principal{}
			p := d.ask(http.MethodPost, path, form)
			require.Equal(t, http.StatusUnauthorized, p.Code)
			require.Contains(t, p.text, "Nothing was settled by this sending, and nothing else was changed")
			require.Contains(t, p.html, `target="_blank"`)
			back(p, "key", "who")
			foreign := d.ask(http.MethodPost, path, form, "Sec-Fetch-Site", "cross-site")
			require.Equal(t, http.StatusForbidden, foreign.Code)
			require.NotContains(t, foreign.html, form.Get("key"))

			d.caller = customer
			p = d.ask(http.MethodPost, path, form)
			require.Equal(t, http.StatusForbidden, p.Code)
			back(p, "key", "who")

			d.caller = chief2
			p = d.ask(http.MethodPost, path, form)
			require.Contains(t, p.text, "the form was opened under another login")
			require.NotEqual(t, form.Get("key"), p.hidden(t, "key"))
			require.Equal(t, chief2.Name(), p.hidden(t, "who"))
			form.Del("key")
			form.Del("who")
			back(p)
		})
	}
	require.Empty(t, d.kinds(core.EventSettled))
	require.Empty(t, d.kinds(core.EventGivenUp))
	require.Empty(t, d.kinds(core.EventKeysRefused))
	require.Empty(t, d.kinds(core.EventMarked))
	require.Empty(t, d.kinds(core.EventErasing))
}

// A supervisor without the role of a route is told so before the form.
//
// CONTRACT O-3
func TestWhoMayRestoreIsSaidBeforeTheForm(t *testing.T) {
	d := newDesk(t, func(cfg *inspect.Config) { cfg.Mark = restorerRoute })
	d.caller = chief
	p := d.get("/idem/restore")
	require.Contains(t, p.html, `action="/idem/restore/keys"`)
	require.NotContains(t, p.html, `action="/idem/restore/marks"`)
	require.Contains(t, p.text, "the login needs one of the roles restorer")
	form := url.Values{"key": {"k"}, "who": {chief.Name()}, "ids": {"x"}, "why": {"why-1"}}
	p = d.ask(http.MethodPost, "/idem/restore/marks", form)
	require.Contains(t, p.text, "You may not do this")
	require.Contains(t, p.text, "why-1")

	d = newDesk(t, func(cfg *inspect.Config) { cfg.Refuse, cfg.Mark = "", "" })
	d.caller = chief
	require.Contains(t, d.get("/idem/restore").text, "These pages only read")
}
