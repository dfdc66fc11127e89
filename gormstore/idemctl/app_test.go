package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/internal/apptest"
	"github.com/auth19/idem/internal/pgtest"
)

// An operator finds an unknown payout of the shop, and settles it, without a browser. Roles are the app's.
//
// CONTRACT X-7, S-5, M-7
func TestShop(t *testing.T) {
	app := apptest.Start(t, apptest.Build(t, "github.com/auth19/idem/examples/gin"), t.TempDir(), "LEASE=1s", "DEADLINE=1s")
	lost := newLossy(t, app.URL)
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte(app.Tokens["operator-1"]+"\n"), 0o600))
	s := &shell{t: t, env: map[string]string{"IDEMCTL_URL": lost.url + "/v1", "IDEMCTL_TOKEN_FILE": file}}

	payout := apptest.Request{Method: http.MethodPost, Path: "/v1/payouts", Token: app.Tokens["seller-1"], Key: "payout-7",
		Body: `{"amount":"77.10","currency":"EUR","method":"pm_error"}`}
	require.Equal(t, http.StatusInternalServerError, app.Do(t, payout).Status)

	s.env["IDEMCTL_TOKEN_FILE"], s.env["IDEMCTL_TOKEN"] = "", app.Tokens["seller-1"]
	s.requires(denied, "", "list")
	s.env["IDEMCTL_TOKEN_FILE"], s.env["IDEMCTL_TOKEN"] = file, ""
	var listed []struct{ ID, State string }
	require.NoError(t, json.Unmarshal([]byte(s.requires(0, "", "list", "-o", "json").out), &listed))
	require.Len(t, listed, 1)
	operation := listed[0].ID
	for _, find := range []struct {
		input string
		args  []string
	}{
		{`{"principal":{"issuer":"https://issuer.example","subject":"seller-1"},"key":"payout-7"}`, []string{"find", "--by-key"}},
		{operation[:8], []string{"find"}},
	} {
		require.Contains(t, s.requires(0, find.input, find.args...).out, operation)
	}
	s.requires(absent, "nobody has this", "find")
	s.requires(absent, "", "show", strings.Repeat("0", 64))

	answer := filepath.Join(t.TempDir(), "answer.json")
	require.NoError(t, os.WriteFile(answer, []byte(`{"status":201,"body":{"id":"out_1"}}`), 0o600))
	settle := []string{"settle", operation, "--fence", "1", "--outcome", "applied", "--answer-file", answer, "--reason", "seen",
		"--yes"}
	require.Contains(t, s.requires(refused, "", "retry", operation, "--fence", "1", "--reason", "r", "-y").log, "not_settleable")
	settled := s.run("", settle...)
	for settled.code == refused && strings.Contains(settled.log, "after its lease and deadline") {
		time.Sleep(50 * time.Millisecond)
		settled = s.run("", settle...)
	}
	require.Zero(t, settled.code, settled.log)
	require.Contains(t, settled.out, "state: completed")
	require.NotContains(t, settled.out, "out_1")
	require.Contains(t, s.requires(refused, "", settle...).log, "--fence: the operation has fence 2 now")
	settle[3] = "2"
	s.requires(refused, "", settle...)
	require.JSONEq(t, `{"id":"out_1"}`, app.Do(t, payout).Body)

	// The answer to a command is lost on its way: it is sent again with its key, and carried out once.
	lost.next()
	r := s.requires(0, "", "refuse-keys", "--before", "2026-01-01T00:00:00Z", "--reason", "a restore", "--yes")
	require.Contains(t, r.log, "sending it again with the same key")
	require.Len(t, lost.keys, 2)
	require.Equal(t, lost.keys[0], lost.keys[1])
	require.Equal(t, 1, strings.Count(app.Log(), "a restore"))

	marked := s.requires(0, operation+"\n"+strings.Repeat("7", 64), "mark", "--reason", "a restore", "-y")
	require.Contains(t, marked.out, "marked: 1\nleft: 1")
	require.Contains(t, s.requires(0, "", "list").out, strings.Repeat("7", 64))

	erased := s.requires(0, `{"issuer":"https://issuer.example","subject":"seller-1"}`, "erase", "--reason", "request 7", "-y")
	require.Contains(t, erased.out, "records: 1")
}

