package contracttest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/wire"
)

// patience bounds every wait for the app.
const patience = 30 * time.Second

// tester is what a check needs of a *testing.T.
type tester interface {
	require.TestingT
	Helper()
	Skip(args ...any)
	Context() context.Context
}

// probe is one check at work on one route. As the TestingT of the check's assertions it adds to each failure the rule,
// and what was sent and answered last.
type probe struct {
	tester
	*suite
	Route
	check check

	mu   sync.Mutex
	last answer
}

// Errorf implements require.TestingT.
func (p *probe) Errorf(format string, args ...any) {
	p.Helper()
	p.mu.Lock()
	last := p.last
	p.mu.Unlock()
	p.tester.Errorf("CONTRACT %s: %s\n%s\nThe last exchange:\n%s", p.check.rule, p.check.words,
		fmt.Sprintf(format, args...), last)
}

// about makes a the answer that the next failure is about.
func (p *probe) about(a answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = a
}

// at returns the same check at work on another route.
func (p *probe) at(r Route) *probe {
	return &probe{tester: p.tester, suite: p.suite, Route: r, check: p.check}
}

// The principals of the suite.
const (
	owner    = 1
	stranger = 2
)

// valid returns a command that the app has not seen, with a new key, as the owner sends it.
func (p *probe) valid() request { return p.command(p.Body) }

func (p *probe) command(kind Body) request {
	p.commands++
	contentType, body := kind(p.commands)
	return request{
		method: p.Method, path: p.Path, token: p.Tokens.Of(owner), keys: []string{newKey()},
		contentType: contentType, body: body,
	}
}

// other returns r with another command: the body of another valid one.
func (p *probe) other(r request) request {
	another := p.valid()
	r.contentType, r.body = another.contentType, another.body
	return r
}

// effects counts the effects of the route, 0 if the route cannot count them.
func (p *probe) effects() int {
	p.Helper()
	if p.Effects == nil {
		return 0
	}
	n, err := p.Effects(p.Context())
	require.NoError(p, err, "Route.Effects")
	return n
}

// requireEffects requires that there are added effects more than before.
func (p *probe) requireEffects(before, added int) {
	p.Helper()
	if p.Effects != nil {
		require.Equal(p, added, p.effects()-before, "commands that were applied")
	}
}

// requireRecorded requires a first answer, recorded by now.
func (p *probe) requireRecorded(a answer) {
	p.Helper()
	p.about(a)
	require.Less(p, a.status, 500, "the status of a command that was carried out")
	require.Equal(p, wire.ResultCreated, a.header.Get(wire.HeaderResult), "%s of a first answer (M-3)", wire.HeaderResult)
	require.Empty(p, a.header.Get(wire.HeaderReplayed), "%s of a first answer (M-3)", wire.HeaderReplayed)
	p.requireEcho(a)
}

// requireApplied requires the first answer of a command that was applied.
func (p *probe) requireApplied(a answer) {
	p.Helper()
	p.about(a)
	require.True(p, a.status >= 200 && a.status < 300, "a valid command is applied: want 2xx, got %d", a.status)
	p.requireRecorded(a)
}

// apply sends a command and requires that it is applied, and so that nothing of before holds its key.
func (p *probe) apply(r request) answer {
	p.Helper()
	before := p.effects()
	a := p.send(r)
	p.requireApplied(a)
	p.requireEffects(before, 1)
	return a
}

// requireReplay requires that again is first as it was recorded (M-3).
func (p *probe) requireReplay(first, again answer) {
	p.Helper()
	p.about(again)
	require.Equal(p, first.status, again.status, "the status of a replay (M-3)")
	require.Equal(p, string(first.body), string(again.body), "the body of a replay, byte for byte (M-3)")
	require.Equal(p, wire.ResultReused, again.header.Get(wire.HeaderResult), "%s of a replay (M-3)", wire.HeaderResult)
	require.Equal(p, "true", again.header.Get(wire.HeaderReplayed), "%s of a replay (M-3)", wire.HeaderReplayed)
	for _, name := range slices.Concat(recordedHeaders, p.ReplayHeaders) {
		require.Equal(p, first.header.Values(name), again.header.Values(name), "the recorded header %s (M-3, R-3)", name)
	}
	p.requireEcho(again)
}

// recordedHeaders are the answer headers that every app records.
var recordedHeaders = []string{"Content-Type", "Content-Encoding", "Content-Language", "Content-Disposition", "Location",
	"Etag", "Link", "Last-Modified"}

// requireEcho requires the key's header in the answer as it was sent (M-3, K-7).
func (p *probe) requireEcho(a answer) {
	p.Helper()
	require.Equal(p, a.sent.keys, a.header.Values(p.Header), "the echo of %s (M-3)", p.Header)
}

// replays sends r again and requires the recorded answer and no effect.
func (p *probe) replays(first answer, r request) {
	p.Helper()
	before := p.effects()
	p.requireReplay(first, p.send(r))
	p.requireEffects(before, 0)
}

// refused sends r and requires a problem and no effect.
func (p *probe) refused(r request, code core.Code) problem {
	p.Helper()
	before := p.effects()
	found := p.requireProblem(p.send(r), code)
	p.requireEffects(before, 0)
	return found
}

// reused requires that r, whose key belongs to another command, is refused for good (M-1).
func (p *probe) reused(r request) problem {
	p.Helper()
	found := p.refused(r, core.CodeKeyReused)
	require.Empty(p, found.retryAfter, "Retry-After of key_reused: repeating would not help (M-1)")
	return found
}

// need skips the check where the suite was not told enough.
func (p *probe) need(there bool, missing string) {
	p.Helper()
	if !there {
		p.Skip("not checked: " + missing)
	}
}
