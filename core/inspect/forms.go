package inspect

import (
	"net/http"
	"net/url"
	"strings"
)

// Every form that changes something says in a hidden field for whom it was opened. So it is told from a search, and a page
// of an error gives its text back.

// readForm reads the fields that the forms have.
func readForm(sent url.Values) settlement {
	get := sent.Get
	text := func(name string) string { // browsers end the lines of a text with CR and LF
		return strings.TrimSpace(strings.ReplaceAll(get(name), "\r\n", "\n"))
	}
	return settlement{Key: get("key"), Fence: get("fence"), Who: get("who"), Outcome: get("outcome"), Sent: get("sent"),
		Why: text("why"), Undone: text("undone"), Status: text("status"), Headers: text("headers"), Body: text("body"),
		Confirm: text("confirm"), Act: get("act"), Digest: get("digest"), Before: text("before"), IDs: text("ids"),
		Owner: ownerOf(sent)}
}

// anotherLogin reports whether a form was opened by somebody else: another tab has signed in since. It is a new form then.
func (v *request) anotherLogin(form *settlement) bool {
	if form.Who == v.operator.Name() {
		return false
	}
	form.Key, form.Sent, form.Who = newKey(), "", v.operator.Name()
	return true
}

// form is what a page of an error gives back: the form that this request has sent, if it came from a page of this site. It
// is checked anew when it is sent again, and nothing of it is kept.
func (v *request) form() url.Values {
	if !v.own || isRead(v.r) || v.r.ParseForm() != nil || !v.r.PostForm.Has("who") {
		return nil
	}
	return v.r.PostForm
}

// isRead reports whether a request only reads.
func isRead(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }
