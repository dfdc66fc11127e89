package contracttest

import (
	"slices"

	"github.com/stretchr/testify/require"
)

var scopeChecks = []check{
	{"S-1", "two principals with one key never meet", principalsDoNotMeet, nil},
	{"S-1", "the same subject of two issuers is two principals", issuersDoNotMeet, nil},
	{"S-1", "the same subject of two tenants is two principals", tenantsDoNotMeet, nil},
	{"S-2", "a refreshed token is the same principal", refreshedTokenIsTheSame, nil},
	{"S-3", "a key belongs to one command on all routes", keyBelongsToOneRoute, nil},
}

// CONTRACT S-1
func principalsDoNotMeet(p *probe) {
	p.requireApart(p.Tokens.Of(owner), p.Tokens.Of(stranger))
}

// CONTRACT S-1
func issuersDoNotMeet(p *probe) {
	p.need(p.Tokens.OtherIssuer != nil, "Tokens.OtherIssuer is missing")
	p.requireApart(p.Tokens.Of(owner), p.Tokens.OtherIssuer(owner))
}

// CONTRACT S-1
func tenantsDoNotMeet(p *probe) {
	p.need(p.Tokens.OtherTenant != nil, "Tokens.OtherTenant is missing")
	p.requireApart(p.Tokens.Of(owner), p.Tokens.OtherTenant(owner))
}

// requireApart requires that the holders of two tokens have each a record of their own under one key.
func (p *probe) requireApart(one, two string) {
	p.Helper()
	mine := p.valid().withToken(one)
	theirs := p.other(mine).withToken(two)
	first, second := p.apply(mine), p.apply(theirs)
	p.replays(first, mine)
	p.replays(second, theirs)

	found := p.reused(mine.withToken(two))
	other := p.reused(theirs.withToken(one))
	if p.ProblemCode == nil {
		require.NotEqual(p, found.Operation, other.Operation, "two principals have two operations")
	}
}

// CONTRACT S-2
func refreshedTokenIsTheSame(p *probe) {
	r := p.valid()
	refreshed := p.Tokens.Of(owner)
	p.need(refreshed != r.token, "Tokens.Of returns the same token twice")
	first := p.apply(r)
	p.replays(first, r.withToken(refreshed))
	p.reused(p.other(r).withToken(refreshed))
}

// CONTRACT S-3, M-1, H-1
func keyBelongsToOneRoute(p *probe) {
	i := slices.IndexFunc(p.Routes, func(r Route) bool { return r.name() != p.name() })
	p.need(i >= 0, "App.Routes has only one route")
	there := p.at(p.Routes[i])

	mine := p.valid()
	first := p.apply(mine)
	there.reused(there.valid().withKey(mine.keys...).withToken(mine.token))
	p.replays(first, mine)
}
