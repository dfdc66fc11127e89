package core

import (
	"bytes"
	"cmp"
	_ "embed" // the page
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// publicPolicy is what the API's users have to know about a module; a server should publish it
// (draft-ietf-httpapi-idempotency-key-header, section 2.6). It has nothing that only the app needs: no roles, no reasons,
// no leases.
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
	Interrupted string `json:"interrupted"`
	Problems    []Code `json:"problems"`
}

// publicRepeat says how a repeat is answered.
type publicRepeat struct {
	When   string `json:"when"`
	Answer string `json:"answer"`
}

// publicProblem is a refusal that a route may send.
type publicProblem struct {
	Code   Code   `json:"code"`
	Type   string `json:"type"`
	Status int    `json:"status"`
	Title  string `json:"title"`
	Repeat bool   `json:"repeat"` // with the same key, after Retry-After
}

// publicRepeats says it for each state of a record.
func (m *Module) publicRepeats() []publicRepeat {
	refused := func(code Code, text string) string {
		return fmt.Sprintf("%d %s%s", m.cfg.Profile.kind(code).status, code, text)
	}
	return []publicRepeat{
		{"the command has been answered", "the recorded answer, byte for byte, with Idempotent-Replayed: true and " +
			"Idempotency-Result: reused"},
		{"the first request is still running", refused(CodeInFlight, " with Retry-After: repeat with the same key")},
		{"the key was used for another command", refused(CodeKeyReused, ": nothing is run")},
		{"it is not known whether the command was carried out", refused(CodeOutcomeUnknown, ": ask about the operation; a "+
			"new key might carry the command out a second time")},
		{"nothing was carried out, and the answer asked for another try", "the command runs"},
		{"the recorded answer is past its retention", refused(CodeKeyExpired, " with the outcome: nothing is run")},
	}
}

// publicPolicy collects what PolicyHandler shows at this moment.
func (m *Module) publicPolicy() publicPolicy {
	public := publicPolicy{
		Header: m.cfg.Header, Profile: m.cfg.Profile.String(), Routes: []publicRoute{}, Repeats: m.publicRepeats(),
	}
	codes := map[Code]bool{}
	for key, r := range m.guardedRoutes() {
		path := key.pattern
		if path != "*" {
			path, _ = openAPIPath(path)
		}
		route := publicRoute{
			Method: key.method, Path: path, KeyRequired: !r.inShadow(), KeyFormat: "any", Retention: seconds(r.Retention),
			Refused: seconds(r.Tombstone), Wait: seconds(r.Wait), MaxBody: r.MaxBody, Headers: r.CommandHeaders,
			Problems: m.codesOf(r), Interrupted: "unknown",
		}
		if !route.KeyRequired {
			route.RequiredFrom = r.ShadowUntil.UTC().Format(time.RFC3339)
		}
		switch r.KeyFormat {
		case UUIDKey:
			route.KeyFormat = "uuid"
		case TimedKey: // once its record is gone, the key is too old for ever
			route.KeyFormat, route.KeyMaxAge, route.Refused = "uuidv7", seconds(r.KeyAge), 0
		}
		switch r.Recovery {
		case Rollback:
			route.Interrupted = "undone"
		case Resume:
			route.Interrupted = "continued"
		}
		public.Routes = append(public.Routes, route)
		for _, code := range route.Problems {
			codes[code] = true
		}
	}
	slices.SortFunc(public.Routes, func(a, b publicRoute) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Method, b.Method))
	})
	for code := range codes {
		kind := m.cfg.Profile.kind(code)
		public.Problems = append(public.Problems, publicProblem{Code: code, Type: m.cfg.ProblemBase + string(code),
			Status: kind.status, Title: kind.title, Repeat: kind.again})
	}
	slices.SortFunc(public.Problems, func(a, b publicProblem) int {
		return cmp.Or(cmp.Compare(a.Status, b.Status), cmp.Compare(a.Code, b.Code))
	})
	return public
}

// guardedRoutes are the routes that take a key. Without a table there is one, "*", as in Shadowed.
func (m *Module) guardedRoutes() map[routeKey]*route {
	if m.own != nil {
		return map[routeKey]*route{{"*", "*"}: m.own}
	}
	guarded := map[routeKey]*route{}
	for key, r := range m.routes {
		if r.guarded() {
			guarded[key] = r
		}
	}
	return guarded
}

func seconds(d time.Duration) int64 { return int64(d / time.Second) }

//go:embed publicpolicy.html
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
// With [Config.PolicyURL], every problem names its address.
func (m *Module) PolicyHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			h.Set("Allow", "GET, HEAD")
			http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
			return
		}
		body, contentType := new(bytes.Buffer), "application/json"
		var err error
		if policy := m.publicPolicy(); prefersHTML(r.Header.Values("Accept")) {
			contentType = "text/html; charset=utf-8"
			h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; "+
				"form-action 'none'; frame-ancestors 'none'")
			err = policyTemplate.Execute(body, policy)
		} else {
			err = json.NewEncoder(body).Encode(policy)
		}
		if err != nil { // cannot happen: both can encode every policy
			http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
			return
		}
		h.Set("Content-Type", contentType)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "max-age=300")
		h.Add("Vary", "Accept")
		_, _ = body.WriteTo(w) // an error means that the connection is broken
	})
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

// describedBy returns the headers of a problem with the address of the policy.
func describedBy(h http.Header, address string) http.Header {
	h = h.Clone() // the app may hand out one reply many times
	if h == nil {
		h = http.Header{}
	}
	h.Add("Link", "<"+address+`>; rel="describedby"`)
	return h
}

// checkPolicyURL says what is wrong with Config.PolicyURL.
func checkPolicyURL(address string) error {
	if address == "" {
		return nil
	}
	parsed, err := url.Parse(address)
	switch {
	case err != nil || strings.ContainsAny(address, "<>\" \\\r\n\t") || strings.HasPrefix(address, "//"),
		!strings.HasPrefix(address, "/") && (parsed.Scheme != "https" && parsed.Scheme != "http" || parsed.Host == ""):
		return fmt.Errorf("%q is neither a path nor an http(s) URL, such as /idempotency", address)
	case parsed.User != nil:
		return fmt.Errorf("it must have no user: every client sees it")
	}
	return nil
}
