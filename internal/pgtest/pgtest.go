// Package pgtest gives tests a real PostgreSQL (13 or later) without any preparation: plain `go test ./...` does it.
//
//	url := pgtest.URL(t)                        // a fresh database on a server that the whole run shares
//	statements := pgtest.Statements(t, url)     // what that database executes from now on
//	cluster := pgtest.Own(t)                    // a private server, to stop, kill and reconfigure
//
// The shared server is the one that TEST_DATABASE_URL names (an account with CREATEDB is enough), else one that is
// started from the installed binaries. All test binaries of a run share it: they are processes of their own, so they
// meet in a directory below [os.TempDir] and hold a file lock there. A supervisor process, the server's parent, waits
// for that lock to come free, then ends the server and deletes its directory. A file lock ends with its process
// however that ends: a run that was killed with SIGKILL leaves nothing behind either.
//
// TEST_POSTGRES_BIN names the directory of the programs to use (initdb, postgres) instead of those that are found.
//
// Without PostgreSQL one test fails, TestPostgresAvailable, and prints how to install it. The tests that need
// PostgreSQL are skipped and say so. A server that is there and does not start or answer fails every test that needs it.
package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// hint follows the message of a test that cannot have PostgreSQL.
const hint = "TestPostgresAvailable prints how to install it: go test -run TestPostgresAvailable ./internal/pgtest"

// URL returns the postgres:// URL of an empty database that this test has for itself (TCP, no TLS on a server started here).
// When the test ends the database is gone, whether or not connections to it are still open: it is dropped, or it is emptied
// and becomes the database of another test, under another name.
func URL(t testing.TB) string {
	t.Helper()
	admin, err := sharedURL()
	if err != nil {
		unavailable(t, err)
	}
	name := databaseName(t.Name())
	database := *admin
	database.Path = "/" + name
	ours := os.Getenv("TEST_DATABASE_URL") == "" // a named server is left as it was found
	if !ours || !takeSpare(t.Context(), admin, name) {
		// template0, because nobody can be connected to it: a template in use cannot be copied.
		if err := execute(t.Context(), admin, nil, "CREATE DATABASE "+quote(name)+" TEMPLATE template0"); err != nil {
			t.Fatalf("pgtest: %v", err)
		}
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if ours && spare(ctx, &database, name) == nil {
			return
		}
		if err := execute(ctx, admin, nil, "DROP DATABASE IF EXISTS "+quote(name)+" WITH (FORCE)"); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	return database.String()
}

// Require skips the test if there is no PostgreSQL. [URL] and [Own] do the same; Require is for tests that get their
// server later, in a subtest or in another process.
func Require(t testing.TB) {
	t.Helper()
	if os.Getenv("TEST_DATABASE_URL") != "" {
		return
	}
	if _, err := findBinaries(installed()); err != nil {
		unavailable(t, err)
	}
}

// unavailable ends a test that cannot have PostgreSQL. Where there is none the test is skipped, because one test,
// TestPostgresAvailable, fails for all of them. Where that test passes or tells something else, this one fails too: a
// server that does not start, or a server that TEST_DATABASE_URL names for a test that needs one of its own.
func unavailable(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, errNotInstalled) && os.Getenv("TEST_DATABASE_URL") == "" {
		t.Skipf("%v\n%s", err, hint)
	}
	t.Fatalf("%v\n%s", err, hint)
}

// sharedURL is the administrator's URL of the server that all tests share.
func sharedURL() (*url.URL, error) {
	named := os.Getenv("TEST_DATABASE_URL")
	if named == "" {
		server, err := shared()
		if err != nil {
			return nil, err
		}
		return server.url, nil
	}
	u, err := url.Parse(named)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		// Neither the value nor the parser's error is shown: both may hold a password.
		return nil, fmt.Errorf("pgtest: TEST_DATABASE_URL is no URL: write postgres://user:password@host:port/database")
	}
	return u, nil
}

// databaseName makes a name for a test's database: readable in logs, unique in every process, at most 63 bytes.
func databaseName(test string) string {
	readable := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToLower(test))
	return readable[:min(len(readable), 48)] + "_" + strings.ToLower(rand.Text()[:12])
}

// execute runs statements one by one, each in a transaction of its own, over a connection of their own that starts
// with the given run-time parameters.
func execute(ctx context.Context, server *url.URL, parameters map[string]string, statements ...string) error {
	config, err := pgconn.ParseConfig(server.String())
	if err != nil {
		return err
	}
	maps.Copy(config.RuntimeParams, parameters)
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement).ReadAll(); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}
