package core_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/internal/command"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/core/wire"
)

// Each request has a fault and all those that are checked after it.
//
// CONTRACT O-1, O-2, K-1, K-5, H-5
func TestOrderOfChecks(t *testing.T) {
	store := newFaultStore(memstore.New())
	claims := store.count("claim")
	a := newApp(t, core.Config{Store: store, Routes: core.Routes{
		"POST " + pattern: {Recovery: core.Park, Roles: []string{"customer"}, MaxBody: 10},
	}}, created)
	reuse := a.post("k-1", `{}`)
	require.Equal(t, http.StatusCreated, reuse.Code)

	anonymous, demoted := core.Principal{}, core.Principal{Issuer: alice.Issuer, Subject: alice.Subject}
	keyInURL := func(r *http.Request) { r.URL.RawQuery = "idempotency_key=k-1" }
	noKey := func(r *http.Request) { r.Header.Del("Idempotency-Key") }
	large := func(r *http.Request) {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(`{"amount":12345}`)), 16
	}
	for _, test := range []struct {
		name   string
		caller core.Principal
		edits  []func(*http.Request)
		status int
		code   core.Code
	}{
		{"no principal", anonymous, []func(*http.Request){keyInURL, noKey, large}, 401, core.CodeUnauthenticated},
		{"no role", demoted, []func(*http.Request){keyInURL, noKey, large}, 403, core.CodeForbidden},
		{"key in the URL", alice, []func(*http.Request){keyInURL, noKey, large}, 400, core.CodeKeyInURL},
		{"key in the URL, too", alice, []func(*http.Request){keyInURL}, 400, core.CodeKeyInURL},
		{"no key", alice, []func(*http.Request){noKey, large}, 400, core.CodeKeyMissing},
		{"body too large", alice, []func(*http.Request){large}, 413, core.CodeBodyTooLarge},
		{"no role, for a replay", demoted, nil, 403, core.CodeForbidden},
	} {
		t.Run(test.name, func(t *testing.T) {
			*claims = 0
			w := a.postAs(test.caller, "k-1", `{}`, test.edits...)
			requireProblem(t, w, test.status, test.code)
			require.Zero(t, *claims, "nothing is recorded, nothing replayed")
			told := a.events[len(a.events)-1]
			require.Equal(t, test.status == 401 || test.status == 403, told.Err != nil, "the reason is for the observer")
			told.Err = nil
			require.Equal(t, core.Event{Kind: core.EventRefused, Method: "POST", Route: pattern, Recovery: core.Park,
				Code: test.code}, told)
			if test.status == 401 {
				require.Equal(t, "Bearer", w.Header().Get("WWW-Authenticate"))
			}
		})
	}
	require.Equal(t, 1, a.ran())
}

// CONTRACT O-2, O-1, O-3
func TestCallersOfEveryGuard(t *testing.T) {
	t.Run("a route without roles is for any principal, but not for nobody", func(t *testing.T) {
		for _, cfg := range []core.Config{
			{Policy: core.Policy{Recovery: core.Park}},
			{Routes: core.Routes{"POST " + pattern: {Recovery: core.Park}}},
		} {
			a := newApp(t, cfg, created)
			for _, anonymous := range []core.Principal{{}, {Issuer: alice.Issuer}, {Subject: alice.Subject}, {Tenant: "t", Roles: alice.Roles}} {
				r := httptest.NewRequest(http.MethodPost, pattern, http.NoBody) // not even a key
				requireProblem(t, written(t, a.module.CheckRoles(r, pattern, anonymous)), 401, core.CodeUnauthenticated)
				_, reply := a.module.Admit(r, pattern, anonymous)
				requireProblem(t, written(t, reply), 401, core.CodeUnauthenticated)
				_, reply = a.module.Begin(r, pattern, anonymous)
				requireProblem(t, written(t, reply), 401, core.CodeUnauthenticated)
			}
			require.Equal(t, http.StatusCreated, a.postAs(core.Principal{Issuer: "i", Subject: "s"}, "k-1", `{}`).Code)
		}
	})
	t.Run("roles are checked on every repeat", func(t *testing.T) {
		for _, routes := range []core.Routes{nil, {"POST " + pattern: {Recovery: core.Park, Roles: []string{"customer", "seller"}}}} {
			cfg := core.Config{Routes: routes}
			if routes == nil { // without a table the module's own policy holds
				cfg.Policy = core.Policy{Recovery: core.Park, Roles: []string{"customer", "seller"}}
			}
			a := newApp(t, cfg, created)
			caller := alice
			caller.Roles = []string{"other", "seller"}
			require.Equal(t, http.StatusCreated, a.postAs(caller, "k-1", `{}`).Code)
			caller.Roles = []string{"other"}
			requireProblem(t, a.postAs(caller, "k-1", `{}`), http.StatusForbidden, core.CodeForbidden)
			require.Contains(t, a.logged(), `level=INFO msg="idem: refused"`)
			require.Contains(t, a.logged(), "the caller has none of these; it has 1 others")
			caller.Roles = nil // of an app's own middleware that knows no roles
			requireProblem(t, a.postAs(caller, "k-1", `{}`), http.StatusForbidden, core.CodeForbidden)
			require.Contains(t, a.logged(), "the caller has no role at all")
			caller.Roles = []string{"customer"}
			require.Equal(t, "reused", a.postAs(caller, "k-1", `{}`).Header().Get("Idempotency-Result"))

			// Without a roles guard of its own the chain is no way around the roles.
			r := newCommand("k-2", "")
			_, reply := a.module.Admit(r, pattern, core.Principal{Issuer: "i", Subject: "s"})
			require.Equal(t, http.StatusForbidden, reply.Status)
		}
	})
}

