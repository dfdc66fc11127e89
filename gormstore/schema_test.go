package gormstore_test

import (
	"database/sql"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/gormstore/inbox"
	"github.com/auth19/idem/internal/pgtest"
)

// onAll runs a statement on so many connections of the pool, and leaves what it set there.
func onAll(t *testing.T, db *gorm.DB, connections int, statement string) {
	t.Helper()
	pool := try(db.DB()).ok(t)
	taken := make([]*sql.Conn, connections)
	for i := range taken {
		taken[i] = try(pool.Conn(t.Context())).ok(t)
		require.NoError(t, err2(taken[i].ExecContext(t.Context(), statement)))
	}
	for _, c := range taken {
		require.NoError(t, c.Close())
	}
}

// withPath is the URL of the database with a search path that is configured.
func withPath(t *testing.T, address, path string) string {
	t.Helper()
	u := try(url.Parse(address)).ok(t)
	q := u.Query()
	q.Set("search_path", path)
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20") // since pgx v5.11 a plus sign is one, as for PostgreSQL's own library
	return u.String()
}

// strays are empty tables in another schema than the store's, and what makes statements without a schema use them.
var strays = map[string]struct{ address, set string }{
	"search path": {set: `SET search_path = other, pg_temp`},
	"temporary tables": {set: `CREATE TEMP TABLE IF NOT EXISTS idempotency_record (LIKE public.idempotency_record INCLUDING ALL);
		CREATE TEMP TABLE IF NOT EXISTS processed_message (LIKE public.processed_message INCLUDING ALL);
		CREATE TEMP TABLE IF NOT EXISTS idempotency_intent (LIKE public.idempotency_intent INCLUDING ALL);
		CREATE TEMP TABLE IF NOT EXISTS idempotency_step (LIKE public.idempotency_step INCLUDING ALL)`},
}

// What an app leaves on a pooled connection makes no statement go to another table.
//
// CONTRACT F-6
func TestStrayOnAConnection(t *testing.T) {
	t.Parallel()
	for name, stray := range strays {
		for _, when := range []string{"before the first use", "after it"} {
			t.Run(name+" "+when, func(t *testing.T) {
				address := pgtest.URL(t)
				const connections = 4
				db := openPostgres(t, address, connections)
				other := openPostgres(t, withPath(t, address, "other"), 2)
				execute(t, other, "CREATE SCHEMA other")
				require.NoError(t, gormstore.Migrate(t.Context(), other))
				// A view, because a store that finds a second table is refused.
				execute(t, other, "ALTER TABLE idempotency_record RENAME TO empty", "CREATE VIEW idempotency_record AS TABLE empty")
				migrate(t, db)
				st := newStore(t, db)
				box, j := newInbox(t, db, stockInbox), newJournal(t, db)
				if when == "after it" {
					require.ErrorIs(t, err2(st.Find(t.Context(), store.ID{1}, store.Viewer{All: true})), store.ErrNotFound)
				}
				elsewhere := openPostgres(t, address, 2) // where nobody has left anything

				parked, transacted, continued := command(store.Park), command(store.Rollback), command(store.Resume)
				m := message()
				ticket := won(t, newStore(t, elsewhere), parked)
				onAll(t, db, connections, stray.set)
				require.False(t, try(st.Claim(t.Context(), again(parked))).ok(t).Won, "the key is claimed twice")
				require.NoError(t, st.End(t.Context(), ticket, store.Ending{State: store.Completed, Answer: paid()}))

				tx, _ := begin(t, st, transacted)
				require.NoError(t, seal(t.Context(), tx, paid(), false))
				resumed(t, st, continued, store.Seal{Start: &store.StepRecord{Name: "charge", Kind: store.ProviderStep}})
				require.NoError(t, box.Process(t.Context(), m, func(*gorm.DB) error { return nil }))
				require.NotEmpty(t, try(j.Begin(t.Context(), entryOf(t, "order-1", 0))).ok(t).Key)
				sweepOnce(t, st)
				require.NoError(t, st.Validate(t.Context()))

				// All of it is where it belongs.
				fresh := newStore(t, elsewhere)
				requireCompleted(t, fresh, parked, paid())
				requireCompleted(t, fresh, transacted, paid())
				require.Len(t, try(fresh.Steps(t.Context(), continued.ID)).ok(t), 1)
				for table, want := range map[string]int64{"idempotency_record": 3, "processed_message": 1, "idempotency_intent": 1} {
					require.Equal(t, want, query[int64](t, elsewhere, "SELECT count(*) FROM public."+table), table)
				}
				requireProcessed(t, box, m)
			})
		}
	}
}

