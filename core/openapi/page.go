package openapi

import (
	"bytes"
	"cmp"
	_ "embed" // the page
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/auth19/idem/core"
)

// publicPolicy is what the API's users have to know about a module. It has nothing that only the app needs: no roles, no
// reasons, no leases.
type publicPolicy struct {
	Header   string          `json:"header"`
	Profile  string          `json:"profile"` // the standard that the problems follow
	Routes   []publicRoute   `json:"routes"`
	Repeats  []publicRepeat  `json:"repeats"`
	Problems []publicProblem `json:"problems"`
}

// publicRoute is a route that takes a key. Times are in seconds.
type publicRoute struct {
	Method string `json:"method"` // "*" for every unsafe method, if the module has no table
	Path   string `json:"path"`   // as in OpenAPI; "*" for every path
	// KeyRequired is false while the route is in shadow. RequiredFrom is the end of the shadow.
	KeyRequired  bool   `json:"key_required"`
	RequiredFrom string `json:"required_from,omitempty"`
	KeyFormat    string `json:"key_format"` // "any", "uuid", or "uuidv7" for timed keys
	KeyMaxAge    int64  `json:"key_max_age,omitempty"`
	Retention    int64  `json:"retention"`         // how long a repeat gets the recorded answer
	Refused      int64  `json:"refused,omitempty"` // how long after that a repeat is refused with key_expired
	Wait         int64  `json:"wait,omitempty"`    // how long a repeat waits for the first request, at most
	MaxBody      int64  `json:"max_body"`          // bytes
	// Headers belong to the command, beside method, path, query and body.
	Headers []string `json:"command_headers,omitempty"`
	// Interrupted is what happens to a command whose handler fails or is cut off: "undone", "continued" or "unknown".
	Interrupted string      `json:"interrupted"`
	Problems    []core.Code `json:"problems"`
}

// publicRepeat says how a repeat is answered.
type publicRepeat struct {
	When   string `json:"when"`
	Answer string `json:"answer"`
}

// publicProblem is a refusal that a route may send.
type publicProblem struct {
	Code   core.Code `json:"code"`
	Type   string    `json:"type"`
	Status int       `json:"status"`
	Title  string    `json:"title"`
	Repeat bool      `json:"repeat"` // with the same key, after Retry-After
}

// repeatsOf says it for each state of a record, with the statuses of these problems.
func repeatsOf(problems map[core.Code]publicProblem) []publicRepeat {
	refused := func(code core.Code, text string) string {
		return fmt.Sprintf("%d %s%s", problems[code].Status, code, text)
	}
	return []publicRepeat{
		{"the command has been answered", "the recorded answer, byte for byte, with Idempotent-Replayed: true and " +
			"Idempotency-Result: reused"},
		{"the first request is still running", refused(core.CodeInFlight, " with Retry-After: repeat with the same key")},
		{"the key was used for another command", refused(core.CodeKeyReused, ": nothing is run")},
		{"it is not known whether the command was carried out", refused(core.CodeOutcomeUnknown, ": ask about the operation; "+
			"a new key might carry the command out a second time")},
		{"nothing was carried out, and the answer asked for another try", "the command runs"},
		{"the recorded answer is past its retention", refused(core.CodeKeyExpired, " with the outcome: nothing is run")},
	}
}

// publicPolicyOf collects what PolicyHandler shows at this moment.
func publicPolicyOf(d core.Description) publicPolicy {
	public := publicPolicy{Header: d.Header, Profile: d.Profile.String(), Routes: []publicRoute{}, Repeats: []publicRepeat{}}
	problems := map[core.Code]publicProblem{}
	for _, described := range d.Routes {
		route := publicRouteOf(described)
		for _, p := range described.Problems {
			route.Problems = append(route.Problems, p.Code)
			problems[p.Code] = publicProblem{Code: p.Code, Type: p.Type, Status: p.Status, Title: p.Title, Repeat: p.Again}
		}
		public.Routes = append(public.Routes, route)
	}
	public.Problems = slices.SortedFunc(maps.Values(problems), func(a, b publicProblem) int {
		return cmp.Or(cmp.Compare(a.Status, b.Status), cmp.Compare(a.Code, b.Code))
	})
	if len(public.Routes) > 0 { // else nothing takes a key, and no repeat is told apart
		public.Repeats = repeatsOf(problems)
	}
	return public
}