// CONTRACT O-4, K-8
func TestRoutesThatNeedNoKey(t *testing.T) {
	a := newApp(t, core.Config{Routes: core.Routes{
		"POST " + pattern:   {Recovery: core.Park},
		"PATCH /profile":    {Exempt: "moves no money"},
		"PUT /limits":       {Exempt: "moves no money", Roles: []string{"admin"}},
		"GET /ledger":       {Roles: []string{"operator"}},
		"OPTIONS /ledger":   {},
		"GET /totals":       {Roles: []string{"operator"}},
		"HEAD /totals":      {Roles: []string{"customer"}},
		"DELETE /forgotten": {Exempt: "moves no money"},
	}}, nil)
	operator := core.Principal{Issuer: "i", Subject: "o", Roles: []string{"operator", "admin"}}
	for _, test := range []struct {
		method, pattern string
		caller          core.Principal
		status          int
	}{
		{"GET", pattern, core.Principal{}, 200},
		{"HEAD", pattern, core.Principal{}, 200},
		{"OPTIONS", pattern, core.Principal{}, 200},
		{"TRACE", pattern, core.Principal{}, 200},
		{"POST", "", core.Principal{}, 200}, // the router knows no route
		{"PATCH", "/profile", core.Principal{}, 200},
		{"PUT", "/limits", core.Principal{}, 401},
		{"PUT", "/limits", alice, 403},
		{"PUT", "/limits", operator, 200},
		{"GET", "/ledger", core.Principal{}, 401},
		{"GET", "/ledger", alice, 403},
		{"GET", "/ledger", operator, 200},
		{"HEAD", "/ledger", core.Principal{}, 401}, // routers answer it with GET's handler
		{"HEAD", "/ledger", alice, 403},
		{"HEAD", "/ledger", operator, 200},
		{"OPTIONS", "/ledger", core.Principal{}, 200},
		{"GET", "/totals", alice, 403},
		{"HEAD", "/totals", alice, 200},
		{"HEAD", "/totals", operator, 403}, // its own line, not that of GET
		{"POST", "/ledger", operator, 500}, // the line of GET is for reading
		{"POST", "/elsewhere", core.Principal{}, 401},
		{"POST", "/elsewhere", operator, 500},
		{"PUT", pattern, operator, 500},
		{"QUERY", pattern, operator, 500}, // not known to be safe
	} {
		t.Run(test.method+" "+test.pattern+" "+test.caller.Subject, func(t *testing.T) {
			a.pattern = test.pattern
			body := io.NopCloser(strings.NewReader("body"))
			r := httptest.NewRequest(test.method, "/any?idempotency_key=1", nil)
			r.Body = body
			ran := false
			a.handler = func(_ http.ResponseWriter, seen *http.Request) {
				ran = true
				require.Same(t, r, seen, "untouched")
				require.Equal(t, body, seen.Body, "untouched")
			}
			w := httptest.NewRecorder()
			a.serve(w, r, test.caller)
			require.Equal(t, test.status, w.Code)
			require.Equal(t, test.status == 200, ran)
			switch test.status {
			case 500:
				requireProblem(t, w, 500, core.CodeRouteUndeclared)
				_, reply := a.module.Begin(r, test.pattern, test.caller)
				require.Equal(t, 500, reply.Status, "the interceptor alone refuses as well")
			case 200:
				require.Empty(t, w.Header())
				attempt, reply := a.module.Begin(r, test.pattern, test.caller)
				require.Nil(t, attempt)
				require.Nil(t, reply)
			}
		})
	}
}

