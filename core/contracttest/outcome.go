package contracttest

import (
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/wire"
)

var outcomeChecks = []check{
	{"R-1", "a business refusal is replayed as the client saw it", refusalIsReplayed, nil},
	{"X-0", "what fails in Rollback leaves nothing, and the key is free", failureRollsBack, isRollback},
	{"M-4", "what fails in Park is unknown and never runs again", failureIsParked, isPark},
	{"X-3", "what fails in Resume goes on with the next repeat", failureGoesOn, isResume},
}

// CONTRACT
func refusalIsReplayed(p *probe) {
	p.need(p.Declined != nil, "Route.Declined is missing")
	r := p.command(p.Declined)
	before := p.effects()
	first := p.send(r)
	require.True(p, first.status >= 400 && first.status < 500, "a command of Route.Declined: want 4xx, got %d", first.status)
	p.requireRecorded(first)
	p.requireEffects(before, 0)
	p.replays(first, r)
	p.reused(p.other(r))
	p.replays(first, r)
}

// CONTRACT
func failureRollsBack(p *probe) {
	p.need(p.Fails != nil, "Route.Fails is missing")
	r := p.command(p.Fails)
	before := p.effects()
	for range 2 { // the second runs again
		a := p.send(r)
		require.GreaterOrEqual(p, a.status, 500, "the status of a command of Route.Fails")
		require.Empty(p, a.header.Get(wire.HeaderResult), "%s of what was rolled back", wire.HeaderResult)
		require.Empty(p, a.header.Get(wire.HeaderReplayed), "%s of what was rolled back", wire.HeaderReplayed)
		p.requireEffects(before, 0)
	}
	p.apply(p.other(r))
}

// CONTRACT M-4, X-1
func failureIsParked(p *probe) {
	p.need(p.Fails != nil, "Route.Fails is missing")
	r := p.command(p.Fails)
	first := p.send(r)
	require.GreaterOrEqual(p, first.status, 500, "the status of a command of Route.Fails")
	require.Equal(p, wire.ResultUnknown, first.header.Get(wire.HeaderResult), "%s of an unknown outcome", wire.HeaderResult)
	p.requireEcho(first)
	for range 2 {
		found := p.refused(r, core.CodeOutcomeUnknown)
		require.Empty(p, found.retryAfter, "Retry-After of outcome_unknown (M-4)")
		if p.ProblemCode == nil {
			require.NotNil(p, found.SafeNewKey, "the member safe_new_key of outcome_unknown (M-4)")
			require.False(p, *found.SafeNewKey, "the member safe_new_key of outcome_unknown (M-4)")
		}
	}
	p.reused(p.other(r))
}

// CONTRACT X-3
func failureGoesOn(p *probe) {
	p.need(p.Fails != nil, "Route.Fails is missing")
	r := p.command(p.Fails)
	before := p.effects()
	failed := p.send(r)
	require.GreaterOrEqual(p, failed.status, 500, "the status of the first attempt of a command of Route.Fails")
	if failed.header.Get(wire.HeaderResult) == wire.ResultUnknown {
		require.NotEmpty(p, failed.header.Get("Retry-After"), "Retry-After of what can go on")
	}
	p.reused(p.other(r))

	first := p.send(r)
	p.requireApplied(first)
	p.requireEffects(before, 1)
	p.replays(first, r)
}