func publicRouteOf(described core.DeclaredRoute) publicRoute {
	r := described.Policy
	path := described.Pattern
	if path != "*" {
		path, _ = pathOf(path)
	}
	route := publicRoute{
		Method: described.Method, Path: path, KeyRequired: !inShadow(described), KeyFormat: "any", Retention: seconds(r.Retention),
		Refused: seconds(r.Tombstone), Wait: seconds(r.Wait + time.Second - 1), MaxBody: r.MaxBody, Headers: r.CommandHeaders,
		Interrupted: "unknown",
	}
	if !route.KeyRequired {
		route.RequiredFrom = r.ShadowUntil.UTC().Format(time.RFC3339)
	}
	switch r.KeyFormat {
	case core.UUIDKey:
		route.KeyFormat = "uuid"
	case core.TimedKey: // once its record is gone, the key is too old for ever
		route.KeyFormat, route.KeyMaxAge, route.Refused = "uuidv7", seconds(r.KeyAge), 0
	}
	switch r.Recovery {
	case core.Rollback:
		route.Interrupted = "undone"
	case core.Resume:
		route.Interrupted = "continued"
	}
	return route
}

func seconds(d time.Duration) int64 { return int64(d / time.Second) }

//go:embed page.html
var policyPage string

var policyTemplate = template.Must(template.New("policy").Funcs(template.FuncMap{
	"words": func(s int64) string { return inWords(time.Duration(s) * time.Second) },
	"bytes": func(n int64) string {
		if n >= 1<<20 && n%(1<<20) == 0 {
			return strconv.FormatInt(n>>20, 10) + " MiB"
		}
		return strconv.FormatInt(n, 10) + " bytes"
	},
}).Parse(policyPage))

// PolicyHandler serves the idempotency policy to the users of the API, as the IETF's draft of the Idempotency-Key header
// asks: which routes take a key, its format, how long a repeat gets the recorded answer, how a repeat is answered, and
// every problem. It answers GET and HEAD on every path that it is mounted on. The answer is a page if the request's
// Accept prefers text/html to JSON, as browsers do; otherwise it is JSON. Any other method gets 405.
//
// It shows nothing secret, so it may be mounted in front of the JWT guard. It shows the method and the path of each
// guarded route, but no roles, no exempt routes and no callers. If your paths are not public, mount it behind the guard.
// With [core.Config.PolicyURL], every problem names its address.
func PolicyHandler(m *core.Module) http.Handler {
	page, data := new(rendered), new(rendered)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		core.LimitSending(w, r)
		h := w.Header()
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			h.Set("Allow", "GET, HEAD")
			http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
			return
		}
		contentType, from, render := "application/json", data, func(w io.Writer) error {
			return json.NewEncoder(w).Encode(publicPolicyOf(m.Describe()))
		}
		if prefersHTML(r.Header.Values("Accept")) {
			contentType, from = "text/html; charset=utf-8", page
			h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; "+
				"form-action 'none'; frame-ancestors 'none'")
			render = func(w io.Writer) error { return policyTemplate.Execute(w, publicPolicyOf(m.Describe())) }
		}
		body, err := from.get(render)
		if err != nil { // cannot happen: both can encode every policy
			http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
			return
		}
		h.Set("Content-Type", contentType)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "private, max-age=300") // it may stand behind a login
		h.Add("Vary", "Accept")
		_, _ = w.Write(body) // an error means that the connection is broken
	})
}

// rendered is a form of the policy, which strangers may ask for at any rate: it is rendered once in a minute. Only the time
// changes it, where a route leaves its shadow.
type rendered struct {
	mu    sync.Mutex
	body  []byte
	until time.Time
}

func (c *rendered) get(render func(w io.Writer) error) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.After(c.until) {
		var body bytes.Buffer
		if err := render(&body); err != nil {
			return nil, err
		}
		c.body, c.until = body.Bytes(), now.Add(time.Minute)
	}
	return c.body, nil
}

// prefersHTML reports whether an Accept header prefers a page to JSON (RFC 9110, section 12.5.1). If several ranges take a
// media type, the most exact one counts.
func prefersHTML(accept []string) bool {
	html, json := mediaWeight{exact: -1}, mediaWeight{exact: -1}
	for part := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		media, parameters, _ := strings.Cut(part, ";")
		weight := 1.0
		for parameter := range strings.SplitSeq(parameters, ";") {
			if name, value, _ := strings.Cut(strings.TrimSpace(parameter), "="); strings.EqualFold(name, "q") {
				weight, _ = strconv.ParseFloat(value, 64) // anything but a number counts as 0: not wanted
			}
		}
		switch strings.ToLower(strings.TrimSpace(media)) {
		case "text/html":
			html.take(2, weight)
		case "text/*":
			html.take(1, weight)
		case "application/json":
			json.take(2, weight)
		case "application/*":
			json.take(1, weight)
		case "*/*":
			html.take(0, weight)
			json.take(0, weight)
		}
	}
	return html.weight > json.weight
}

// mediaWeight is how much a client prefers a media type, by the most exact range that matches it.
type mediaWeight struct {
	exact  int
	weight float64
}

func (m *mediaWeight) take(exact int, weight float64) {
	if exact >= m.exact {
		m.exact, m.weight = exact, weight
	}
}