// CONTRACT K-8, R-5, F-1
func TestRequestsThatClaimNothing(t *testing.T) {
	t.Run("without a table safe methods and unknown paths pass", func(t *testing.T) {
		a := newApp(t, core.Config{}, status(200))
		for _, test := range []struct{ method, pattern string }{{"GET", pattern}, {"POST", ""}} {
			a.pattern = test.pattern
			w := httptest.NewRecorder()
			a.serve(w, httptest.NewRequest(test.method, pattern, nil), core.Principal{})
			require.Equal(t, 200, w.Code)
			require.Empty(t, w.Header())
		}
		a.pattern = "/any"
		requireProblem(t, a.post("", ""), http.StatusBadRequest, core.CodeKeyMissing)
	})
	t.Run("nobody is there any more, and nothing has been claimed: the cheapest moment to stop", func(t *testing.T) {
		store := newFaultStore(memstore.New())
		claims := store.count("claim")
		a := newApp(t, core.Config{Store: store}, created)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		w := a.post("k-1", `{}`, withContext(ctx))
		requireProblem(t, w, http.StatusServiceUnavailable, core.CodeStoreUnavailable)
		require.Equal(t, "2", w.Header().Get("Retry-After"))
		require.Zero(t, *claims)
		require.Zero(t, a.ran())
	})
}

// CONTRACT H-5
func TestBodyIsReadAsIfNobodyHad(t *testing.T) {
	large := strings.Repeat("0123456789", 10_000) // above what is taken memory for at once
	a := newApp(t, core.Config{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Length", strconv.FormatInt(r.ContentLength, 10))
		w.Header().Set("X-Encoding", strings.Join(r.TransferEncoding, ","))
		w.Header().Set("X-No-Body", strconv.FormatBool(r.Body == http.NoBody))
		n, err := io.Copy(w, r.Body)
		if err != nil || n > 0 && r.ContentLength == 0 {
			panic(err)
		}
		if _, err := r.Body.Read(make([]byte, 1)); err != io.EOF {
			panic(err)
		}
		if err := r.Body.Close(); err != nil {
			panic(err)
		}
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { a.serve(w, r, alice) }))
	defer server.Close()
	for i, test := range []struct {
		body             io.Reader
		content          string
		length, encoding string
		none             string
	}{
		{http.NoBody, "", "0", "", "true"},
		{nil, "", "0", "", "true"},
		{strings.NewReader("short"), "short", "5", "", "false"},
		{strings.NewReader(large), large, "100000", "", "false"},
		{chunked("short"), "short", "-1", "chunked", "false"},
		{chunked(large), large, "-1", "chunked", "false"},
	} {
		res := send(t, server, test.body, strconv.Itoa(i))
		require.Equal(t, http.StatusOK, res.Code)
		require.Equal(t, test.content, res.Body.String())
		require.Equal(t, test.length, res.Header().Get("X-Length"))
		require.Equal(t, test.encoding, res.Header().Get("X-Encoding"))
		require.Equal(t, test.none, res.Header().Get("X-No-Body"))
	}
}

