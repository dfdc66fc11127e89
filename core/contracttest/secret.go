package contracttest

import (
	"bytes"
	"index/suffixarray"
	"iter"
	"strconv"
	"strings"
	"sync"

	"github.com/stretchr/testify/require"
)

// secretsOf yields what of a request must appear in no problem and no log: key, token and body, by their names. Short
// values are left out, because they may appear by chance.
func secretsOf(r request) iter.Seq2[string, string] {
	return func(yield func(what, secret string) bool) {
		for _, line := range r.keys {
			if key := strings.Trim(line, `" `); len(key) >= 8 && !yield("key", key) {
				return
			}
		}
		if len(r.token) >= 8 && !yield("token", r.token) {
			return
		}
		if len(r.body) >= 16 && !yield("body", string(r.body)) {
			return
		}
	}
}

// secrets collects what was sent.
type secrets struct {
	secretsMu sync.Mutex
	sent      map[string]string // what it is, by the secret
}

// maxRemembered keeps bodies of megabytes, which hold no secrets, out of memory.
const maxRemembered = 16 << 10

func (s *secrets) remember(r request) {
	s.secretsMu.Lock()
	defer s.secretsMu.Unlock()
	if s.sent == nil {
		s.sent = map[string]string{marker: "body"}
	}
	for what, secret := range secretsOf(r) {
		if len(secret) <= maxRemembered {
			s.sent[secret] = what
		}
	}
}

// marker is part of the bodies of secretChecks.
const marker = "contracttest-secret-4f1c29"

var secretChecks = []check{
	{"P-1", "a problem repeats nothing of the request", problemsTellNoSecrets, takesMembers},
}

// What these requests carry, the last check looks for in the log.
//
// CONTRACT P-1, K-6
func problemsTellNoSecrets(p *probe) {
	recorded := p.valid()
	recorded.body = withMember(recorded.body, strconv.Quote(marker))
	first := p.send(recorded)
	p.requireRecorded(first)

	another := recorded
	another.body = withMember(recorded.body, strconv.Quote(marker+" another"))
	another.header = map[string][]string{"X-Contract": {marker}}
	p.reused(another)
	p.requireNoMarker(p.send(another))
	for _, r := range []request{
		another.withKey(marker + " with a space"),
		another.withKey(marker, marker),
		another.withToken(marker + ".not.a-token"),
	} {
		p.requireNoMarker(p.send(r))
	}
	p.requireNoMarker(p.sendWire(another.withKey(newKey()).padded(p.MaxBody+1), whole))
}

func (p *probe) requireNoMarker(a answer) {
	p.Helper()
	require.True(p, a.status >= 400 && a.status < 500, "want 4xx, got %d", a.status)
	require.NotContains(p, string(a.body), marker, "a problem must repeat nothing of the request (P-1)")
}

var logChecks = []check{
	{"K-6", "the log holds no key, token or body", logHoldsNoSecrets, nil},
}

// CONTRACT K-6
func logHoldsNoSecrets(p *probe) {
	p.need(p.Logs != nil, "App.Logs is missing")
	logs := []byte(p.Logs())
	index := suffixarray.New(logs) // there are thousands of secrets to look for
	for secret, what := range p.sent {
		quoted := strconv.Quote(secret) // as log/slog writes it
		for _, form := range []string{secret, quoted[1 : len(quoted)-1]} {
			for _, at := range index.Lookup([]byte(form), 1) {
				line := logs[bytes.LastIndexByte(logs[:at], '\n')+1:]
				require.Fail(p, "the log holds the "+what, "%.100q is in the line\n%.500s", secret, line)
			}
		}
	}
}