// SQLite has no search path, but a temporary table of the same name comes first.
//
// CONTRACT F-6
func TestTemporaryTableOnSQLite(t *testing.T) {
	db := freshSQLite(t)(t)
	st := newStore(t, db)
	c := command(store.Park)
	claimed := try(st.Claim(t.Context(), c)).ok(t)
	require.True(t, claimed.Won)
	onAll(t, db, 15, "CREATE TEMP TABLE idempotency_record AS SELECT * FROM main.idempotency_record LIMIT 0")
	claimed = try(st.Claim(t.Context(), again(c))).ok(t)
	require.False(t, claimed.Won, "the key is claimed twice")
	require.Equal(t, c.Owner, claimed.Record.Owner)
}

// CONTRACT F-6
func TestSchemaThatIsFound(t *testing.T) {
	t.Parallel()
	const odd = `Pay"ments, x`
	address := pgtest.URL(t)
	db := openPostgres(t, address, 4)
	execute(t, db, `CREATE SCHEMA "Pay""ments, x"`, `CREATE SCHEMA upper`)
	claim := func(t *testing.T, path string, options ...gormstore.Option) error {
		t.Helper()
		db := openPostgres(t, withPath(t, address, path), 4)
		st := try(gormstore.New(db, options...)).ok(t)
		claimed, err := st.Claim(t.Context(), command(store.Park))
		require.Equal(t, err == nil, claimed.Won)
		return err
	}
	count := func(table string) (n int64) {
		require.NoError(t, db.Raw("SELECT count(*) FROM "+table).Scan(&n).Error)
		return n
	}
	const oddPath = `"$user", "gone" ,"Pay""ments, x" , UPPER`

	require.ErrorContains(t, claim(t, oddPath), "run gormstore.Migrate, or name the schema with gormstore.InSchema")
	require.ErrorContains(t, gormstore.Migrate(t.Context(), openPostgres(t, withPath(t, address, "gone"), 2)),
		"no schema of the search path is there")

	// The tables go into the first schema of the path that is there, and are found there.
	migrator := openPostgres(t, withPath(t, address, oddPath), 2)
	onAll(t, migrator, 2, "SET search_path = public")
	require.NoError(t, gormstore.Migrate(t.Context(), migrator))
	require.NoError(t, gormstore.Migrate(t.Context(), migrator), "again")
	require.NoError(t, claim(t, oddPath))
	require.EqualValues(t, 1, count(`"Pay""ments, x".idempotency_record`))
	require.NoError(t, claim(t, "public", gormstore.InSchema(odd)))
	require.EqualValues(t, 2, count(`"Pay""ments, x".idempotency_record`))
	require.ErrorContains(t, claim(t, "upper, public"), `is in the schema Pay"ments, x (not on the search path)`)

	// Where they are in two of them, one is the wrong one.
	require.NoError(t, gormstore.Migrate(t.Context(), db, gormstore.InSchema("upper")))
	require.ErrorContains(t, claim(t, oddPath), `in several schemas of this database, Pay"ments, x and upper`)
	require.ErrorContains(t, gormstore.Migrate(t.Context(), migrator), "in several schemas of this database")
	require.NoError(t, claim(t, oddPath, gormstore.InSchema("upper")))
	require.EqualValues(t, 1, count("upper.idempotency_record"))
	require.NoError(t, gormstore.Migrate(t.Context(), migrator, gormstore.InSchema("upper")))
}

