package demo

import (
	"embed"
	"io/fs"
	"net/http"
	"path"
)

//go:embed page
var files embed.FS

// policy lets the page load its own files, call its own server, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Page serves the page in demo mode. Where the app has settings of its own it serves a page that says so: on is false.
func Page(on bool) http.Handler {
	if on {
		return file("shop.html")
	}
	return file("off.html")
}

// Files serves the styles and scripts of the page, by the last element of the path.
func Files() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		file(path.Base(r.URL.Path)).ServeHTTP(w, r)
	})
}

func file(name string) http.Handler {
	page, err := fs.Sub(files, "page")
	if err != nil {
		panic(err) // the folder is embedded
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ownConnection(w)
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-cache")
		http.ServeFileFS(w, r, page, name)
	})
}
