package contracttest

import (
	"net/http"
	"net/textproto"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/wire"
)

var keyChecks = []check{
	{"K-1", "a key is required", keyIsRequired, nil},
	{"K-2", "a bare and a quoted key are the same key", quotesDoNotCount, nil},
	{"K-2", "nothing may follow a quoted key", nothingFollowsTheKey, nil},
	{"K-3", "a key has 1 to 255 visible ASCII characters", badKeysAreRefused, nil},
	{"K-3", "every visible ASCII character may be in a key", goodKeysAreTaken, nil},
	{"K-3", "bytes that no client library sends are refused", oddBytesAreRefused, nil},
	{"K-4", "the header stands once and is no list", oneKeyOnly, nil},
	{"K-5", "a key in the URL is refused", keyInURLIsRefused, nil},
	{"K-7", "the header has its configured name", headerHasItsName, nil},
}

// CONTRACT K-1
func keyIsRequired(p *probe) {
	for _, lines := range [][]string{nil, {""}, {" "}} {
		found := p.refused(p.valid().withKey(lines...), core.CodeKeyMissing)
		if p.ProblemCode == nil {
			require.Contains(p, found.Detail, p.Header, "the detail names the header")
			require.Contains(p, found.Detail, "required", "the detail says that the header is required")
		}
	}
}

// CONTRACT K-2
func quotesDoNotCount(p *probe) {
	r := p.valid()
	quoted := r.withKey(`"` + r.keys[0] + `"`)
	first := p.apply(r)
	p.replays(first, quoted)
	p.reused(p.other(quoted))

	r = p.valid()
	first = p.apply(r.withKey(`"` + r.keys[0] + `"`))
	p.replays(first, r)
}

// CONTRACT K-2
func nothingFollowsTheKey(p *probe) {
	for _, rest := range []string{";a=1", ";", ` "x"`, "x", ","} {
		p.refused(p.valid().withKey(`"`+newKey()+`"`+rest), core.CodeKeyInvalid)
	}
}

// CONTRACT K-3
func badKeysAreRefused(p *probe) {
	key := newKey()
	for what, bad := range map[string]string{
		"256 characters":         strings.Repeat("k", 256),
		"256 quoted characters":  `"` + strings.Repeat("k", 256) + `"`,
		"100 KB":                 strings.Repeat("k", 100<<10),
		"nothing between quotes": `""`,
		"space":                  key + " " + key,
		"quoted space":           `"` + key + ` x"`,
		"tab":                    key + "\t" + key,
		"comma":                  key + ",x",
		"no closing quote":       `"` + key,
		"escaped closing quote":  `"` + key + `\"`,
		"other escape":           `"` + key + `\n"`,
		"UTF-8":                  key + "é",
		"quoted UTF-8":           `"` + key + `é"`,
		"Latin-1":                key + "\xe9",
	} {
		r := p.valid().withKey(bad)
		before := p.effects()
		a := p.send(r)
		p.requireEffects(before, 0)
		if a.status == http.StatusRequestHeaderFieldsTooLarge {
			continue // the server's own limit
		}
		require.Equal(p, 400, a.status, "a key with %s", what)
		p.requireProblem(a, core.CodeKeyInvalid)
	}
}

// CONTRACT K-3, K-10
func goodKeysAreTaken(p *probe) {
	if p.KeyFormat != core.AnyKey {
		for _, bad := range []string{
			"key-" + newKey(), strings.ReplaceAll(newKey(), "-", ""), newKey() + "0", strings.ToUpper(newKey()),
		} {
			p.refused(p.valid().withKey(bad), core.CodeKeyInvalid)
		}
		return
	}
	var visible strings.Builder
	for c := byte('!'); c <= '~'; c++ {
		visible.WriteByte(c)
	}
	bare := newKey() + strings.ReplaceAll(visible.String(), ",", "")
	quoted := `"` + newKey() + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(visible.String()) + `"`
	longest := newKey() + strings.Repeat("k", 255-36)
	for _, key := range []string{bare, quoted, longest, `"` + newKey() + longest[36:] + `"`} {
		r := p.valid().withKey(key)
		first := p.apply(r)
		p.replays(first, r)
	}
	key := newKey()
	for _, suffix := range []string{"-a", "-A", "-1", "-10"} {
		p.apply(p.valid().withKey(key + suffix))
	}
}

// Control characters do not get past net/http's own server; they must not get past any other either.
//
// CONTRACT K-3
func oddBytesAreRefused(p *probe) {
	for _, odd := range []string{"\x00", "\x01", "\x0b", "\x1b[31m", "\x7f", "\x80", "\xff"} {
		for _, format := range []string{"%", `"%"`} {
			r := p.valid()
			before := p.effects()
			a := p.sendWire(r.withKey(strings.ReplaceAll(format, "%", r.keys[0]+odd+"x")), whole)
			p.requireRefused(a)
			p.requireEffects(before, 0)
			p.apply(r)
		}
	}
}

// CONTRACT K-4
func oneKeyOnly(p *probe) {
	a, b := newKey(), newKey()
	for _, lines := range [][]string{
		{a, b}, {a, a}, {a, ""}, {"", a}, {a + ", " + b}, {a + "," + b}, {`"` + a + `", "` + b + `"`}, {a, "", b},
	} {
		p.refused(p.valid().withKey(lines...), core.CodeKeyInvalid)
	}
	p.apply(p.valid().withKey(a)) // none of them was taken
}

// CONTRACT K-5
func keyInURLIsRefused(p *probe) {
	name := strings.ToLower(p.Header)
	for _, query := range []string{
		"idempotency_key=in-the-url", "idempotency-key=in-the-url", "a=b&Idempotency-Key=in-the-url", "idempotency_key",
		"idempotency%5Fkey=in-the-url", name + "=in-the-url", strings.ReplaceAll(name, "-", "_") + "=in-the-url",
	} {
		r := p.valid()
		p.refused(r.withQuery(query).withKey(), core.CodeKeyInURL)
		p.refused(r.withQuery(query), core.CodeKeyInURL)
		p.apply(r)
	}
}

// CONTRACT K-7
func headerHasItsName(p *probe) {
	r := p.valid()
	if textproto.CanonicalMIMEHeaderKey(wire.HeaderKey) != p.Header {
		other := r.withKey()
		other.header = http.Header{wire.HeaderKey: r.keys}
		p.refused(other, core.CodeKeyMissing)
	}
	p.replays(p.apply(r), r)
}
