package contracttest

import (
	"bytes"
	"mime"
	"mime/multipart"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/wire"
)

var hashChecks = []check{
	{"H-1", "the query belongs to the command", queryCounts, nil},
	{"H-1", "the concrete path belongs to the command", pathCounts, hasOtherPath},
	{"H-1", "the method belongs to the command", methodCounts, nil},
	{"H-1", "the content type belongs to the command", contentTypeCounts, nil},
	{"H-8", "parameters of the content type belong to the command", parametersCount, isUTF8},
	{"H-8", "the charset UTF-8 does not count", charsetDoesNotCount, isUTF8},
	{"H-2", "the order of members and white space do not count in JSON", orderOfMembersDoesNotCount, takesJSON},
	{"H-2", "what is deep inside is as free in its order", orderInsideDoesNotCount, takesMembers},
	{"H-2", "every digit of a number counts", digitsCount, takesMembers},
	{"H-2", "null is not absent", nullCounts, takesMembers},
	{"H-2", "the order of an array counts", orderOfArraysCounts, takesMembers},
	{"H-2", "nested members count", nestedMembersCount, takesMembers},
	{"H-2", "types and letters count", typesCount, takesMembers},
	{"H-2", "duplicate members count", duplicatesCount, takesMembers},
	{"H-6", "members that differ only by case are two", caseOfNamesCounts, takesMembers},
	{"H-3", "the boundary of a multipart body does not count", boundaryDoesNotCount, takesMultipart},
}

// CONTRACT H-1
func queryCounts(p *probe) {
	r := p.valid()
	first := p.apply(r)
	p.reused(r.withQuery("contracttest=1"))
	p.replays(first, r)

	r = p.valid()
	first = p.apply(r.withQuery("contracttest=1&contracttest2=2"))
	p.replays(first, r.withQuery("contracttest2=2&contracttest=1"))
	p.reused(r.withQuery("contracttest2=2&contracttest=3"))
	p.reused(r)
}

// CONTRACT H-1
func pathCounts(p *probe) {
	r := p.valid()
	first := p.apply(r)
	other := r
	other.path = p.OtherPath
	p.reused(other)
	p.replays(first, r)
}

// CONTRACT H-1, S-3
func methodCounts(p *probe) {
	i := slices.IndexFunc(p.Routes, func(r Route) bool { return r.Path == p.Path && r.Method != p.Method })
	p.need(i >= 0, "App.Routes has no other method on this path")
	r := p.valid()
	first := p.apply(r)
	other := r
	other.method = p.Routes[i].Method
	p.reused(other)
	p.replays(first, r)
}

// CONTRACT H-1
func contentTypeCounts(p *probe) {
	r := p.valid()
	first := p.apply(r)
	for _, contentType := range []string{
		"application/x-contracttest", "application/x-contracttest+json", "text/plain", "",
	} {
		if other := r; contentType != r.contentType {
			other.contentType = contentType
			p.reused(other)
		}
	}
	p.replays(first, r)
}

// The handler sees a parameter in the second half only, and may refuse it.
//
// CONTRACT H-8
func parametersCount(p *probe) {
	r := p.valid()
	first := p.apply(r)
	p.reused(p.withParameter(r, "contracttest", "1"))
	p.replays(first, r)

	r = p.withParameter(p.valid(), "contracttest", "1")
	if a := p.repeats(r); a.header.Get(wire.HeaderResult) == wire.ResultCreated {
		p.reused(p.withParameter(r, "contracttest", "2"))
		p.replays(a, p.withParameter(r, "charset", "UTF-8"))
	}
}

// CONTRACT H-8
func charsetDoesNotCount(p *probe) {
	r := p.valid()
	first := p.apply(r)
	for _, charset := range []string{"utf-8", "UTF-8", ""} {
		p.replays(first, p.withParameter(r, "charset", charset))
	}
	p.reused(p.withParameter(r, "charset", "iso-8859-1"))
}

// withParameter returns r with a parameter of its content type. "" leaves the parameter out.
func (p *probe) withParameter(r request, name, value string) request {
	p.Helper()
	media, parameters, err := mime.ParseMediaType(r.contentType)
	require.NoError(p, err, "the content type of Route.Body")
	parameters[name] = value
	if value == "" {
		delete(parameters, name)
	}
	r.contentType = mime.FormatMediaType(media, parameters)
	return r
}

// CONTRACT H-2
func orderOfMembersDoesNotCount(p *probe) {
	r := p.valid()
	first := p.apply(r)
	again, err := reordered(r.body)
	require.NoError(p, err, "Route.Body")
	p.replays(first, r.withBody(again))
	p.replays(first, r.withBody(append([]byte("\r\n\t "), r.body...)))
}

