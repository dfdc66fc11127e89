package contracttest

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/wire"
)

var untouchedChecks = []check{
	{"K-8", "safe methods need no key", safeMethodsNeedNoKey, nil},
	{"K-8", "what has no route gets the router's own answer", noRouteNeedsNoKey, nil},
}

// CONTRACT K-8
func safeMethodsNeedNoKey(p *probe) {
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions} {
		r := p.valid()
		r.method, r.contentType, r.body = method, "", nil
		p.requireUntouched(r)
	}
}

// Groups of Gin and Echo run their middleware for some requests that no route takes.
//
// CONTRACT K-8
func noRouteNeedsNoKey(p *probe) {
	unknown := p.valid()
	unknown.path = "/contracttest" + unknown.path + "/contracttest"
	p.requireNoRoute(unknown)
	unknown.path = p.Path + "/contracttest/none"
	p.requireNoRoute(unknown)

	wrong := p.valid()
	wrong.method = p.unused()
	p.requireNoRoute(wrong)
}

// unused is a method that no route under test has on this path.
func (p *probe) unused() string {
	for _, method := range []string{http.MethodDelete, http.MethodPut, http.MethodPatch} {
		if !slices.ContainsFunc(p.Routes, func(r Route) bool { return r.Method == method && r.Path == p.Path }) {
			return method
		}
	}
	return "CONTRACTTEST"
}

func (p *probe) requireNoRoute(r request) {
	p.Helper()
	status := p.requireUntouched(r)
	require.True(p, status == http.StatusNotFound || status == http.StatusMethodNotAllowed,
		"%s %s has no route: want the router's 404 or 405, got %d", r.method, r.path, status)
}

// requireUntouched sends r without a key, with a bad one, and twice with a good one, and requires that the answers do
// not differ. It returns the status.
func (p *probe) requireUntouched(r request) int {
	p.Helper()
	before := p.effects()
	status := 0
	for _, keys := range [][]string{nil, {`"`}, {"a", "b"}, r.keys, r.keys} {
		a := p.send(r.withKey(keys...))
		require.Less(p, a.status, 500, "%s %s", r.method, r.path)
		require.NotContains(p, string(a.body), core.CodeKeyMissing, "%s %s needs no key", r.method, r.path)
		require.NotContains(p, string(a.body), core.CodeKeyInvalid, "%s %s needs no key", r.method, r.path)
		require.Empty(p, a.header.Get(wire.HeaderResult), "%s %s is not recorded", r.method, r.path)
		require.Empty(p, a.header.Get(wire.HeaderReplayed), "%s %s is not replayed", r.method, r.path)
		require.Equal(p, cmp.Or(status, a.status), a.status, "the status of %s %s, whatever the key", r.method, r.path)
		status = a.status
	}
	p.requireEffects(before, 0)
	return status
}
