package adaptertest

import (
	"cmp"
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Client sends requests to an app behind a real server, as customer-1 unless a [Call] says otherwise.
type Client struct {
	t     testing.TB
	ctx   context.Context
	URL   string // of the server
	Token string // of customer-1
	HTTP  *http.Client
}

// Serve serves an app until the test ends.
func Serve(t testing.TB, app http.Handler) *Client {
	t.Helper()
	server := httptest.NewServer(app)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // panics, where that is the test
	t.Cleanup(server.Close)
	c := server.Client()
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.Transport.(*http.Transport).DisableCompression = true
	return &Client{t: t, ctx: t.Context(), URL: server.URL, Token: Sign(t, ClaimsOf("customer-1", "customer")), HTTP: c}
}

// With returns a client that reports to a subtest.
func (c *Client) With(t testing.TB) *Client {
	with := *c
	with.t, with.ctx = t, t.Context()
	return &with
}

// In returns a client whose requests are made in ctx.
func (c *Client) In(ctx context.Context) *Client {
	in := *c
	in.ctx = ctx
	return &in
}

// Call is a request; zero fields have defaults.
type Call struct {
	Method  string // POST
	Path    string // /v1/pay
	Host    string // the server's
	Key     string // none
	Token   string // customer-1's; "-" sends none
	Body    string
	Chunks  bool // of unknown length
	Headers map[string]string
}

// Answer is the answer to a [Call].
type Answer struct {
	Status int
	Header http.Header
	Body   string
	Err    error // the connection broke

	Trailer http.Header
}

// Result is the header Idempotency-Result.
func (a Answer) Result() string { return a.Header.Get("Idempotency-Result") }

// Request makes the request of a call.
func (c *Client) Request(call Call) *http.Request {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.ctx, cmp.Or(call.Method, http.MethodPost),
		c.URL+cmp.Or(call.Path, "/v1/pay"), strings.NewReader(call.Body))
	require.NoError(c.t, err)
	r.Host = call.Host
	if call.Chunks {
		r.ContentLength = -1
	}
	if token := cmp.Or(call.Token, c.Token); token != "-" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if call.Key != "" {
		r.Header.Set("Idempotency-Key", call.Key)
	}
	for name, value := range call.Headers {
		r.Header.Set(name, value)
	}
	return r
}

// Do sends a request.
func (c *Client) Do(call Call) Answer {
	c.t.Helper()
	res, err := c.HTTP.Do(c.Request(call))
	if err != nil {
		return Answer{Err: err}
	}
	defer func() { _ = res.Body.Close() }()
	return read(res)
}

// read reads an answer whole.
func read(res *http.Response) Answer {
	body, err := io.ReadAll(res.Body)
	return Answer{Status: res.StatusCode, Header: res.Header, Body: string(body), Err: err, Trailer: res.Trailer}
}

// recorded are the headers of an answer that its replay has too.
func recorded(h http.Header) http.Header {
	kept := http.Header{}
	for _, name := range []string{"Content-Type", "Content-Encoding", "Content-Language", "Content-Disposition", "Location",
		"Etag", "Link", "Last-Modified"} {
		if values := h[name]; values != nil {
			kept[name] = values
		}
	}
	return kept
}

// RequireReplay sends call twice, requires the recorded answer for the second, and returns the first. The key is key-1
// where the call has none.
func (c *Client) RequireReplay(call Call) Answer {
	c.t.Helper()
	call.Key = cmp.Or(call.Key, "key-1")
	first, again := c.Do(call), c.Do(call)
	require.NoError(c.t, first.Err)
	require.NoError(c.t, again.Err)
	require.Equal(c.t, "created", first.Result(), "%+v", first)
	require.Empty(c.t, first.Header.Get("Idempotent-Replayed"))
	require.Equal(c.t, "reused", again.Result(), "%+v", again)
	require.Equal(c.t, "true", again.Header.Get("Idempotent-Replayed"))
	require.Equal(c.t, first.Status, again.Status)
	require.Equal(c.t, first.Body, again.Body)
	require.Equal(c.t, recorded(first.Header), recorded(again.Header))
	require.Equal(c.t, call.Key, again.Header.Get("Idempotency-Key"))
	return first
}

// requireUnknown sends a call twice to a Park route whose handler lets go of its attempt, and requires an outcome that
// nobody knows. The first answer is a problem that names the mistake, or that of the app's recovery middleware.
func (c *Client) requireUnknown(named bool) {
	c.t.Helper()
	first := c.Do(Call{Key: "key-1"})
	if named {
		RequireProblem(c.t, http.StatusInternalServerError, "misconfigured", first)
		require.Contains(c.t, first.Body, "context.WithoutCancel")
	}
	require.Equal(c.t, http.StatusInternalServerError, first.Status)
	require.Equal(c.t, "unknown", first.Result())
	RequireProblem(c.t, http.StatusConflict, "outcome_unknown", c.Do(Call{Key: "key-1"}))
}

// RequireProblem requires a problem of the given status and code.
func RequireProblem(t testing.TB, status int, code string, got Answer) {
	t.Helper()
	require.NoError(t, got.Err)
	require.Equal(t, status, got.Status, got.Body)
	require.Equal(t, "application/problem+json", got.Header.Get("Content-Type"))
	require.Contains(t, got.Body, `"code":"`+code+`"`)
}
