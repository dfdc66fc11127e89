package core

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Description is what can be told about a module: core/openapi makes a document and a page for the users of the API of it.
type Description struct {
	Header      string // the header of the key
	PolicyURL   string // see [Config.PolicyURL]
	Profile     Profile
	OwnProblems bool // problems have the app's own form: see [Config.RenderProblem]
	// Routes are the guarded routes, sorted as by [Module.Declared]. Without a table there is one, with "*" as its method and
	// pattern. A policy also has what the users of the API need not know, the roles for instance.
	Routes []DeclaredRoute
}

// DescribedProblem is a refusal that a route may send.
type DescribedProblem struct {
	Code   Code
	Type   string // the URI: see [Config.ProblemBase]
	Status int
	Title  string
	Again  bool // it is sent with Retry-After: repeating with the same key helps
}

// Describe returns what can be told about the module.
func (m *Module) Describe() Description {
	d := Description{Header: m.cfg.Header, PolicyURL: m.cfg.PolicyURL, Profile: m.cfg.Profile,
		OwnProblems: m.cfg.RenderProblem != nil}
	if m.own != nil {
		d.Routes = append(d.Routes, m.describe(DeclaredRoute{Method: "*", Pattern: "*", Policy: m.own.Policy}, m.own))
	}
	for _, declared := range m.Declared() {
		if declared.Guarded() {
			d.Routes = append(d.Routes, m.describe(declared, m.routes[routeKey{declared.Method, declared.Pattern}]))
		}
	}
	return d
}

func (m *Module) describe(declared DeclaredRoute, r *route) DeclaredRoute {
	for code, kind := range problemKinds {
		if kind.on != nil && kind.on(m, r) {
			kind = m.cfg.Profile.kind(code)
			declared.Problems = append(declared.Problems, DescribedProblem{
				Code: code, Type: m.cfg.ProblemBase + string(code), Status: kind.status, Title: kind.title, Again: kind.again,
			})
		}
	}
	slices.SortFunc(declared.Problems, func(a, b DescribedProblem) int {
		return cmp.Or(cmp.Compare(a.Status, b.Status), cmp.Compare(a.Code, b.Code))
	})
	return declared
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
		return errors.New("it must have no user: every client sees it")
	}
	return nil
}