// CONTRACT H-2
func orderInsideDoesNotCount(p *probe) {
	p.sameCommand(`{"a":[1,{"b":2,"c":{"d":3,"e":null}}],"f":"g"}`,
		` {"f" : "g", "a" : [ 1, {"c" : {"e" : null, "d" : 3}, "b" : 2 } ] } `)
}

// The first pair are 2^53+1 and 2^53, which are equal in floating point, as are the others.
//
// CONTRACT H-2
func digitsCount(p *probe) {
	p.otherCommand(`9007199254740993`, `9007199254740992`)
	p.otherCommand(`{"amount":10000000000000000.01}`, `{"amount":10000000000000000.02}`)
	p.otherCommand(`[123456789012345678901234567890]`, `[123456789012345678901234567891]`)
	p.otherCommand(`1E400`, `1E500`)
	p.otherCommand(`-0.1`, `0.1`)
}

// CONTRACT H-2
func nullCounts(p *probe) {
	p.otherCommand(`null`, ``)
	p.otherCommand(`{"a":null}`, `{}`)
	p.otherCommand(`null`, `""`)
	p.otherCommand(`null`, `0`)
	p.otherCommand(`{}`, `[]`)
}

// CONTRACT H-2
func orderOfArraysCounts(p *probe) {
	p.otherCommand(`[1,2]`, `[2,1]`)
	p.otherCommand(`[[1],[]]`, `[[],[1]]`)
}

// CONTRACT H-2
func nestedMembersCount(p *probe) {
	p.otherCommand(`{"a":{"b":1}}`, `{"a":{"b":2}}`)
	p.otherCommand(`{"a":{"b":1}}`, `{"a":{}}`)
	p.otherCommand(`[{"a":{"b":1,"c":2}}]`, `[{"a":{"b":2,"c":1}}]`)
}

// CONTRACT H-2
func typesCount(p *probe) {
	p.otherCommand(`1`, `"1"`)
	p.otherCommand(`true`, `"true"`)
	p.otherCommand(`"a"`, `"A"`)
	p.otherCommand(`"a"`, `"a "`)
	p.otherCommand(`{"a":1}`, `{"A":1}`)
}

// Parsers differ in which of two members of one name they believe.
//
// CONTRACT H-2
func duplicatesCount(p *probe) {
	p.otherCommand(`{"a":1,"a":2}`, `{"a":2}`)
	p.otherCommand(`{"a":1,"a":2}`, `{"a":2,"a":1}`)
}

// Go's decoders take such names for one, and believe the last.
//
// CONTRACT H-6
func caseOfNamesCounts(p *probe) {
	p.otherCommand(`{"a":1,"A":2}`, `{"A":1,"a":2}`)
	p.otherCommand(`{"a":1,"A":2}`, `{"A":2,"a":1}`)
}

// carry sends a command with a member of the given value, and returns the command without it.
func (p *probe) carry(value string) (first answer, sent, bare request) {
	p.Helper()
	bare = p.valid()
	sent = bare.withBody(withMember(bare.body, value))
	first = p.send(sent)
	require.Equal(p, wire.ResultCreated, first.header.Get(wire.HeaderResult),
		"a body with the member %q more; where the handler refuses members that it does not know, set Route.Strict", extra)
	p.requireRecorded(first)
	return first, sent, bare
}

// sameCommand requires that two values of a member make the same command.
func (p *probe) sameCommand(one, two string) {
	p.Helper()
	first, _, bare := p.carry(one)
	p.replays(first, bare.withBody(withMember(bare.body, two)))
}

// otherCommand requires that two values of a member make two commands. "" leaves the member out.
func (p *probe) otherCommand(one, two string) {
	p.Helper()
	first, sent, bare := p.carry(one)
	other := bare
	if two != "" {
		other = bare.withBody(withMember(bare.body, two))
	}
	p.reused(other)
	p.replays(first, sent)
}

// A client that retries makes a new boundary.
//
// CONTRACT H-3
func boundaryDoesNotCount(p *probe) {
	r := p.valid()
	_, parameters, err := mime.ParseMediaType(r.contentType)
	require.NoError(p, err, "the content type of Route.Body")
	boundary := parameters["boundary"]
	require.NotEmpty(p, boundary, "the boundary in the content type of Route.Body")

	first := p.apply(r)
	fresh := multipart.NewWriter(nil).Boundary()
	again := r.withBody(bytes.ReplaceAll(r.body, []byte(boundary), []byte(fresh)))
	again.contentType = strings.ReplaceAll(r.contentType, boundary, fresh)
	p.replays(first, again)

	other := p.other(r)
	p.reused(other)
}
