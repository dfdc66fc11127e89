package echoidem_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/url"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/echoidem"
)

const (
	formType  = "application/x-www-form-urlencoded"
	multipart = "multipart/form-data; boundary=b"
)

// part is a multipart body with one field.
func part(amount string) string {
	return "--b\r\nContent-Disposition: form-data; name=\"amount\"\r\n\r\n" + amount + "\r\n--b--\r\n"
}

// Middleware that reads the body before the guard: the hash would be that of another command than the handler sees.
//
// CONTRACT O-6
func TestBodyReadBeforeTheGuard(t *testing.T) {
	before := func(f func(c echo.Context)) echo.MiddlewareFunc {
		return func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c echo.Context) error { f(c); return next(c) }
		}
	}
	formValue := before(func(c echo.Context) { c.FormValue("amount") })
	csrf := middleware.CSRFWithConfig(middleware.CSRFConfig{TokenLookup: "form:csrf"})
	keyAuth := middleware.KeyAuthWithConfig(middleware.KeyAuthConfig{KeyLookup: "form:csrf",
		Validator: func(string, echo.Context) (bool, error) { return true, nil }})
	putBack := before(func(c echo.Context) {
		body, _ := io.ReadAll(c.Request().Body)
		c.Request().Body = io.NopCloser(bytes.NewReader(body))
	})
	zipped := func(amount string) string { return zip(t, form(amount)) }
	for name, test := range map[string]struct {
		outer       echo.MiddlewareFunc
		contentType string
		encoding    string
		body        func(amount string) string
		refused     bool
	}{
		"FormValue":            {formValue, formType, "", form, true},
		"FormValue, multipart": {formValue, multipart, "", part, true},
		"Bind":                 {before(func(c echo.Context) { _ = c.Bind(&struct{}{}) }), "application/json", "", object, true},
		"CSRF":                 {csrf, formType, "", form, true},
		"KeyAuth":              {keyAuth, formType, "", form, true},
		"read and put back":    {putBack, formType, "", form, false},
		"BodyDump":             {middleware.BodyDump(func(echo.Context, []byte, []byte) {}), formType, "", form, false},
		"BodyLimit":            {middleware.BodyLimit("1K"), formType, "", form, false},
		"Decompress":           {middleware.Decompress(), formType, "gzip", zipped, false},
		"nothing":              {before(func(echo.Context) {}), multipart, "", part, false},
	} {
		for _, chunks := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				e := echo.New()
				ran := 0
				v1 := e.Group("/v1", test.outer, echoidem.JWTGuard(newVerifier(t)), echoidem.Idempotent(newModule(t, core.Config{})))
				v1.POST("/pay", func(c echo.Context) error { ran++; return c.JSON(http.StatusCreated, ran) })
				a := serve(t, e)
				pay := func(amount string) answer {
					return a.do(call{key: "key-1", body: test.body(amount), chunks: chunks, headers: map[string]string{
						"Content-Type": test.contentType, "Content-Encoding": test.encoding, "Cookie": "_csrf=" + token}})
				}
				if test.refused {
					for _, amount := range []string{"10", "9999"} {
						got := pay(amount)
						requireProblem(t, http.StatusInternalServerError, "misconfigured", got)
						require.Contains(t, got.body, "mount the guard before")
					}
					require.Zero(t, ran)
					return
				}
				require.Equal(t, "created", pay("10").header.Get("Idempotency-Result"))
				require.Equal(t, "reused", pay("10").header.Get("Idempotency-Result"))
				requireProblem(t, http.StatusConflict, "key_reused", pay("9999"))
				require.Equal(t, 1, ran)
			})
		}
	}
}

// token is one for CSRF.
const token = "0123456789abcdef0123456789abcdef"

func form(amount string) string { return "amount=" + url.QueryEscape(amount) + "&csrf=" + token }

func object(amount string) string { return `{"amount":` + amount + `}` }

func zip(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := io.WriteString(w, text)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.String()
}
