package echoidem_test

import (
	"testing"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/auth19/idem/internal/adaptertest"
)

// Middleware that reads the body before the guard: the hash would be that of another command than the handler sees.
//
// CONTRACT O-6
func TestBodyReadBeforeTheGuard(t *testing.T) {
	const form, multipart = adaptertest.FormType, adaptertest.MultipartType
	before := func(f func(c *echo.Context)) echo.MiddlewareFunc {
		return func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c *echo.Context) error { f(c); return next(c) }
		}
	}
	formValue := before(func(c *echo.Context) { c.FormValue("amount") })
	bind := before(func(c *echo.Context) { _ = c.Bind(&struct{}{}) })
	csrf := middleware.CSRFWithConfig(middleware.CSRFConfig{TokenLookup: "form:csrf"})
	keyAuth := middleware.KeyAuthWithConfig(middleware.KeyAuthConfig{KeyLookup: "form:csrf",
		Validator: func(*echo.Context, string, middleware.ExtractorSource) (bool, error) { return true, nil }})
	dump := middleware.BodyDump(func(*echo.Context, []byte, []byte, error) {})
	reader := func(f echo.MiddlewareFunc, contentType string, body func(string) string, refused bool) adaptertest.BodyReader {
		return adaptertest.BodyReader{Outer: f, ContentType: contentType, Body: body, Refused: refused}
	}
	decompress := reader(middleware.Decompress(), form, adaptertest.Zipped, false)
	decompress.Encoding = "gzip"
	adaptertest.BodyReadBeforeTheGuard(t, adapter{}, map[string]adaptertest.BodyReader{
		"FormValue":            reader(formValue, form, adaptertest.Form, true),
		"FormValue, multipart": reader(formValue, multipart, adaptertest.Multipart, true),
		"Bind":                 reader(bind, "application/json", adaptertest.Object, true),
		"CSRF":                 reader(csrf, form, adaptertest.Form, true),
		"KeyAuth":              reader(keyAuth, form, adaptertest.Form, true),
		"BodyDump":             reader(dump, form, adaptertest.Form, false),
		"BodyLimit":            reader(middleware.BodyLimit(1000), form, adaptertest.Form, false),
		"Decompress":           decompress,
	})
}
