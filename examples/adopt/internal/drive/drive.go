// Package drive sends the requests of the tests over HTTP.
package drive

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
)

// App is an app that serves.
type App struct {
	t   *testing.T
	url string
}

// Answer is what a test compares.
type Answer struct {
	Status int
	Result string // Idempotency-Result
	Body   string
}

// File returns the path of a new database.
func File(t *testing.T) string { return filepath.Join(t.TempDir(), "app.db") }

// Serve serves handler until the test has ended, and closes db then.
func Serve(t *testing.T, handler http.Handler, db *gorm.DB) App {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(func() {
		server.Close()
		pool, err := db.DB()
		require.NoError(t, err)
		require.NoError(t, pool.Close())
	})
	return App{t, server.URL}
}

// Do sends a request. Empty tokens and keys are not sent.
func (a App) Do(method, path, token, key, body string) Answer {
	a.t.Helper()
	r, err := http.NewRequestWithContext(a.t.Context(), method, a.url+path, strings.NewReader(body))
	require.NoError(a.t, err)
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	res, err := http.DefaultClient.Do(r)
	require.NoError(a.t, err)
	text, err := io.ReadAll(res.Body)
	require.NoError(a.t, err)
	require.NoError(a.t, res.Body.Close())
	return Answer{res.StatusCode, res.Header.Get("Idempotency-Result"), strings.TrimSpace(string(text))}
}

// Break lets each statement of this kind ("INSERT ON points") fail, until it is repaired.
func Break(t *testing.T, db *gorm.DB, statement string) (repair func()) {
	t.Helper()
	require.NoError(t, db.Exec("CREATE TRIGGER broken BEFORE "+statement+" BEGIN SELECT RAISE(ABORT, 'broken'); END").Error)
	return func() { require.NoError(t, db.Exec("DROP TRIGGER broken").Error) }
}
