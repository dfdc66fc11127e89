package httpidem_test

import (
	"compress/gzip"
	"net/http"
	"testing"

	"github.com/auth19/idem/core/httpidem"
	"github.com/auth19/idem/internal/adaptertest"
)

// Middleware that reads the body before the guard: the hash would be that of another command than the handler sees.
//
// CONTRACT O-6
func TestBodyReadBeforeTheGuard(t *testing.T) {
	const form, multipart = adaptertest.FormType, adaptertest.MultipartType
	before := func(f func(w http.ResponseWriter, r *http.Request)) httpidem.Middleware {
		return func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f(w, r); next.ServeHTTP(w, r) })
		}
	}
	formValue := before(func(_ http.ResponseWriter, r *http.Request) { r.FormValue("amount") })
	parseForm := before(func(_ http.ResponseWriter, r *http.Request) { _ = r.ParseForm() })
	maxBytes := before(func(w http.ResponseWriter, r *http.Request) { r.Body = http.MaxBytesReader(w, r.Body, 1000) })
	unzip := before(func(_ http.ResponseWriter, r *http.Request) {
		if zipped, err := gzip.NewReader(r.Body); err == nil {
			r.Body = zipped
		}
	})
	reader := func(f httpidem.Middleware, contentType string, body func(string) string, refused bool) adaptertest.BodyReader {
		return adaptertest.BodyReader{Outer: f, ContentType: contentType, Body: body, Refused: refused}
	}
	decompress := reader(unzip, form, adaptertest.Zipped, false)
	decompress.Encoding = "gzip"
	adaptertest.BodyReadBeforeTheGuard(t, adapter, map[string]adaptertest.BodyReader{
		"FormValue":            reader(formValue, form, adaptertest.Form, true),
		"FormValue, multipart": reader(formValue, multipart, adaptertest.Multipart, true),
		"ParseForm":            reader(parseForm, form, adaptertest.Form, true),
		"MaxBytesReader":       reader(maxBytes, form, adaptertest.Form, false),
		"gzip":                 decompress,
	})
}
