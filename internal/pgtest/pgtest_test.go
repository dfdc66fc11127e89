package pgtest

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/internal/testhost"
)

const installLines = `
The tests need PostgreSQL %d or later. Those that need it are skipped now. It need not be running: the tests start
servers of their own. This installs it, and then runs the tests of every module:

  sh .ci/test

Or install it yourself, as root:

  Debian, Ubuntu   apt-get install -y postgresql
  Fedora           dnf install -y postgresql-server
  Alpine           apk add postgresql
  macOS            brew install postgresql@17

Or name a running server, and an account with CREATEDB:

  TEST_DATABASE_URL=postgres://user:password@host:5432/postgres go test ./...
`

// TestPostgresAvailable is the one test that fails where there is no PostgreSQL: those that need it are skipped.
func TestPostgresAvailable(t *testing.T) {
	server, err := sharedURL()
	if err != nil {
		t.Fatalf("%v\n"+installLines, err, oldest)
	}
	if err := execute(t.Context(), server, nil, "SELECT"); err != nil {
		t.Fatalf("pgtest: the server does not answer: %v\n"+installLines, err, oldest)
	}
}

func TestURLIsADatabaseOfItsOwn(t *testing.T) {
	Require(t)
	var first *pgx.Conn
	t.Run("while the test runs", func(t *testing.T) {
		var err error
		first, err = pgx.Connect(t.Context(), URL(t)) // stays open: the database is taken all the same
		require.NoError(t, err)
		second := connect(t, URL(t))
		require.NotEqual(t, first.Config().Database, second.Config().Database)

		_, err = first.Exec(t.Context(), "CREATE TABLE payment (id bigint)")
		require.NoError(t, err)
		require.Zero(t, ask[int](t, second, "SELECT count(*) FROM pg_class WHERE relname = 'payment'"))
	})
	_, err := first.Exec(t.Context(), "SELECT")
	require.Error(t, err, "it was cut off")
	for range 3 { // however many databases are kept for the next tests
		conn := connect(t, URL(t))
		require.NotEqual(t, first.Config().Database, conn.Config().Database)
		require.Zero(t, ask[int](t, conn, "SELECT count(*) FROM pg_class WHERE relname = 'payment'"))
	}
}

func TestDatabaseName(t *testing.T) {
	name := databaseName("TestPay/Größe 1;--" + strings.Repeat("x", 100))
	require.Regexp(t, `^testpay_gr__e_1___x+_[a-z2-7]{12}$`, name)
	require.LessOrEqual(t, len(name), 63, "PostgreSQL would cut the name")
	require.NotEqual(t, databaseName("TestPay"), databaseName("TestPay"))
}

func TestDatabaseURLThatIsNoURL(t *testing.T) {
	t.Setenv("TEST_DATABASE_URL", "host=localhost password=hunter2")
	_, err := sharedURL()
	require.ErrorContains(t, err, "TEST_DATABASE_URL is no URL: write postgres://")
	require.NotContains(t, err.Error(), "hunter2")
}

func TestNamedServer(t *testing.T) {
	cluster := Own(t)
	t.Setenv("TEST_DATABASE_URL", cluster.URL())
	databaseURL := URL(t)
	require.Equal(t, cluster.server.url.Host, parse(t, databaseURL).Host)
	require.NotEqual(t, cluster.URL(), databaseURL)
	require.NoError(t, execute(t.Context(), parse(t, databaseURL), nil, "SELECT"))
}

// Where no PostgreSQL is installed one test fails. All others are skipped, and say why.
func TestWithoutPostgreSQL(t *testing.T) {
	t.Setenv("TEST_DATABASE_URL", "")
	t.Setenv(binariesVariable, t.TempDir())
	_, err := findBinaries(installed())
	require.ErrorIs(t, err, errNotInstalled)
	for name, need := range map[string]func(t testing.TB){
		"Own":     func(t testing.TB) { Own(t) },
		"Require": Require,
	} {
		var skipped bool
		t.Run(name, func(t *testing.T) {
			t.Cleanup(func() { skipped = t.Skipped() })
			need(t)
		})
		require.True(t, skipped, name)
	}
	t.Run("a named server is no excuse for a test that needs one of its own", func(t *testing.T) {
		t.Setenv("TEST_DATABASE_URL", "postgres://127.0.0.1:1/postgres")
		Require(t)
		err := testhost.Run(t.Context(), "own", func(t testing.TB) { Own(t) })
		require.ErrorContains(t, err, "no PostgreSQL 13 or later found")
	})
}

func TestBinaries(t *testing.T) {
	t.Run("are found without PATH", func(t *testing.T) {
		Require(t)
		own, err := findBinaries(installed())
		require.NoError(t, err)
		t.Setenv("PATH", "")
		if strings.HasPrefix(own, "/usr/lib/postgresql/") {
			found, err := findBinaries(installed())
			require.NoError(t, err)
			require.Equal(t, own, found)
		}
	})
	t.Run("are not there", func(t *testing.T) {
		_, err := findBinaries([]string{t.TempDir()})
		require.ErrorIs(t, err, errNotInstalled)
	})
	t.Run("version", func(t *testing.T) {
		require.Equal(t, 15, firstNumber("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)"))
		require.Equal(t, 18, firstNumber("postgres (PostgreSQL) 18beta1"))
		require.Zero(t, firstNumber("no number"))
	})
}

// connect opens a connection that is closed when the test ends.
func connect(t *testing.T, databaseURL string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), databaseURL)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

// ask returns the one value of a query.
func ask[T any](t *testing.T, conn *pgx.Conn, query string, arguments ...any) T {
	t.Helper()
	var value T
	require.NoError(t, conn.QueryRow(t.Context(), query, arguments...).Scan(&value))
	return value
}

// parse is url.Parse for URLs that are known to be good.
func parse(t *testing.T, rawURL string) *url.URL {
	t.Helper()
	u, err := url.Parse(rawURL)
	require.NoError(t, err)
	return u
}
