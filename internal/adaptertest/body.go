package adaptertest

import (
	"bytes"
	"compress/gzip"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
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

// BodyReader is middleware that looks at the body before the guards.
type BodyReader struct {
	Outer       Middleware
	ContentType string
	Encoding    string
	Body        func(amount string) string
	Refused     bool // the guards cannot see any more what the client has sent
}

// Middleware in front of the guards does not make one command look like another: either the guards see what the handler
// sees, or they refuse.
//
// CONTRACT O-6
func bodyReadBefore(t *testing.T, a Adapter) {
	before := func(read func(r *http.Request)) Middleware {
		return a.Middleware(func(c Context, next func() error) error { read(c.Request()); return next() })
	}
	formValue := before(func(r *http.Request) { r.FormValue("amount") })
	parseForm := before(func(r *http.Request) { _ = r.ParseForm() })
	takenAway := before(func(r *http.Request) { _, _ = io.ReadAll(r.Body) })
	putBack := before(func(r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
	})
	limited := before(func(r *http.Request) { r.Body = http.MaxBytesReader(nil, r.Body, 1000) })
	unzipped := before(func(r *http.Request) {
		if zipped, err := gzip.NewReader(r.Body); err == nil {
			r.Body = zipped
		}
	})
	nothing := before(func(*http.Request) {})
	readers := map[string]BodyReader{
		"read and put back":    {putBack, FormType, "", Form, false},
		"read":                 {takenAway, "text/plain", "", Form, true},
		"nothing":              {nothing, MultipartType, "", Multipart, false},
		"FormValue":            {formValue, FormType, "", Form, true},
		"FormValue, multipart": {formValue, MultipartType, "", Multipart, true},
		"ParseForm":            {parseForm, FormType, "", Form, true},
		"MaxBytesReader":       {limited, FormType, "", Form, false},
		"a decoder":            {unzipped, FormType, "gzip", Zipped, false},
	}
	maps.Copy(readers, a.Readers)
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