// CONTRACT H-5, H-9
func TestBodiesThatAreRead(t *testing.T) {
	// A client can announce any length at no cost. Memory is taken as the body arrives: never more for what is to come than
	// has come.
	t.Run("memory for a body that is only announced", func(t *testing.T) {
		a := newApp(t, core.Config{}, created)
		for _, announced := range []int64{1 << 20, 64 << 10, 1024, 40, -1} {
			for _, arrives := range []int64{0, 1, 39, 1000, 10_000, 100_000} {
				if announced >= 0 && arrives >= announced {
					continue
				}
				body := &announcedBody{left: arrives}
				a.post("k-1", "", func(r *http.Request) { r.Body, r.ContentLength = body, announced })
				require.Positive(t, body.room)
				require.LessOrEqual(t, int64(body.room), max(2*arrives, bytes.MinRead)+1, "%d of %d", arrives, announced)
				if announced > 0 {
					require.LessOrEqual(t, int64(body.room), announced+1)
				}
			}
		}
	})
	// Reading is what makes a server send 100 Continue. A client that waits for it keeps a body that is refused.
	t.Run("a body that need not be sent", func(t *testing.T) {
		for expect, room := range map[string]int{"100-continue": 0, "": 1} {
			a := newApp(t, core.Config{Policy: core.Policy{Recovery: core.Park, MaxBody: 8}}, created)
			body := &announcedBody{}
			w := a.post("k-1", "", func(r *http.Request) {
				r.Body, r.ContentLength = body, 9
				r.Header.Set("Expect", expect)
			})
			requireProblem(t, w, http.StatusRequestEntityTooLarge, core.CodeBodyTooLarge)
			require.Equal(t, room, body.room, "Expect: %q", expect)
		}
	})
	// Middleware that decompresses leaves the length of the compressed body in the request, as Echo's does.
	t.Run("body of another length than announced", func(t *testing.T) {
		a := newApp(t, core.Config{}, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
		for _, body := range []string{`{}`, strings.Repeat(" ", 5_000) + `{}`, strings.Repeat(" ", 200_000) + `{}`} {
			w := a.post("k-"+strconv.Itoa(len(body)), "", func(r *http.Request) {
				var compressed bytes.Buffer
				zip := gzip.NewWriter(&compressed)
				_, _ = io.WriteString(zip, body)
				require.NoError(t, zip.Close())
				r.ContentLength = int64(compressed.Len())
				r.Header.Set("Content-Encoding", "gzip")
				unzip, err := gzip.NewReader(&compressed)
				require.NoError(t, err)
				r.Body = unzip
			})
			require.Equal(t, http.StatusOK, w.Code)
			require.Equal(t, body, w.Body.String())
		}
	})
}

// announcedBody is a body that breaks off. It keeps how much room it was given at a time.
type announcedBody struct {
	left int64
	room int
}

func (b *announcedBody) Read(p []byte) (int, error) {
	b.room = max(b.room, len(p))
	n := min(int64(len(p)), b.left)
	if b.left -= n; n == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	return int(n), nil
}

func (*announcedBody) Close() error { return nil }

// chunked hides the length of a body, so that a client sends it in chunks.
func chunked(s string) io.Reader { return iotest.OneByteReader(strings.NewReader(s)) }

// send sends a command to a server and reads the whole answer.
func send(t *testing.T, server *httptest.Server, body io.Reader, key string) *httptest.ResponseRecorder {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, body)
	require.NoError(t, err)
	req.Header.Set("Idempotency-Key", key)
	res, err := server.Client().Do(req)
	require.NoError(t, err)
	defer func() { require.NoError(t, res.Body.Close()) }()
	w := httptest.NewRecorder()
	w.Code = res.StatusCode
	maps.Copy(w.Header(), res.Header)
	_, err = w.Body.ReadFrom(res.Body)
	require.NoError(t, err)
	return w
}

