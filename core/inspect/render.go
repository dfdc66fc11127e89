package inspect

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/auth19/idem/core/store"
)

//go:embed pages/*.html
var pageFiles embed.FS

// pages are the templates by name. Each has the layout around it. html/template escapes whatever is put in.
var pages = parsePages("overview", "operations", "operation", "settled", "find", "settle", "proposal", "push", "restore",
	"erase",
	"failure")

func parsePages(names ...string) map[string]*template.Template {
	layout := template.Must(template.New("layout.html").Funcs(template.FuncMap{
		"utc": utc, "iso": iso, "span": span, "short": short, "thousands": thousands, "operations": operationsText,
		"list": func(values ...any) []any { return values },
	}).ParseFS(pageFiles, "pages/layout.html"))
	all := map[string]*template.Template{}
	for _, name := range names {
		all[name] = template.Must(template.Must(layout.Clone()).ParseFS(pageFiles, "pages/"+name+".html"))
	}
	return all
}

// frame is what the layout shows around each page.
type frame struct {
	Title      string
	Prefix     string
	Tab        string // the current one of the tabs
	Who        string // "": nobody is signed in
	SignOut    string
	Supervises bool
	Settles    bool // the pages do not only read
	Pushes     bool // they have something to do with half-done operations
	Restores   bool // they have the forms for what a restore has lost
	Erases     bool // they have the form that erases a principal
	Page       any
}

// show sends a page.
func (v *request) show(status int, name, title, tab string, page any) error {
	f := frame{Title: title, Prefix: v.Prefix, Tab: tab, Page: page}
	if v.operator != nil {
		f.Who, f.SignOut, f.Supervises = v.operator.Name(), v.SignOut, v.operator.Supervises()
		f.Settles, f.Pushes, f.Restores = v.settles(), v.pushes(), v.restores()
		f.Erases = v.erase.allows(v.principal)
	}
	var body bytes.Buffer // a page that cannot be rendered is an error, and not half a page
	if err := pages[name].Execute(&body, f); err != nil {
		return fmt.Errorf("idem: inspect: render %s: %w", name, err)
	}
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.WriteHeader(status)
	_, _ = v.w.Write(body.Bytes()) // an error means that the connection is broken
	return nil
}

// failure is the page of something that went wrong.
type failure struct {
	Status                     int
	Heading, Text, Link, Again string
	Quotes                     []quote
	Operation                  string     // the link to the operation that it is about
	Another                    string     // the link to sign in as somebody else
	Reopen                     bool       // the page has a link to its own address
	Form                       url.Values // what was sent, to be sent again
}

// Sent are the fields of the form that people write into, with their names.
func (f failure) Sent() (sent []quote) {
	for _, field := range []quote{{"why", "Why"}, {"undone", "What has undone them"}, {"status", "Status of the answer"},
		{"body", "Body, as JSON"}, {"headers", "Headers, one on each line"}, {"before", "Made before"},
		{"ids", "Ids of operations, one on each line"}, {"issuer", "Issuer"}, {"tenant", "Tenant"}, {"client", "Client"},
		{"subject", "Subject"}, {"confirm", "Confirm"}} {
		if f.Form.Has(field.Name) {
			sent = append(sent, field)
		}
	}
	return sent
}

// Hidden are the others.
func (f failure) Hidden() []string {
	hidden := []string{"key", "sent", "fence", "who", "outcome", "act", "digest"}
	return slices.DeleteFunc(hidden, func(name string) bool { return !f.Form.Has(name) })
}

// fail sends the page of something that went wrong. It returns nil: there is nothing more to show.
func (v *request) fail(status int, title, text string) error {
	return v.failAbout(failure{Status: status, Heading: title, Text: text})
}

func (v *request) failAbout(page failure) error {
	status := page.Status
	if page.Quotes == nil || status == http.StatusForbidden { // else the text stands there
		page.Form = v.form()
	}
	if status == http.StatusServiceUnavailable && isRead(v.r) {
		page.Again = v.r.URL.RequestURI()
	}
	return v.show(status, "failure", page.Heading, "", page)
}

// redirect sends the browser to a page, which it gets with GET.
func (v *request) redirect(path string) error {
	http.Redirect(v.w, v.r, v.Prefix+path, http.StatusSeeOther)
	return nil
}

// utc is how pages write a point in time.
func utc(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") + " UTC" }

// iso is for the machine-readable part of a time element.
func iso(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// span is how pages write a length of time: its two greatest units.
func span(d time.Duration) string {
	if d < 0 {
		d = -d
	}
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return strconv.FormatFloat(float64(d.Truncate(100*time.Millisecond))/float64(time.Second), 'f', -1, 64) + " s"
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
	case d < 24*time.Hour:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%d d %d h", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}

// short is how pages write an operation's id where the whole one has no room. Ids of keys that were made one after the other
// begin alike, so that the end counts.
func short(id store.ID) string {
	text := id.String()
	return text[:8] + "…" + text[len(text)-8:]
}

// operationsText is a number of operations.
func operationsText(n int) string {
	if n == 1 {
		return "1 operation"
	}
	return thousands(n) + " operations"
}

// thousands writes a number with a thin space between the thousands.
func thousands(n int) string {
	digits := strconv.Itoa(n)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteRune('\u202f')
		}
		b.WriteRune(d)
	}
	return b.String()
}