// lossy is a gateway in front of an app that loses an answer.
type lossy struct {
	url string

	mu   sync.Mutex
	left int
	keys []string
}

func newLossy(t *testing.T, target string) *lossy {
	t.Helper()
	to, err := url.Parse(target)
	require.NoError(t, err)
	l := &lossy{}
	forward := httputil.NewSingleHostReverseProxy(to)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l.loses(r) {
			forward.ServeHTTP(httptest.NewRecorder(), r)
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	l.url = server.URL
	return l
}

// next lets it lose the answer to the next command.
func (l *lossy) next() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left, l.keys = 1, nil
}

func (l *lossy) loses(r *http.Request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Method != http.MethodPost {
		return false
	}
	l.keys = append(l.keys, r.Header.Get("Idempotency-Key"))
	l.left--
	return l.left == 0
}

// The database is migrated, and checked as an app checks it. No address is shown: it may have a password.
//
// CONTRACT F-2, F-8
func TestDatabase(t *testing.T) {
	for name, address := range map[string]func(t *testing.T) string{
		"sqlite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "shop.db") },
		"postgres": func(t *testing.T) string { return pgtest.URL(t) },
	} {
		t.Run(name, func(t *testing.T) {
			s := &shell{t: t, env: map[string]string{"DATABASE_URL": address(t)}}
			if name == "postgres" {
				r := s.requires(failed, "", "status")
				require.Contains(t, r.out, "missing:   0001_idempotency.up.sql")
				require.Contains(t, r.out, "problem:")
			} else {
				require.Contains(t, s.requires(misused, "", "status").log, "DATABASE_URL:", "it makes no file")
			}
			require.Contains(t, s.requires(misused, "", "migrate").log, "--yes")
			require.Contains(t, s.requires(0, "", "migrate", "--yes").log, "0001_idempotency.up.sql. It only adds")
			require.Contains(t, s.requires(0, "", "migrate").log, "nothing to do")
			r := s.requires(0, "", "status")
			require.Contains(t, r.out, "self-test: passed")
			require.NotContains(t, r.out, "missing")

			db := openDatabase(t, s.env["DATABASE_URL"])
			require.NoError(t, db.Exec("INSERT INTO idempotency_migration (name) VALUES ('0002_newer.up.sql')").Error)
			require.NoError(t, db.Exec("INSERT INTO idempotency_setting (name, value) VALUES ('floor/0102030405060708', '1')").Error)
			r = s.requires(0, "", "status", "-o", "json") // the older release goes on
			require.Contains(t, r.out, `"0002_newer.up.sql"`)
			require.Contains(t, r.out, "keys up to 1970-01-01T00:00:00.000001Z are refused")
			require.NoError(t, db.Exec("DROP TABLE idempotency_reference").Error)
			require.Contains(t, s.requires(failed, "", "status").out, "idempotency_reference")
		})
	}
	s := &shell{t: t, env: map[string]string{"PASSWORD": "secret-word"}}
	for _, url := range []string{
		"postgres://me:secret-word@127.0.0.1:1/shop", "postgres://me:secret-word@127.0.0.1:1/shop?sslmode=bogus",
		"postgres://me:secret-word%zz@127.0.0.1:1/shop", "postgres://me:secret-word#x@127.0.0.1:1/shop", "postgres://me:80secret-word@[/x",
		"mysql://me:secret-word@h/x",
	} {
		s.env["DATABASE_URL"] = url
		require.NotZero(t, s.run("", "status").code)
	}
}

func openDatabase(t *testing.T, text string) *gorm.DB {
	t.Helper()
	server, err := serverOf(text, true)
	require.NoError(t, err)
	db, err := gorm.Open(server.dialector, &gorm.Config{Logger: logger.Discard})
	require.NoError(t, err)
	pool, err := db.DB()
	require.NoError(t, err)
	t.Cleanup(func() { _ = pool.Close() })
	return db
}
