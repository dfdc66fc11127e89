package openapi_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/openapi"
)

// publicPolicy is the JSON of PolicyHandler.
type publicPolicy struct {
	Header, Profile string
	Routes          []struct {
		Method, Path, RequiredFrom, Interrupted string
		KeyRequired                             bool   `json:"key_required"`
		KeyFormat                               string `json:"key_format"`
		Retention, Refused, Wait                int64
		Headers                                 []string `json:"command_headers"`
		Problems                                []core.Code
	}
	Repeats  []struct{ When, Answer string }
	Problems []struct {
		Code   core.Code
		Type   string
		Status int
		Title  string
		Repeat bool
	}
}

func publicPolicyOf(t *testing.T, module *core.Module) (policy publicPolicy) {
	t.Helper()
	w := getPolicy(module, "application/json")
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &policy))
	return policy
}

func getPolicy(module *core.Module, accept ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/idempotency", nil)
	r.Header["Accept"] = accept
	w := httptest.NewRecorder()
	openapi.PolicyHandler(module).ServeHTTP(w, r)
	return w
}

func newPolicyModule(t *testing.T) *core.Module {
	t.Helper()
	module, err := core.New(core.Config{
		Store: memstore.New(), ProblemBase: "https://shop.example/problems/", PolicyURL: "https://shop.example/idempotency",
		Routes: core.Routes{
			"POST /v1/payouts/:id/retry": {Recovery: core.Park, Roles: []string{"secret-role"}, Retention: 24 * time.Hour,
				Wait: 4200 * time.Millisecond, CommandHeaders: []string{"Stripe-Account"}},
			"PUT /v1/<script>":  {Recovery: core.Park, KeyFormat: core.UUIDKey},
			"PATCH /v1/profile": {Exempt: "a reason for the next reader"},
			"GET /v1/payouts":   {Roles: []string{"secret-role"}},
		},
		OperatorRoles: []core.IssuerRole{{Issuer: "https://issuer.example", Role: "secret-operator"}},
	})
	require.NoError(t, err)
	return module
}

// The policy as JSON: what the users of the API have to know, and nothing else.
//
// CONTRACT P-1
func TestPublicPolicy(t *testing.T) {
	module := newPolicyModule(t)
	policy := publicPolicyOf(t, module)
	require.Equal(t, "Idempotency-Key", policy.Header)
	require.Len(t, policy.Routes, 2)
	script, retry := policy.Routes[0], policy.Routes[1]
	require.Equal(t, "uuid", script.KeyFormat)
	require.Equal(t, "POST", retry.Method)
	require.Equal(t, "/v1/payouts/{id}/retry", retry.Path)
	require.True(t, retry.KeyRequired)
	require.Equal(t, "any", retry.KeyFormat)
	require.EqualValues(t, 24*3600, retry.Retention)
	require.EqualValues(t, 30*24*3600, retry.Refused)
	require.EqualValues(t, 5, retry.Wait)
	require.Equal(t, []string{"Stripe-Account"}, retry.Headers)
	require.Equal(t, "unknown", retry.Interrupted)
	require.Contains(t, retry.Problems, core.CodeForbidden)
	require.NotContains(t, script.Problems, core.CodeForbidden, "it asks for no role")
	require.NotContains(t, retry.Problems, core.CodeRolledBack, "that is for Rollback")
	for _, p := range policy.Problems {
		require.Equal(t, core.NewProblem(p.Code, "").Title, p.Title)
		require.Equal(t, core.NewProblem(p.Code, "").Status, p.Status)
		require.Equal(t, "https://shop.example/problems/"+string(p.Code), p.Type)
	}
	for _, accept := range []string{"application/json", "text/html"} {
		body := getPolicy(module, accept).Body.String()
		require.NotContains(t, body, "secret")
		require.NotContains(t, body, "reason for")
		require.NotContains(t, body, "/v1/profile", "an exempt route takes no key")
	}
}

// Where no route takes a key, there is nothing to say of repeats.
func TestPublicPolicyWithoutAKey(t *testing.T) {
	routes := core.Routes{"PATCH /v1/profile": {Exempt: "moves no money"}}
	module, err := core.New(core.Config{Store: memstore.New(), Routes: routes})
	require.NoError(t, err)
	policy := publicPolicyOf(t, module)
	require.Empty(t, policy.Routes)
	require.Empty(t, policy.Repeats)
}

