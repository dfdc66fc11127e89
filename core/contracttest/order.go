package contracttest

import (
	"maps"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
)

var orderChecks = []check{
	{"O-1", "a caller without a token is refused before all else", tokenComesFirst, nil},
	{"O-1", "a caller without the role is refused before the key is looked at", roleComesSecond, nil},
	{"O-1", "a bad key is refused before the body is measured", keyComesThird, nil},
	{"O-1", "a body above the cap is refused before the claim", sizeComesFourth, nil},
	{"O-2", "a bad token opens nothing", badTokensOpenNothing, nil},
	{"O-3", "a caller who has lost the role gets no replay", lostRoleGetsNoReplay, nil},
}

// wrong returns a command with everything wrong but the caller: no valid key, and a body above the cap.
func (p *probe) wrong() request {
	return p.valid().withKey("a", "b").padded(p.MaxBody + 1)
}

// CONTRACT O-1, O-2
func tokenComesFirst(p *probe) {
	before := p.effects()
	p.requireProblem(p.sendWire(p.wrong().withToken(""), whole), core.CodeUnauthenticated)
	p.requireEffects(before, 0)
}

// CONTRACT O-1
func roleComesSecond(p *probe) {
	p.need(p.Tokens.Demoted != nil, "Tokens.Demoted is missing")
	p.requireProblem(p.sendWire(p.wrong().withToken(p.Tokens.Demoted(owner)), whole), core.CodeForbidden)
	p.refused(p.valid().withToken(p.Tokens.Demoted(owner)), core.CodeForbidden)
}

// CONTRACT O-1
func keyComesThird(p *probe) {
	p.requireProblem(p.sendWire(p.wrong(), whole), core.CodeKeyInvalid)
	p.requireProblem(p.sendWire(p.wrong().withKey(), whole), core.CodeKeyMissing)
}

// Also if the key has an answer: a body above the cap cannot be a repeat.
//
// CONTRACT O-1, H-5
func sizeComesFourth(p *probe) {
	r := p.valid()
	large := r.padded(p.MaxBody + 1)
	p.requireProblem(p.sendWire(large, whole), core.CodeBodyTooLarge)
	first := p.apply(r)
	p.requireProblem(p.sendWire(large, whole), core.CodeBodyTooLarge)
	p.replays(first, r)
}

// CONTRACT O-1, O-2
func badTokensOpenNothing(p *probe) {
	recorded := p.valid()
	first := p.apply(recorded)
	token := p.Tokens.Of(owner)
	refused := map[string]string{
		"none": "", "garbage": "garbage", "two tokens": token + " " + token, "cut off": token[:len(token)/2],
	}
	maps.Copy(refused, p.Tokens.Refused)
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		for what, r := range map[string]request{"a command": p.valid(), "a repeat": recorded} {
			before := p.effects()
			a := p.send(r.withToken(refused[name]))
			require.Equal(p, 401, a.status, "%s with a token that is no good: %s", what, name)
			p.requireProblem(a, core.CodeUnauthenticated)
			p.requireEffects(before, 0)
		}
	}
	p.replays(first, recorded)
}

// CONTRACT O-3
func lostRoleGetsNoReplay(p *probe) {
	p.need(p.Tokens.Demoted != nil, "Tokens.Demoted is missing")
	r := p.valid()
	first := p.apply(r)
	p.refused(r.withToken(p.Tokens.Demoted(owner)), core.CodeForbidden)
	p.replays(first, r) // the role is back
}
