package contracttest

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/wire"
)

// request is a request as a check wants it. It is copied to make variations of it.
type request struct {
	method      string
	path        string   // with the query
	token       string   // sent as a bearer token; "" sends none
	keys        []string // the lines of the key's header
	contentType string
	body        []byte
	padding     int         // white space behind the body, in bytes
	header      http.Header // more header lines
	chunked     bool        // the length of the body is not told
}

func (r request) length() int { return len(r.body) + r.padding }

func (r request) reader() io.Reader {
	return io.MultiReader(bytes.NewReader(r.body), io.LimitReader(whiteSpace{}, int64(r.padding)))
}

// whiteSpace is spaces without end.
type whiteSpace struct{}

func (whiteSpace) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func (r request) withKey(lines ...string) request {
	r.keys = lines
	return r
}

func (r request) withToken(token string) request {
	r.token = token
	return r
}

func (r request) withBody(body []byte) request {
	r.body = body
	return r
}

// padded returns r with a body of the given size.
func (r request) padded(size int64) request {
	r.padding = max(0, int(size)-len(r.body))
	return r
}

func (r request) withQuery(query string) request {
	separator := "?"
	if strings.Contains(r.path, "?") {
		separator = "&"
	}
	r.path += separator + query
	return r
}

// answer is an answer, read whole.
type answer struct {
	sent   request
	status int
	header http.Header
	body   []byte
}

// send sends r and requires an answer, whatever it is. While the store is too busy for it, nothing is run, and r is sent
// again, as a client does (F-1).
func (p *probe) send(r request) answer {
	p.Helper()
	for until := time.Now().Add(p.patience); ; {
		a, err := p.try(r)
		require.NoError(p, err, "no whole answer to %s", a)
		if !a.isBusy() || time.Now().After(until) {
			return a
		}
		time.Sleep(pause)
	}
}

// pause is how long the suite waits before it sends a command again.
const pause = 20 * time.Millisecond

// isBusy reports whether the guards have refused a request because the store did not answer in time.
func (a answer) isBusy() bool {
	return a.status == http.StatusServiceUnavailable && a.header.Get(wire.HeaderProblem) == string(core.CodeStoreUnavailable)
}

// try sends r. The error says that no whole answer came.
func (p *probe) try(r request) (answer, error) {
	p.remember(r)
	req, err := http.NewRequestWithContext(p.Context(), r.method, p.URL+r.path, r.reader())
	if err != nil {
		return answer{sent: r}, err
	}
	switch {
	case r.chunked:
		req.ContentLength = -1
	case r.length() == 0:
		req.Body = http.NoBody
	default:
		req.ContentLength = int64(r.length())
	}
	maps.Copy(req.Header, r.header)
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	if r.keys != nil {
		req.Header[p.Header] = r.keys
	}
	if r.contentType != "" {
		req.Header.Set("Content-Type", r.contentType)
	}
	res, err := p.client.Do(req)
	return p.read(r, res, err)
}

// read reads the answer to r whole.
func (p *probe) read(r request, res *http.Response, err error) (answer, error) {
	a := answer{sent: r}
	if err == nil {
		a.status, a.header = res.StatusCode, res.Header
		a.body, err = io.ReadAll(res.Body)
		_ = res.Body.Close() // read to its end, or broken
	}
	p.about(a)
	return a, err
}

// String is for messages. It shows no token.
func (a answer) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\nkey %.300q\n%s, %d bytes\n\n%.300q\n", a.sent.method, a.sent.path, a.sent.keys,
		a.sent.contentType, a.sent.length(), a.sent.body)
	if a.status == 0 {
		return b.String() + "-> no answer"
	}
	fmt.Fprintf(&b, "-> %d\n", a.status)
	for _, name := range []string{"Content-Type", "Idempotency-Result", "Idempotent-Replayed", "Retry-After"} {
		if values := a.header.Values(name); len(values) > 0 {
			fmt.Fprintf(&b, "%s: %s\n", name, strings.Join(values, " | "))
		}
	}
	fmt.Fprintf(&b, "\n%.600q", a.body)
	return b.String()
}
