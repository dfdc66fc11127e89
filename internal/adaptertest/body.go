package adaptertest

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
)

// The kinds of bodies that middleware reads.
const (
	FormType      = "application/x-www-form-urlencoded"
	MultipartType = "multipart/form-data; boundary=b"
)

// CSRF is a token that a body of [Form] and the cookie _csrf carry.
const CSRF = "0123456789abcdef0123456789abcdef"

// Form returns a body of FormType.
func Form(amount string) string { return "amount=" + url.QueryEscape(amount) + "&csrf=" + CSRF }

// Multipart returns a body of MultipartType, with one field.
func Multipart(amount string) string {
	return "--b\r\nContent-Disposition: form-data; name=\"amount\"\r\n\r\n" + amount + "\r\n--b--\r\n"
}

// Object returns a JSON body.
func Object(amount string) string { return `{"amount":` + amount + `}` }

// Zipped returns a compressed body of FormType.
func Zipped(amount string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, Form(amount)) // a buffer takes everything
	_ = w.Close()
	return b.String()
}

// Unzip returns the text of a compressed answer.
func Unzip(t testing.TB, body string) string {
	t.Helper()
	gz, err := gzip.NewReader(strings.NewReader(body))
	require.NoError(t, err)
	plain, err := io.ReadAll(gz)
	require.NoError(t, err)
	return string(plain)
}

// BodyReader is middleware that looks at the body before the guards.
type BodyReader struct {
	Outer       Middleware
	ContentType string
	Encoding    string
	Body        func(amount string) string
	Refused     bool // the guards cannot see any more what the client has sent
}

// BodyReadBeforeTheGuard requires that middleware in front of the guards does not make one command look like another:
// either the guards see what the handler sees, or they refuse.
//
// CONTRACT O-6
func BodyReadBeforeTheGuard(t *testing.T, a Adapter, readers map[string]BodyReader) {
	t.Helper()
	putBack := a.Middleware(func(c Context, next func() error) error {
		body, _ := io.ReadAll(c.Request().Body)
		c.Request().Body = io.NopCloser(bytes.NewReader(body))
		return next()
	})
	takenAway := a.Middleware(func(c Context, next func() error) error {
		_, _ = io.ReadAll(c.Request().Body)
		return next()
	})
	nothing := a.Middleware(func(_ Context, next func() error) error { return next() })
	readers["read and put back"] = BodyReader{putBack, FormType, "", Form, false}
	readers["read"] = BodyReader{takenAway, "text/plain", "", Form, true}
	readers["nothing"] = BodyReader{nothing, MultipartType, "", Multipart, false}
	for name, test := range readers {
		for _, chunks := range []bool{false, true} {
			t.Run(name, func(t *testing.T) { testBodyReader(t, a, test, chunks) })
		}
	}
}

func testBodyReader(t *testing.T, a Adapter, test BodyReader, chunks bool) {
	app, ran := a.New(), 0
	v1 := app.Group("/v1", test.Outer, a.JWTGuard(NewVerifier(t)), a.Idempotent(NewModule(t, core.Config{})))
	v1.Handle(http.MethodPost, "/pay", text(a, func(Context) string { ran++; return strconv.Itoa(ran) }))
	client := Serve(t, app)
	pay := func(amount string) Answer {
		call := Call{Key: "key-1", Body: test.Body(amount), Chunks: chunks, Headers: map[string]string{
			"Content-Type": test.ContentType, "Cookie": "_csrf=" + CSRF}}
		if test.Encoding != "" {
			call.Headers["Content-Encoding"] = test.Encoding
		}
		return client.Do(call)
	}
	if test.Refused {
		for _, amount := range []string{"10", "9999"} {
			got := pay(amount)
			RequireProblem(t, http.StatusInternalServerError, "misconfigured", got)
			require.Contains(t, got.Body, "mount the guard before")
		}
		require.Zero(t, ran)
		return
	}
	require.Equal(t, "created", pay("10").Result())
	require.Equal(t, "reused", pay("10").Result())
	RequireProblem(t, http.StatusConflict, "key_reused", pay("9999"))
	require.Equal(t, 1, ran)
}

// Compression requires of an app that compression outside the guards is each answer's own, and that compression inside is
// part of what is recorded. The app has POST /outside and /inside, which answer long, and POST /outside/failing and
// /inside/failing, which answer declined as an error, each with compression outside or inside the guards. At the paths of
// plain the error is not compressed: it is rendered past the compression.
//
// CONTRACT
func Compression(t *testing.T, app http.Handler, long, declined string, plain ...string) {
	t.Helper()
	client := Serve(t, app)
	zip := map[string]string{"Accept-Encoding": "gzip"}
	for path, want := range map[string]string{"/outside": long, "/inside": long, "/outside/failing": declined} {
		got := client.RequireReplay(Call{Path: path, Key: path, Headers: zip})
		require.Equal(t, "gzip", got.Header.Get("Content-Encoding"), path)
		require.Equal(t, want, Unzip(t, got.Body), path)
	}
	for _, path := range plain {
		got := client.RequireReplay(Call{Path: path, Key: path, Headers: zip})
		require.Empty(t, got.Header.Get("Content-Encoding"), path)
		require.Equal(t, declined, got.Body, path)
	}
	require.Equal(t, long, client.Do(Call{Path: "/outside", Key: "/outside"}).Body, "a replay without compression")
	inside := client.Do(Call{Path: "/inside", Key: "/inside"})
	require.Equal(t, "gzip", inside.Header.Get("Content-Encoding"), "what is recorded is compressed, whoever asks")
	require.Equal(t, long, Unzip(t, inside.Body))
	require.Equal(t, strconv.Itoa(len(inside.Body)), inside.Header.Get("Content-Length"))
	require.Equal(t, long, client.Do(Call{Path: "/outside", Key: "plain-first"}).Body)
	outside := client.Do(Call{Path: "/outside", Key: "plain-first", Headers: zip})
	require.Equal(t, "reused", outside.Result())
	require.Equal(t, long, Unzip(t, outside.Body))
}
