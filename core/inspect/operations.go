package inspect

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/auth19/idem/core/store"
)

// pageSize is how many operations a page of the list has.
const pageSize = 50

// operationsPage is what the list shows.
type operationsPage struct {
	Filter  filter
	Routes  []string // to choose from
	Rows    []row
	Total   int    // of all pages; below 0: not known
	AtLeast bool   // there are more
	Next    string // the link to the next page, "" on the last one
	First   string // the link to the first page, "" on it
	NoRoute bool   // this release does not have the route of the filter
	Problem string
	Wrong   string // the field that is wrong
}

// filter is what the list is asked for, as the form writes it.
type filter struct {
	State  string // "", "unknown" or "half_done"
	Route  string // "POST /v1/payouts"
	From   string // as a browser writes a local time; it is taken for UTC
	Until  string
	Caller string // the hash of a principal: a name would be in addresses and logs
	Order  string // "" or "newest"
}

func filterOf(form url.Values) filter {
	get := form.Get
	return filter{get("state"), get("route"), get("from"), get("until"), get("caller"), get("order")}
}

// Set reports whether the filter leaves anything out.
func (f filter) Set() bool { return f != filter{} }

// query returns the filter as a query.
func (f filter) query() url.Values {
	q := url.Values{}
	for name, value := range map[string]string{"state": f.State, "route": f.Route, "from": f.From, "until": f.Until,
		"caller": f.Caller, "order": f.Order} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q
}

func (v *request) operations() error {
	given := v.r.URL.Query()
	f := filterOf(given)
	page := operationsPage{Filter: f, Routes: v.routes(f.Route), Total: -1}
	q, wrong, problem := f.parse()
	cursor, ok := parsePlace(given.Get("after"))
	if problem == "" && !ok {
		problem = "The page has a place in the list that nobody can read. Begin with the first page."
	}
	if problem != "" {
		page.Problem, page.Wrong = problem, wrong
		return v.show(http.StatusBadRequest, "operations", "Wrong filter: operations", "operations", page)
	}
	q.After, q.Limit = cursor, pageSize+1
	records, err := v.operator.List(v.r.Context(), q)
	if err != nil {
		return err
	}
	if len(records) > pageSize { // the one too many tells that there is a next page
		records = records[:pageSize]
		last := records[pageSize-1]
		next := f.query()
		next.Set("after", formatPlace(last.Cursor()))
		page.Next = v.Prefix + "operations?" + next.Encode()
	}
	if cursor != (store.Cursor{}) {
		page.First = v.Prefix + "operations?" + f.query().Encode()
	}
	page.Rows, page.NoRoute = v.rowsOf(records), v.noRoute(q)
	page.count(v, q)
	return v.show(http.StatusOK, "operations", "Operations", "operations", page)
}

// noRoute reports whether this release does not have the route of a query.
func (v *request) noRoute(q store.Query) bool {
	return q.Route != "" && !v.ops.Outlook(store.Record{Method: q.Method, Route: q.Route}).Known
}

// count counts all that the filter selects. Where one page has all of it, nothing is asked for. Without a number the page is
// still of use.
func (p *operationsPage) count(v *request, q store.Query) {
	if p.Next == "" && p.First == "" {
		p.Total = len(p.Rows)
		return
	}
	q.Limit = countLimit
	counts, err := v.operator.Count(v.r.Context(), q)
	if err != nil {
		v.operator.Failed(v.r.Context(), err)
		return
	}
	p.Total = 0
	for _, c := range counts {
		p.Total += c.Count
	}
	p.AtLeast = p.Total >= countLimit
}

// parse reads the filter. The problem is in plain words, "" if there is none; wrong is the name of its field.
func (f filter) parse() (q store.Query, wrong, problem string) {
	q.Unknown, q.HalfDone, q.Newest = f.State != "half_done", f.State != "unknown", f.Order == "newest"
	if f.State != "" && f.State != "unknown" && f.State != "half_done" {
		return q, "state", "There is no such state: choose one of the list."
	}
	if f.Caller != "" {
		caller, err := store.ParseID(f.Caller) // it has the form of an id
		if err != nil {
			return q, "caller", "The address has a caller that nobody can read. Look for the caller anew."
		}
		q.Scope = store.Scope(caller)
	}
	if f.Route != "" {
		var found bool
		if q.Method, q.Route, found = strings.Cut(f.Route, " "); !found || q.Route == "" ||
			!utf8.ValidString(f.Route) || strings.ContainsRune(f.Route, 0) { // PostgreSQL would refuse the text
			return q, "route", "A route is a method and a pattern, such as POST /v1/payouts."
		}
	}
	for _, bound := range []struct {
		name, text string
		to         *time.Time
	}{{"from", f.From, &q.From}, {"until", f.Until, &q.Until}} {
		if bound.text == "" {
			continue
		}
		read, ok := parseTime(bound.text)
		if !ok {
			return q, bound.name, "A time is written as 2026-11-22T15:04, and is taken for UTC."
		}
		*bound.to = read
	}
	if !q.From.IsZero() && !q.Until.IsZero() && !q.From.Before(q.Until) {
		return q, "until", "The second time is not after the first: nothing can be claimed from " + utc(q.From) +
			" on and before " + utc(q.Until) + "."
	}
	return q, "", ""
}

// parseTime reads what browsers send for a local time: with minutes, or with seconds.
func parseTime(text string) (time.Time, bool) {
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02"} {
		if t, err := time.Parse(layout, text); err == nil && t.Year() > 1900 {
			return t, true
		}
	}
	return time.Time{}, false
}

// formatPlace writes a place for the address of the next page: nanoseconds since 1970, and the id.
func formatPlace(p store.Cursor) string {
	return strconv.FormatInt(p.CreatedAt.UnixNano(), 10) + "-" + p.ID.String()
}

func parsePlace(text string) (store.Cursor, bool) {
	if text == "" {
		return store.Cursor{}, true
	}
	nanos, id, found := strings.Cut(text, "-")
	at, err := strconv.ParseInt(nanos, 10, 64)
	parsed, err2 := store.ParseID(id)
	if !found || err != nil || err2 != nil || at < 0 {
		return store.Cursor{}, false
	}
	return store.Cursor{CreatedAt: time.Unix(0, at).UTC(), ID: parsed}, true
}

// routes are the ones to choose from: the guarded ones of the table, and the one that is chosen.
func (v *request) routes(chosen string) (routes []string) {
	for _, d := range v.Module.Declared() {
		if d.Guarded() {
			routes = append(routes, d.Method+" "+d.Pattern)
		}
	}
	if chosen != "" && !slices.Contains(routes, chosen) {
		routes = append(routes, chosen)
	}
	return routes
}
