package core_test

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
)

// What middleware has read before the guard would not be in the hash.
//
// CONTRACT O-6
func TestABodyThatWasReadBefore(t *testing.T) {
	body := func(body io.Reader, length int64) func(*http.Request) {
		return func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(body), length }
	}
	encoded := func(next func(*http.Request)) func(*http.Request) {
		return func(r *http.Request) { next(r); r.Header.Set("Content-Encoding", "gzip") }
	}
	closed := func(r *http.Request) { r.Body = io.NopCloser(iotest.ErrReader(http.ErrBodyReadAfterClose)) }
	for name, test := range map[string]struct {
		edit    func(*http.Request)
		refused bool
	}{
		"whole":                    {body(strings.NewReader("1234"), 4), false},
		"empty":                    {body(strings.NewReader(""), 0), false},
		"no body":                  {func(r *http.Request) { r.Body, r.ContentLength = http.NoBody, 0 }, false},
		"nil":                      {func(r *http.Request) { r.Body, r.ContentLength = nil, 0 }, false},
		"in chunks":                {body(strings.NewReader("1234"), -1), false},
		"decoded, shorter":         {encoded(body(strings.NewReader("12"), 4)), false},
		"in chunks, decoded":       {encoded(body(strings.NewReader("12"), -1)), false},
		"one byte missing":         {body(strings.NewReader("123"), 4), true},
		"nothing left":             {body(strings.NewReader(""), 4), true},
		"nothing left of chunks":   {body(strings.NewReader(""), -1), true},
		"nothing left to decode":   {encoded(body(strings.NewReader(""), 4)), true},
		"nothing left, no body":    {func(r *http.Request) { r.Body, r.ContentLength = http.NoBody, 4 }, true},
		"nothing left, nil":        {func(r *http.Request) { r.Body, r.ContentLength = nil, -1 }, true},
		"nothing left of too much": {body(strings.NewReader(""), 9), true},
		"closed":                   {closed, true},
		"form":                     {func(r *http.Request) { r.Form = url.Values{} }, true},
		"post form":                {func(r *http.Request) { r.PostForm = url.Values{} }, true},
		"multipart form":           {func(r *http.Request) { r.MultipartForm = &multipart.Form{} }, true}, // or MultipartReader
		"form of too large a body": {func(r *http.Request) { r.Form = url.Values{}; r.ContentLength = 9 }, true},
	} {
		t.Run(name, func(t *testing.T) {
			store := newFaultStore(memstore.New())
			claims := store.count("claim")
			a := newApp(t, core.Config{Store: store, Policy: core.Policy{Recovery: core.Park, MaxBody: 8}}, created)
			w := a.post("key-1", "", test.edit)
			if !test.refused {
				require.Equal(t, http.StatusCreated, w.Code, w.Body)
				return
			}
			requireProblem(t, w, http.StatusInternalServerError, core.CodeMisconfigured)
			require.Contains(t, w.Body.String(), "mount the guard before")
			require.Zero(t, *claims)
			require.Zero(t, a.ran())
			require.Equal(t, []core.EventKind{core.EventRefused}, a.kinds())

			requireProblem(t, a.post("", "", test.edit), http.StatusBadRequest, core.CodeKeyMissing) // the key comes first
		})
	}
}

// CONTRACT O-6
func TestACopyOfTheBody(t *testing.T) {
	module := newModule(t, core.Config{Store: memstore.New(), Policy: core.Policy{Recovery: core.Park}})
	for copied, refused := range map[string]bool{"amount=10": false, "amount=11": true, "": true, "amount=1": true} {
		r := newCommand("key-1", "amount=10")
		admitted, reply := module.Admit(r, pattern, alice, []byte(copied))
		if refused {
			require.Equal(t, http.StatusInternalServerError, reply.Status)
			require.Contains(t, string(reply.Body), `"code":"misconfigured"`)
			continue
		}
		require.Nil(t, reply)
		body, err := io.ReadAll(admitted.Body)
		require.NoError(t, err)
		require.Equal(t, "amount=10", string(body))
	}
}

// Over real connections: what a server makes of lengths, chunks and frames.
//
// CONTRACT O-6, H-5
func TestBodiesOverRealConnections(t *testing.T) {
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		for name, test := range map[string]struct {
			outer   func(r *http.Request)
			body    io.Reader
			refused bool
		}{
			"untouched":               {func(*http.Request) {}, strings.NewReader("amount=10"), false},
			"untouched, in chunks":    {func(*http.Request) {}, chunked("amount=10"), false},
			"none":                    {func(*http.Request) {}, nil, false},
			"read":                    {readAll, strings.NewReader("amount=10"), true},
			"read, in chunks":         {readAll, chunked("amount=10"), true},
			"read in part":            {readOne, strings.NewReader("amount=10"), true},
			"put back":                {putBack, strings.NewReader("amount=10"), false},
			"put back, in chunks":     {putBack, chunked("amount=10"), false},
			"form":                    {func(r *http.Request) { _ = r.ParseForm() }, strings.NewReader("amount=10"), true},
			"a decoder of short text": {decode, strings.NewReader("amount=10, encoded"), false},
		} {
			t.Run(protocol+" "+name, func(t *testing.T) {
				a := newApp(t, core.Config{}, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
				server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					test.outer(r)
					a.serve(w, r, alice)
				}))
				server.EnableHTTP2 = protocol == "HTTP/2.0"
				server.StartTLS()
				defer server.Close()
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, test.body)
				require.NoError(t, err)
				req.Header.Set("Idempotency-Key", "key-1")
				req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				res, err := server.Client().Do(req)
				require.NoError(t, err)
				defer func() { require.NoError(t, res.Body.Close()) }()
				answer, err := io.ReadAll(res.Body)
				require.NoError(t, err)
				require.Equal(t, protocol, res.Proto)
				if test.refused {
					require.Equal(t, http.StatusInternalServerError, res.StatusCode, string(answer))
					require.Contains(t, string(answer), `"code":"misconfigured"`)
					require.Zero(t, a.ran())
					return
				}
				require.Equal(t, http.StatusOK, res.StatusCode, string(answer))
				if test.body != nil {
					require.Equal(t, "amount=10", string(answer))
				}
			})
		}
	}
}

func readAll(r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }

func readOne(r *http.Request) { _, _ = r.Body.Read(make([]byte, 1)) }

func putBack(r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
}

// decode is a decoder that takes the headers of the encoded form away, and leaves its length in the request.
func decode(r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Header.Del("Content-Encoding")
	r.Header.Del("Content-Length")
	r.Body = io.NopCloser(strings.NewReader(strings.TrimSuffix(string(body), ", encoded")))
}
