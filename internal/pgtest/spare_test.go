package pgtest

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// contents is what a database has: how many objects of each kind, and who may use its schema.
const contents = `SELECT concat_ws(' ',
	(SELECT count(*) FROM pg_namespace WHERE nspname !~ '^pg_(toast_)?temp_'),
	(SELECT nspowner::regrole::text FROM pg_namespace WHERE nspname = 'public'),
	(SELECT string_agg(a::text, ',' ORDER BY a::text) FROM pg_namespace, aclexplode(nspacl) AS a WHERE nspname = 'public'),
	(SELECT count(*) FROM pg_class), (SELECT count(*) FROM pg_attribute), (SELECT count(*) FROM pg_type),
	(SELECT count(*) FROM pg_proc), (SELECT count(*) FROM pg_constraint), (SELECT count(*) FROM pg_depend),
	(SELECT count(*) FROM pg_trigger), (SELECT count(*) FROM pg_extension), current_setting('work_mem'))`

// used runs statements in a test's database, and returns the database's number after the test, when it is emptied or gone.
func used(t *testing.T, statements string) (number uint32) {
	t.Helper()
	require.True(t, t.Run("the test that uses it", func(t *testing.T) {
		conn := connect(t, URL(t))
		_, err := conn.Exec(t.Context(), statements)
		require.NoError(t, err)
		number = ask[uint32](t, conn, "SELECT oid FROM pg_database WHERE datname = current_database()")
	}))
	return number
}

// next is a connection to a new test's database, and its number.
func next(t *testing.T) (conn *pgx.Conn, number uint32) {
	t.Helper()
	conn = connect(t, URL(t))
	return conn, ask[uint32](t, conn, "SELECT oid FROM pg_database WHERE datname = current_database()")
}

func TestSpareDatabaseIsLikeANewOne(t *testing.T) {
	if _, err := shared(); err != nil {
		unavailable(t, err)
	}
	t.Setenv("TEST_DATABASE_URL", "")
	withoutSpares(t)
	fresh, _ := next(t)
	number := used(t, `CREATE TABLE payment (id serial PRIMARY KEY, amount numeric CHECK (amount > 0));
		CREATE TYPE kind AS ENUM ('a'); CREATE TEMPORARY TABLE passing (id int);
		CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'; CREATE VIEW v AS SELECT * FROM payment;
		REVOKE ALL ON SCHEMA public FROM PUBLIC; SELECT pg_advisory_lock(1)`)
	conn, again := next(t)
	require.Equal(t, number, again, "it is used again")
	require.Equal(t, ask[string](t, fresh, contents), ask[string](t, conn, contents))
	require.Zero(t, ask[int](t, conn, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = $1", again))
}

// What DROP SCHEMA does not take away, and would be there for the next test.
func TestDatabaseThatIsNotLikeANewOneIsDropped(t *testing.T) {
	if _, err := shared(); err != nil {
		unavailable(t, err)
	}
	t.Setenv("TEST_DATABASE_URL", "")
	admin := connect(t, adminURL(t))
	_, err := admin.Exec(t.Context(), "DROP ROLE IF EXISTS idem_reader; CREATE ROLE idem_reader")
	require.NoError(t, err)
	for name, statements := range map[string]string{
		"schema":            "CREATE SCHEMA other",
		"system function":   "CREATE FUNCTION pg_catalog.idem_f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
		"setting":           "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET work_mem = ''7MB''', current_database()); END $$",
		"right":             "DO $$ BEGIN EXECUTE format('REVOKE CONNECT ON DATABASE %I FROM PUBLIC', current_database()); END $$",
		"right of a role":   "GRANT EXECUTE ON FUNCTION pg_catalog.pg_ls_dir(text) TO idem_reader",
		"default privilege": "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC",
		"publication":       "CREATE PUBLICATION p",
		"large object":      "SELECT lo_create(0)",
		"cast":              "CREATE CAST (bytea AS boolean) WITH INOUT",
		"wrapper":           "CREATE FOREIGN DATA WRAPPER w",
		"event trigger": "CREATE FUNCTION pg_catalog.idem_e() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END';" +
			"CREATE EVENT TRIGGER e ON sql_drop EXECUTE FUNCTION pg_catalog.idem_e()",
	} {
		t.Run(name, func(t *testing.T) {
			number := used(t, statements)
			require.Zero(t, ask[int](t, admin, "SELECT count(*) FROM pg_database WHERE oid = $1", number))
		})
	}
	_, err = admin.Exec(t.Context(), "DROP ROLE idem_reader")
	require.NoError(t, err)
}

func adminURL(t *testing.T) string {
	t.Helper()
	u, err := sharedURL()
	require.NoError(t, err)
	return u.String()
}

// withoutSpares hides the spare databases from the test: its first one is new.
func withoutSpares(t *testing.T) {
	spares.Lock()
	defer spares.Unlock()
	hidden := spares.names
	spares.names = nil
	t.Cleanup(func() {
		spares.Lock()
		defer spares.Unlock()
		spares.names = append(spares.names, hidden...)
	})
}
