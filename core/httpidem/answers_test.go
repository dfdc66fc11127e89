package httpidem_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/internal/adaptertest"
)

// answers are the ways in which a handler of net/http can answer or fail.
func answers(t testing.TB) map[string]http.HandlerFunc {
	file := filepath.Join(t.TempDir(), "receipt.txt")
	require.NoError(t, os.WriteFile(file, []byte("receipt no. 1"), 0o600))
	type writer = http.ResponseWriter
	type request = *http.Request
	return map[string]http.HandlerFunc{
		"JSON": func(w writer, _ request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusCreated)
			_ = json.NewEncoder(w).Encode(map[string]int{"id": 1})
		},
		"string":   func(w writer, _ request) { _, _ = io.WriteString(w, "paid") },
		"sniffed":  func(w writer, _ request) { _, _ = w.Write([]byte("<html>")) },
		"no write": func(writer, request) {},
		"error":    func(w writer, _ request) { http.Error(w, "declined", http.StatusPaymentRequired) },
		"not found": func(w writer, r request) {
			w.Header().Set("Content-Length", "3") // http.Error takes it away
			http.NotFound(w, r)
		},
		"redirect":      func(w writer, r request) { http.Redirect(w, r, "/v1/payments/1", http.StatusSeeOther) },
		"file":          func(w writer, r request) { http.ServeFile(w, r, file) },
		"missing file":  func(w writer, r request) { http.ServeFile(w, r, file+".not") },
		"file, not all": func(w writer, r request) { r.Header.Set("Range", "bytes=0-3"); http.ServeFile(w, r, file) },
		"content": func(w writer, r request) {
			http.ServeContent(w, r, "a.pdf", time.Unix(0, 0), strings.NewReader("content"))
		},
		"copied": func(w writer, _ request) { _, _ = io.Copy(w, strings.NewReader(strings.Repeat("x", 100<<10))) },
		"copied in parts": func(w writer, _ request) {
			_, _ = io.CopyN(w, strings.NewReader(strings.Repeat("x", 9000)), 9000)
		},
		"no content":   func(w writer, _ request) { w.WriteHeader(http.StatusNoContent) },
		"not modified": func(w writer, _ request) { w.WriteHeader(http.StatusNotModified) },
		"no body with 204": func(w writer, _ request) {
			w.WriteHeader(http.StatusNoContent)
			if _, err := w.Write([]byte("x")); err == nil {
				t.Error("204 has no body")
			}
		},
		"status alone": func(w writer, _ request) { w.WriteHeader(http.StatusAccepted) },
		"header alone": func(w writer, _ request) {
			w.Header().Set("Location", "/v1/payments/1")
			w.WriteHeader(http.StatusCreated)
		},
		"two statuses": func(w writer, _ request) {
			w.WriteHeader(http.StatusCreated)
			w.WriteHeader(http.StatusAccepted) // superfluous
			_, _ = io.WriteString(w, "paid")
		},
		"status after the body": func(w writer, _ request) {
			_, _ = io.WriteString(w, "paid")
			w.WriteHeader(http.StatusAccepted) // superfluous
		},
		"flushed": func(w writer, _ request) {
			for step := range 3 {
				_, _ = fmt.Fprintf(w, "step %d\n", step)
				if err := http.NewResponseController(w).Flush(); err != nil {
					t.Error(err)
				}
			}
		},
		"headers": func(w writer, _ request) {
			h := w.Header()
			h["Link"] = []string{"</a>; rel=next", "</b>; rel=prev"}
			h.Set("ETag", `"1"`)
			h.Set("Content-Language", "de")
			w.WriteHeader(http.StatusCreated)
		},
	}
}

// CONTRACT R-1, M-3
func TestAnswers(t *testing.T) {
	handlers := map[string]adaptertest.Handler{}
	for name, handler := range answers(t) {
		handlers[name] = handler
	}
	adaptertest.Answers(t, adapter, adapter.New, "", handlers)
}