// The money tables move to another schema, and the search path with them. New tables there would be empty: every key would be
// free, and the money of each repeat would move again.
//
// CONTRACT F-6
func TestTablesThatMove(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	before := openPostgres(t, withPath(t, address, "public"), 4)
	migrate(t, before)
	c := command(store.Park)
	require.NoError(t, err2(newStore(t, before).Claim(t.Context(), c)))
	execute(t, before, "CREATE SCHEMA app", "ALTER TABLE effects SET SCHEMA app")

	after := func() *gorm.DB { return openPostgres(t, withPath(t, address, "app"), 4) }
	const where = "idempotency_record is in the schema public (not on the search path)"
	require.ErrorContains(t, gormstore.Migrate(t.Context(), after()), where)
	require.ErrorContains(t, newStore(t, after()).Validate(t.Context()), where)
	require.ErrorContains(t, gormstore.Audit(t.Context(), after()), where)

	// Another tool has run the migrations there.
	require.NoError(t, gormstore.Migrate(t.Context(), after(), gormstore.InSchema("app")))
	const both = "in several schemas of this database, app and public (not on the search path)"
	require.ErrorContains(t, gormstore.Migrate(t.Context(), after()), both)
	require.ErrorContains(t, newStore(t, after()).Validate(t.Context()), both)
	_, err := newStore(t, after()).Claim(t.Context(), again(c))
	require.ErrorContains(t, err, both, "and an app that does not ask is refused, too")
	box := try(inbox.New(after(), inbox.Config{Group: "g", BrokerRetention: time.Hour})).ok(t)
	require.ErrorContains(t, box.Validate(t.Context()), both)

	for schema, won := range map[string]bool{"public": false, "app": true} {
		db := after()
		require.NoError(t, gormstore.Migrate(t.Context(), db, gormstore.InSchema(schema)))
		store := try(gormstore.New(db, gormstore.InSchema(schema))).ok(t)
		require.NoError(t, store.Validate(t.Context()))
		require.NoError(t, gormstore.Audit(t.Context(), db))
		claimed := try(store.Claim(t.Context(), again(c))).ok(t)
		require.Equal(t, won, claimed.Won, "it is as the app has said: %s", schema)
	}

	// What is no table of this database, or only of a session, is no other place of records.
	require.NoError(t, before.Exec("DROP TABLE app.idempotency_record CASCADE").Error)
	require.NoError(t, before.Exec("CREATE VIEW app.idempotency_record AS TABLE public.idempotency_record").Error)
	onAll(t, before, 3, "CREATE TEMP TABLE IF NOT EXISTS idempotency_record (LIKE public.idempotency_record)")
	require.NoError(t, newStore(t, before).Validate(t.Context()))
}

// A schema of the role's name comes first, and is the one of the role that has connected.
//
// CONTRACT F-6
func TestSchemaOfTheUser(t *testing.T) {
	db := openPostgres(t, pgtest.URL(t), 4)
	user := query[string](t, db, "SELECT session_user")
	require.NoError(t, db.Exec(`CREATE SCHEMA "`+user+`"`).Error)
	require.NoError(t, gormstore.Migrate(t.Context(), db))
	require.NoError(t, err2(newStore(t, db).Claim(t.Context(), command(store.Park))))
	require.EqualValues(t, 1, query[int64](t, db, `SELECT count(*) FROM "`+user+`".idempotency_record`))
}

// Every statement in the source names the schema.
//
// CONTRACT F-6
func TestStatementsNameTheirSchema(t *testing.T) {
	bare := regexp.MustCompile(`(?i)\b(FROM|INTO|UPDATE|JOIN)\s+(idempotency_|processed_message)\w*`)
	for _, pattern := range []string{"*.go", "*/*.go", "internal/txn/*.go", "internal/dialect/*/statements/*.sql"} {
		files := try(filepath.Glob(pattern)).ok(t)
		if strings.HasSuffix(pattern, ".sql") {
			files = append(files, try(filepath.Glob("internal/dialect/statements/*.sql")).ok(t)...)
		}
		require.Greater(t, len(files), 10)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") || file == "migrate.go" { // Migrate sets the path of its transaction
				continue
			}
			text := try(os.ReadFile(file)).ok(t)
			require.Empty(t, bare.FindAllString(string(text), -1), "%s: write the schema before the table", file)
		}
	}
}

// Many first uses at the same time find one schema, and all of them get their statements.
//
// CONTRACT F-6
func TestManyFirstUses(t *testing.T) {
	db := parallelPostgres(t)
	for range 30 {
		st := try(gormstore.New(db)).ok(t)
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				_, err := st.Find(t.Context(), store.ID{1}, store.Viewer{All: true})
				assert.ErrorIs(t, err, store.ErrNotFound)
			})
		}
		group.Wait()
	}
}