// CONTRACT H-5
func TestBodiesThatAreRefused(t *testing.T) {
	body := func(body io.Reader, length int64) func(*http.Request) {
		return func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(body), length }
	}
	unread := iotest.ErrReader(errors.New("must not be read"))
	for name, test := range map[string]struct {
		edit   func(*http.Request)
		status int
		code   core.Code
	}{
		"at the cap":                   {body(strings.NewReader("12345678"), 8), 201, ""},
		"chunked at the cap":           {body(chunked("12345678"), -1), 201, ""},
		"announced above the cap":      {body(unread, 9), 413, core.CodeBodyTooLarge},
		"chunked above the cap":        {body(chunked("123456789"), -1), 413, core.CodeBodyTooLarge},
		"longer than announced":        {body(strings.NewReader("123456789"), 2), 413, core.CodeBodyTooLarge},
		"a cap of outer middleware":    {capped(2, chunked("123"), -1), 413, core.CodeBodyTooLarge},
		"an outer cap, with a length":  {capped(2, strings.NewReader("123"), 3), 413, core.CodeBodyTooLarge},
		"broken off":                   {body(iotest.TimeoutReader(chunked("1234")), 4), 400, core.CodeBodyUnreadable},
		"chunked, broken off":          {body(iotest.TimeoutReader(chunked("1234")), -1), 400, core.CodeBodyUnreadable},
		"broken off at its very start": {body(unread, 4), 400, core.CodeBodyUnreadable},
		"truncated": {body(io.MultiReader(strings.NewReader("12"), iotest.ErrReader(io.ErrUnexpectedEOF)), 4), 400,
			core.CodeBodyUnreadable},
		"an error behind the end": {body(io.MultiReader(strings.NewReader("1234"), iotest.ErrReader(errAway)), 4), 400,
			core.CodeBodyUnreadable},
	} {
		t.Run(name, func(t *testing.T) {
			store := newFaultStore(memstore.New())
			claims := store.count("claim")
			a := newApp(t, core.Config{Store: store, Policy: core.Policy{Recovery: core.Park, MaxBody: 8}}, created)
			w := a.post("k-1", "", test.edit)
			if test.code == "" {
				require.Equal(t, test.status, w.Code)
				require.Equal(t, 1, *claims)
				return
			}
			requireProblem(t, w, test.status, test.code)
			require.Zero(t, *claims)
			require.Zero(t, a.ran())
			require.Equal(t, []core.EventKind{core.EventRefused}, a.kinds())
		})
	}
}

func capped(limit int64, body io.Reader, length int64) func(*http.Request) {
	return func(r *http.Request) {
		r.Body, r.ContentLength = http.MaxBytesReader(httptest.NewRecorder(), io.NopCloser(body), limit), length
	}
}

// CONTRACT H-1, H-7
func TestHeadersOfTheCommand(t *testing.T) {
	t.Run("named headers belong to the command", func(t *testing.T) {
		a := newApp(t, core.Config{Policy: core.Policy{Recovery: core.Park, CommandHeaders: []string{"x-account"}}}, created)
		with := func(name, value string) func(*http.Request) {
			return func(r *http.Request) { r.Header.Set(name, value) }
		}
		require.Equal(t, http.StatusCreated, a.post("k-1", `{}`, with("X-Account", "1")).Code)
		require.Equal(t, "reused", a.post("k-1", `{}`, with("X-Account", "1"), with("X-Other", "2")).Header().Get("Idempotency-Result"))
		requireProblem(t, a.post("k-1", `{}`, with("X-Account", "2")), http.StatusConflict, core.CodeKeyReused)
		requireProblem(t, a.post("k-1", `{}`), http.StatusConflict, core.CodeKeyReused)
	})
	t.Run("the host belongs to the command where it is named", func(t *testing.T) {
		to := func(host string) func(*http.Request) { return func(r *http.Request) { r.Host = host } }
		forged := func(r *http.Request) { r.Host = "b.example"; r.Header.Set("Host", "a.example") }
		a := newApp(t, core.Config{Policy: core.Policy{Recovery: core.Park, CommandHeaders: []string{"hOST"}}}, created)
		require.Equal(t, "created", a.post("k-1", `{}`, to("a.example")).Header().Get("Idempotency-Result"))
		require.Equal(t, "reused", a.post("k-1", `{}`, to("A.Example")).Header().Get("Idempotency-Result"))
		for _, edit := range []func(*http.Request){to("b.example"), to("a.example:8443"), to("a.example.b.example"), to(""), forged} {
			requireProblem(t, a.post("k-1", `{}`, edit), http.StatusConflict, core.CodeKeyReused)
		}
		require.Equal(t, 1, a.ran())

		a = newApp(t, core.Config{}, created)
		require.Equal(t, "created", a.post("k-1", `{}`, to("a.example")).Header().Get("Idempotency-Result"))
		require.Equal(t, "reused", a.post("k-1", `{}`, to("b.example")).Header().Get("Idempotency-Result"))
	})
}

