package contracttest

import (
	"bytes"
	"net/http"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/wire"
)

var bodyChecks = []check{
	{"H-5", "a body above the cap is refused and not recorded", largeBodyIsRefused, nil},
	{"H-5", "a body at the cap is taken", bodyAtTheCapIsTaken, takesJSON},
	{"H-5", "a body of unknown length is a body", chunksDoNotCount, nil},
	{"H-5", "a body that breaks off claims nothing", cutBodyClaimsNothing, nil},
	{"H-5", "large headers do no harm", largeHeadersDoNoHarm, nil},
	{"H-2", "invalid JSON is the handler's to refuse", invalidJSONIsRefused, takesJSON},
	{"H-2", "JSON of any depth is compared", deepJSONIsCompared, takesMembers},
	{"H-1", "a wrong content type is the handler's to refuse", wrongContentTypeIsRefused, nil},
}

// CONTRACT H-5
func largeBodyIsRefused(p *probe) {
	r := p.valid()
	before := p.effects()
	for _, size := range []int64{p.MaxBody + 1, max(10<<20, 2*p.MaxBody)} {
		large := r.padded(size)
		p.requireProblem(p.sendWire(large, whole), core.CodeBodyTooLarge)
		large.chunked = true
		p.requireProblem(p.sendWire(large, whole), core.CodeBodyTooLarge)
	}
	p.requireEffects(before, 0)
	p.apply(r)
}

// CONTRACT H-5
func bodyAtTheCapIsTaken(p *probe) {
	r := p.valid()
	first := p.apply(r.padded(p.MaxBody))
	p.replays(first, r) // white space does not count
}

// CONTRACT H-5
func chunksDoNotCount(p *probe) {
	r := p.valid()
	chunked := r
	chunked.chunked = true
	first := p.apply(chunked)
	p.replays(first, r)
	p.replays(first, chunked)

	before := p.effects()
	p.requireReplay(first, p.sendWire(chunked, whole))
	p.requireEffects(before, 0)
}

// The client goes away in the middle of its upload, in every way it can.
//
// CONTRACT H-5
func cutBodyClaimsNothing(p *probe) {
	for _, end := range []ending{cut, gone} {
		r := p.valid()
		before := p.effects()
		for _, chunked := range []bool{false, true} {
			cut := r
			cut.chunked = chunked
			p.requireRefused(p.sendWire(cut, end))
		}
		p.requireEffects(before, 0)
		p.apply(r)
	}
}

// CONTRACT H-5
func largeHeadersDoNoHarm(p *probe) {
	r := p.valid()
	large := r
	large.header = http.Header{"X-Contracttest": {strings.Repeat("x", 100<<10)}}
	before := p.effects()
	a := p.send(large)
	if a.status >= 400 { // a server or proxy may have a limit of its own
		p.requireRefused(a)
		p.requireEffects(before, 0)
		a = p.apply(r)
	}
	p.requireApplied(a)
	p.replays(a, r)
	p.requireEffects(before, 1)
}

// CONTRACT H-2
func invalidJSONIsRefused(p *probe) {
	r := p.valid()
	closing := bytes.LastIndexByte(r.body, '}')
	for _, invalid := range [][]byte{
		r.body[:closing], append(slices.Clone(r.body[:closing]), ']'), []byte("{]"), []byte("\xff\xfe{}"), {0}, nil,
	} {
		r = p.valid()
		before := p.effects()
		a := p.repeats(r.withBody(invalid))
		require.True(p, a.status >= 400 && a.status < 500, "the body %q: want 4xx, got %d", invalid, a.status)
		p.requireEffects(before, 0)
		if a.header.Get(wire.HeaderResult) == wire.ResultCreated {
			p.reused(r) // the mended body is another command
		}
	}
}

// CONTRACT H-2
func deepJSONIsCompared(p *probe) {
	const depth = 10_000
	bare := p.valid()
	deep := bare.withBody(withMember(bare.body, strings.Repeat("[", depth)+strings.Repeat("]", depth)))
	a := p.repeats(deep)
	if a.header.Get(wire.HeaderResult) == wire.ResultCreated {
		p.reused(bare.withBody(withMember(bare.body, strings.Repeat("[", depth)+"1"+strings.Repeat("]", depth))))
		p.reused(bare)
	}
	p.repeats(p.valid().withBody(bytes.Repeat([]byte("["), depth)))
	p.repeats(p.valid().withBody(bytes.Repeat([]byte(`{"a":`), depth)))
}

// CONTRACT H-1
func wrongContentTypeIsRefused(p *probe) {
	for _, contentType := range []string{
		"text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "no/;;type", "",
	} {
		r := p.valid()
		r.contentType = contentType
		p.repeats(r)
	}
}

// repeats sends r twice, and requires that neither fails and that the second is the replay of what was recorded. It
// returns the first answer.
func (p *probe) repeats(r request) answer {
	p.Helper()
	first := p.send(r)
	require.Less(p, first.status, 500, "the status of bad input")
	p.requireNotUnknown(first)
	if first.header.Get(wire.HeaderResult) == wire.ResultCreated {
		p.requireRecorded(first)
		p.replays(first, r)
		return first
	}
	again := p.send(r)
	require.Equal(p, first.status, again.status, "the status of the same bad input")
	require.Empty(p, again.header.Get(wire.HeaderReplayed), "nothing was recorded, and yet it is replayed")
	return first
}

func (p *probe) requireNotUnknown(a answer) {
	p.Helper()
	require.NotEqual(p, wire.ResultUnknown, a.header.Get(wire.HeaderResult), "%s of bad input", wire.HeaderResult)
}