// The page is there for browsers, JSON for everybody else.
func TestPublicPolicyByAccept(t *testing.T) {
	module := newPolicyModule(t)
	for name, test := range map[string]struct {
		accept []string
		page   bool
	}{
		"nothing":           {nil, false},
		"anything":          {[]string{"*/*"}, false},
		"a browser":         {[]string{"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"}, true},
		"two lines":         {[]string{"application/json;q=0.1", "text/html;q=0.2"}, true},
		"both alike":        {[]string{"text/html, application/json"}, false},
		"any text":          {[]string{"text/*;q=0.5, */*;q=0.1"}, true},
		"no page":           {[]string{"text/html;q=0, */*"}, false},
		"a bad weight":      {[]string{"text/html;q=much"}, false},
		"JSON, then a page": {[]string{"application/json, text/html;q=0.9"}, false},
		"only XML":          {[]string{"application/xml"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := getPolicy(module, test.accept...)
			want := "application/json"
			if test.page {
				want = "text/html; charset=utf-8"
			}
			require.Equal(t, want, w.Header().Get("Content-Type"))
			require.Equal(t, "Accept", w.Header().Get("Vary"))
			require.Equal(t, "private, max-age=300", w.Header().Get("Cache-Control"), "no shared cache: it may stand behind a login")
		})
	}
}

func TestPublicPolicyPage(t *testing.T) {
	w := getPolicy(newPolicyModule(t), "text/html")
	page := w.Body.String()
	require.Contains(t, page, "<code>POST /v1/payouts/{id}/retry</code>")
	require.Contains(t, page, "24 hours; then the key is refused for 720 hours; a repeat waits up to 5 seconds")
	require.Contains(t, page, "<code>Stripe-Account</code>")
	require.Contains(t, page, "PUT /v1/&lt;script&gt;")
	require.NotContains(t, page, "<script")
	require.Contains(t, w.Header().Get("Content-Security-Policy"), "default-src 'none'")

	r := httptest.NewRequest(http.MethodPost, "/idempotency", nil)
	w = httptest.NewRecorder()
	openapi.PolicyHandler(newPolicyModule(t)).ServeHTTP(w, r)
	require.Equal(t, http.StatusMethodNotAllowed, w.Code)
	require.Equal(t, "GET, HEAD", w.Header().Get("Allow"))
}

// withoutTable returns a module in which one policy holds for every route.
func withoutTable(t *testing.T) *core.Module {
	t.Helper()
	module, err := core.New(core.Config{Store: memstore.New(), Policy: core.Policy{Recovery: core.Park}})
	require.NoError(t, err)
	return module
}

// Without a table one policy holds for every route that takes a key.
func TestPublicPolicyWithoutTable(t *testing.T) {
	module := withoutTable(t)
	policy := publicPolicyOf(t, module)
	require.Len(t, policy.Routes, 1)
	require.Equal(t, "AUTH-19", policy.Profile)
	require.Equal(t, "*", policy.Routes[0].Path)
	require.Contains(t, getPolicy(module, "text/html").Body.String(), "every route that takes a key")
}

// The page, the JSON and the document show the statuses of the module's profile.
//
// CONTRACT P-2
func TestStatusesOfTheProfile(t *testing.T) {
	module, err := core.New(core.Config{
		Store: memstore.New(), Profile: core.IETF, PolicyURL: "https://shop.example/idempotency",
		Routes: core.Routes{"POST /v1/payments": {Recovery: core.Park}},
	})
	require.NoError(t, err)
	policy := publicPolicyOf(t, module)
	require.Equal(t, "draft-ietf-httpapi-idempotency-key-header-07", policy.Profile)
	page := getPolicy(module, "text/html").Body.String()
	require.Contains(t, page, "422 key_reused")
	require.NotContains(t, page, "409 key_reused")
	require.Contains(t, page, policy.Profile)

	responses := member(t, described(t, module), "paths", "/v1/payments", "post", "responses")
	require.Contains(t, member(t, responses, "422", "description"), "key_reused")
	require.NotContains(t, member(t, responses, "409", "description"), "key_reused")
	require.Contains(t, member(t, responses, "409", "description"), "in_flight")
}

// Strangers may ask for the policy at any rate: it is not rendered for each of them.
func TestPolicyIsRenderedSeldom(t *testing.T) {
	for _, accept := range []string{"text/html", "application/json"} {
		handler := openapi.PolicyHandler(newPolicyModule(t))
		get := func() string {
			r := httptest.NewRequest(http.MethodGet, "/idempotency", http.NoBody)
			r.Header.Set("Accept", accept)
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			return w.Body.String()
		}
		require.Equal(t, getPolicy(newPolicyModule(t), accept).Body.String(), get())
		require.Less(t, testing.AllocsPerRun(10, func() { get() }), 60.0, accept)
	}
}

// limited is a writer that keeps the deadline of its answer.
type limited struct {
	*httptest.ResponseRecorder
	deadline time.Time
}

func (l *limited) SetWriteDeadline(deadline time.Time) error { l.deadline = deadline; return nil }

// Strangers may ask for the policy. One that does not read it must not hold it for ever.
//
// CONTRACT R-4
func TestPolicyHasADeadline(t *testing.T) {
	handler := openapi.PolicyHandler(newPolicyModule(t))
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
		w, asked := &limited{ResponseRecorder: httptest.NewRecorder()}, time.Now()
		handler.ServeHTTP(w, httptest.NewRequest(method, "/idempotency", nil))
		require.WithinRange(t, w.deadline, asked.Add(time.Minute), time.Now().Add(time.Minute), method)
	}
}