// A small body must not cost more than a large one.
//
// CONTRACT H-6
func TestPartsAreCapped(t *testing.T) {
	form := func(parts int, header, content string) string {
		return strings.Repeat("--b\r\n"+header+"\r\n"+content+"\r\n", parts) + "--b--\r\n"
	}
	const name = "Content-Disposition: form-data; name=\"a\"\r\n"
	for what, test := range map[string]struct {
		body    string
		refused bool
	}{
		"1000 parts":              {form(1000, name, "1"), false},
		"1001 parts":              {form(1001, name, "1"), true},
		"116000 parts":            {form(116_000, "", ""), true},
		"10000 header lines":      {form(100, strings.Repeat("A: b\r\n", 100), "1"), false},
		"10001 header lines":      {form(1, strings.Repeat("A: b\r\n", 10_001), "1"), true},
		"a header of 60 KiB":      {form(1, "A: "+strings.Repeat("b", 60<<10)+"\r\n", "1"), false},
		"a header of 64 KiB":      {form(1, "A: "+strings.Repeat("b", 64<<10)+"\r\n", "1"), true},
		"lines that look like it": {form(1, name, strings.Repeat("x--b\r\n\r\n", 5000)), false},
	} {
		t.Run(what, func(t *testing.T) {
			for _, contentType := range []string{"multipart/form-data; boundary=b", "Multipart/Form-Data; Boundary=\"b\""} {
				a := newApp(t, core.Config{}, created)
				w := a.post("k-1", test.body, func(r *http.Request) { r.Header.Set("Content-Type", contentType) })
				if !test.refused {
					require.Equal(t, http.StatusCreated, w.Code, w.Body)
					continue
				}
				requireProblem(t, w, http.StatusRequestEntityTooLarge, core.CodeBodyTooLarge)
				require.Contains(t, w.Body.String(), "1000 parts")
				require.Zero(t, a.ran())
				require.Equal(t, []core.EventKind{core.EventRefused}, a.kinds())
			}
		})
	}
	a := newApp(t, core.Config{}, created) // other forms are not taken apart
	w := a.post("k-1", form(2000, name, "1"), func(r *http.Request) { r.Header.Set("Content-Type", "multipart/mixed; boundary=b") })
	require.Equal(t, http.StatusCreated, w.Code)
}

// What follows the body belongs to the command, over both protocols.
//
// CONTRACT H-8
func TestTrailersBelongToTheCommand(t *testing.T) {
	a := newApp(t, core.Config{}, created)
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(protocol, func(t *testing.T) {
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				require.Equal(t, protocol, r.Proto)
				a.serve(w, r, alice)
			}))
			server.EnableHTTP2 = protocol == "HTTP/2.0"
			server.StartTLS()
			defer server.Close()
			result := func(trailer http.Header) (int, string) {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, chunked(`{}`))
				require.NoError(t, err)
				r.Header.Set("Idempotency-Key", protocol)
				r.Trailer = trailer
				res, err := server.Client().Do(r)
				require.NoError(t, err)
				require.NoError(t, res.Body.Close())
				return res.StatusCode, res.Header.Get(wire.HeaderResult)
			}
			status, said := result(http.Header{"X-Amount": {"1"}})
			require.Equal(t, http.StatusCreated, status)
			require.Equal(t, wire.ResultCreated, said)
			_, said = result(http.Header{"X-Amount": {"1"}})
			require.Equal(t, wire.ResultReused, said)
			for _, other := range []http.Header{{"X-Amount": {"2"}}, {"X-Amount": {"1"}, "X-Account": {"2"}}, nil} {
				status, _ = result(other)
				require.Equal(t, http.StatusConflict, status)
			}
		})
	}
}

// A caller computes what its server will.
//
// CONTRACT H-1, H-4
func TestHashRequestIsTheServersHash(t *testing.T) {
	const body = `{"amount":"12.50","currency":"EUR"}`
	request := func() *http.Request {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://bank.example/v1/pay%20ments?b=2&a=1",
			strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/json; charset=utf-8")
		return r
	}
	r := request()
	hash, err := command.Of(r, nil, []byte(body)).Hash(command.Version)
	require.NoError(t, err)
	left, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	require.Len(t, left, len(body), "it does not read the body")

	var served store.CommandHash
	app := newApp(t, core.Config{Policy: core.Policy{Recovery: core.Park}}, func(_ http.ResponseWriter, r *http.Request) {
		served, _ = core.CommandHashOf(r.Context())
	})
	r = request()
	r.Header.Set("Idempotency-Key", "k")
	app.pattern = "/v1/:payments"
	app.serve(httptest.NewRecorder(), r, alice)
	require.Equal(t, served, hash)

	same, err := command.Of(request(), nil, []byte(body)).Hash(served.Version)
	require.NoError(t, err)
	require.Equal(t, served, same)
	_, err = command.Of(request(), nil, []byte(body)).Hash(99)
	require.Error(t, err)
}
