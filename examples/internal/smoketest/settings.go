package smoketest

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/internal/apptest"
)

func settings(t *testing.T, program string) {
	for _, wrong := range []string{
		"LEASE=soon", "LEASE=10ms", "DEADLINE=-1s", "RETENTION=23h", "RETENTION=73h", "RETENTION=72", "UNSAFE_SIMULATOR=yes",
		"STALL=1ms", "ATTEMPTS=0", "CORS_ORIGIN=*", "CORS_ORIGIN=https://shop.example/", "CORS_ORIGIN=shop.example",
		"DATABASE_URL=mysql://somewhere", "ADDR=nowhere",
	} {
		code, printed := apptest.Refused(t, program, t.TempDir(), wrong)
		require.Equal(t, 1, code, wrong)
		require.Equal(t, 1, strings.Count(printed, "\n"), printed)
		if name, _, _ := strings.Cut(wrong, "="); name != "ADDR" {
			require.Contains(t, printed, name)
		}
	}
	p := apptest.Start(t, program, t.TempDir(), "RETENTION=24h")
	require.Len(t, p.Tokens, 4)
	require.Equal(t, 0, p.Stop(t))
}

// cors asks as a browser does for a page of another origin.
func cors(t *testing.T, program string) {
	const origin = "https://shop.example"
	p := apptest.Start(t, program, t.TempDir(), "CORS_ORIGIN="+origin)
	ask := func(method, from string) http.Header {
		r, err := http.NewRequestWithContext(t.Context(), method, p.URL+"/v1/payments", nil)
		require.NoError(t, err)
		r.Header.Set("Origin", from)
		if method == http.MethodOptions {
			r.Header.Set("Access-Control-Request-Method", http.MethodPost)
			r.Header.Set("Access-Control-Request-Headers", "authorization,content-type,idempotency-key")
		}
		res, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		if method == http.MethodOptions && from == origin {
			require.Equal(t, http.StatusNoContent, res.StatusCode)
		} else {
			require.NotEqual(t, http.StatusOK, res.StatusCode, "there is no token")
		}
		require.Contains(t, res.Header.Values("Vary"), "Origin")
		return res.Header
	}
	asked := ask(http.MethodOptions, origin)
	require.Equal(t, origin, asked.Get("Access-Control-Allow-Origin"))
	require.Contains(t, asked.Get("Access-Control-Allow-Headers"), "Idempotency-Key")
	require.Contains(t, asked.Get("Access-Control-Allow-Methods"), http.MethodPost)
	refused := ask(http.MethodPost, origin)
	require.Equal(t, origin, refused.Get("Access-Control-Allow-Origin"), "a 401 can be read, too")
	for _, name := range []string{
		"Idempotency-Key", "Idempotency-Problem", "Idempotency-Result", "Idempotent-Replayed", "Retry-After", "Location", "Link",
		"WWW-Authenticate",
	} {
		require.Contains(t, refused.Get("Access-Control-Expose-Headers"), name)
	}
	for _, method := range []string{http.MethodOptions, http.MethodPost} {
		require.Empty(t, ask(method, "https://shop.example.evil").Get("Access-Control-Allow-Origin"))
	}
}

func oneProcess(t *testing.T, program string) {
	dir := t.TempDir()
	first := apptest.Start(t, program, dir)
	code, printed := apptest.Refused(t, program, dir)
	require.Equal(t, 1, code)
	require.Contains(t, printed, "in use by another process")
	require.Contains(t, printed, "stop the other one")
	require.Contains(t, printed, "DATABASE_URL")
	require.Equal(t, 0, first.Stop(t))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, file := range left { // the shop and the provider, and nothing else
		require.Equal(t, ".db", filepath.Ext(file.Name()), file.Name())
	}
	apptest.Start(t, program, dir)
}
