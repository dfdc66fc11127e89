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

// note opens the page of an operation, and sends the form of a note.
func (d *desk) note(id core.ID, text string) (page, url.Values) {
	d.t.Helper()
	p := d.get("/idem/operations/" + id.String())
	form := url.Values{"key": {p.hidden(d.t, "key")}, "fence": {p.hidden(d.t, "fence")}, "why": {text}}
	return d.send(id, form), form
}

func (d *desk) send(id core.ID, form url.Values) page {
	d.t.Helper()
	return d.ask(http.MethodPost, "/idem/operations/"+id.String()+"/note", form)
}

// "I am on it": colleagues see it in the list and in the operation's life, with who and when. It cannot be changed, and a form
// that is sent twice writes one note.
//
// CONTRACT S-5
func TestNotes(t *testing.T) {
	d := newDesk(t)
	id := d.unknown("k-1", customer)
	p, form := d.note(id, " I am <b>on</b> it ")
	require.Equal(t, http.StatusSeeOther, p.Code, p.text)
	require.Equal(t, "/idem/operations/"+id.String(), p.Header().Get("Location"))
	require.Equal(t, http.StatusSeeOther, d.send(id, form).Code)
	life := d.get("/idem/operations/" + id.String())
	require.Equal(t, 1, strings.Count(life.html, "<h3>A note</h3>"))
	require.Contains(t, life.text, `2026-11-22 12:02:00 UTC A note Who issuer="https://issuer.example" tenant="shop-1" subject="olga"`)
	require.Contains(t, life.html, "I am &lt;b&gt;on&lt;/b&gt; it")
	require.Contains(t, d.get("/idem/operations").html, "I am &lt;b&gt;on&lt;/b&gt; it")

	// Nothing of the operation has changed: it is settled as before. Then it takes no more notes, and keeps what it has.
	late := form
	require.Equal(t, http.StatusSeeOther, d.settle(id, d.form(id, "applied", "the provider has it")).Code)
	late.Set("key", "another")
	p = d.send(id, late)
	require.Equal(t, http.StatusConflict, p.Code)
	require.Contains(t, p.text, "The operation is over")
	require.Contains(t, p.html, "I am &lt;b&gt;on&lt;/b&gt; it", "what was written is given back")
	life = d.get("/idem/operations/" + id.String())
	require.Contains(t, life.html, "I am &lt;b&gt;on&lt;/b&gt; it")
	require.NotContains(t, life.text, "Write the note")
	d.advance(store.DefaultRetention)
	life = d.get("/idem/operations/" + id.String())
	require.NotContains(t, life.html, "I am &lt;b&gt;on&lt;/b&gt; it", "it goes with the answer, swept or not")
	require.Contains(t, life.text, `A note Its text is no longer kept. Who issuer="https://issuer.example" tenant="shop-1" subject="olga"`)
}

// CONTRACT S-5, O-2
func TestNotesThatAreRefused(t *testing.T) {
	d := newDesk(t)
	id := d.unknown("k-1", customer)
	for _, text := range []string{"", " \n", strings.Repeat("n", 2049), "a\x00b", "\xff"} {
		p, _ := d.note(id, text)
		require.Equal(t, http.StatusBadRequest, p.Code, text)
		require.Contains(t, p.text, "a note is text of 1 to 2048 bytes")
	}
	_, form := d.note(id, "mine")
	for caller, want := range map[*core.Principal]int{&other: http.StatusNotFound, &customer: http.StatusForbidden,
		{}: http.StatusUnauthorized} {
		d.caller = *caller
		form.Set("key", "k")
		form.Set("why", "theirs")
		p := d.send(id, form)
		require.Equal(t, want, p.Code)
	}
	d.caller = olga
	p := d.ask(http.MethodPost, "/idem/operations/"+id.String()+"/note", form, "Sec-Fetch-Site", "cross-site")
	require.Equal(t, http.StatusForbidden, p.Code)
	require.Equal(t, http.StatusBadRequest, d.send(id, url.Values{"why": {"no key"}}).Code)
	require.Equal(t, http.StatusNotFound, d.send(core.ID{1}, form).Code)
	life := d.get("/idem/operations/" + id.String())
	require.Contains(t, life.text, "mine")
	require.NotContains(t, life.text, "theirs")
}
