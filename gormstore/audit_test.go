package gormstore_test

import (
	"strings"
	"testing"

	"github.com/libtnb/sqlite"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/internal/pgtest"
)

// mixed is a money row whose table has a name that must be quoted.
type mixed struct {
	gormstore.Once
	ID uint
}

func (mixed) TableName() string { return "MixedCase" }

// CONTRACT D-2
func TestAuditPasses(t *testing.T) {
	onStores(t, bothKinds, func(t *testing.T, db *gorm.DB, store *gormstore.Store) {
		require.NoError(t, db.AutoMigrate(&charge{}, &posting{}, &mixed{}))
		require.NoError(t, gormstore.Audit(t.Context(), db, &charge{}, &posting{}, mixed{}))
		require.NoError(t, store.Validate(t.Context()))
	})
}

// timedCharge is a charge with a time that GORM sets.
type timedCharge struct {
	gormstore.Once
	ID      uint
	Created int64 `gorm:"autoCreateTime:milli"`
}

func (timedCharge) TableName() string { return "charges" }

// bare is a money row that does not embed Once.
type bare struct{ ID uint }

// bareSet is a money row that has the columns, and fills them in its own way.
type bareSet struct {
	ID          uint
	OperationID string
}

func (bareSet) TableName() string { return "bares" }

// bareOnce is that of the release that embeds Once, beside the release before.
type bareOnce struct {
	gormstore.Once
	ID uint
}

func (bareOnce) TableName() string { return "bares" }

// A default that was made for the rows of before fills operation_id with another value in every attempt. That counts only
// where the model embeds Once: then each row has its operation's id.
//
// CONTRACT D-2
func TestAuditOfABackfill(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		newStore(t, db)
		random := "gen_random_uuid()"
		if db.Name() == "sqlite" {
			random = "(hex(randomblob(16)))"
		}
		require.NoError(t, db.Exec("CREATE TABLE bares (id bigint, operation_id varchar(64) NOT NULL DEFAULT "+random+
			" UNIQUE, command_hash varchar(70) NOT NULL DEFAULT 'before')").Error)
		for range 2 {
			require.NoError(t, db.Create(&bare{ID: 7}).Error, "nothing keeps it from being booked twice")
		}
		const want = "over operation_id protects nothing: operation_id has a default"
		require.ErrorContains(t, gormstore.Audit(t.Context(), db, &bare{}), want)
		require.ErrorContains(t, gormstore.Audit(t.Context(), db, &bareSet{}), want)
		require.NoError(t, gormstore.Audit(t.Context(), db, &bareOnce{}))
		require.Error(t, db.Create(&bareOnce{ID: 7}).Error)
	})
}

// CONTRACT D-2
func TestAuditOfMoneyTables(t *testing.T) {
	const (
		postgres = "postgres"
		columns  = "operation_id varchar(64) NOT NULL, command_hash varchar(70) NOT NULL, reference text NOT NULL, note text"
		charges  = "CREATE TABLE charges (" + columns + ")"
		unique   = "no UNIQUE index"
		null     = " has a column that may be NULL"
	)
	with := func(more string) string { return "CREATE TABLE charges (" + columns + ", " + more + ")" }
	type testCase struct {
		name, only string
		ddl        []string
		want       string // "": it passes
	}
	cases := []testCase{
		{"no table", "", nil, "charges (*gormstore_test.timedCharge): there is no such table"},
		{"no column of the operation", "", []string{"CREATE TABLE charges (reference text NOT NULL, UNIQUE (reference))"},
			"the column operation_id is missing in the database"},
		{"no column of the command", "", []string{"CREATE TABLE charges (operation_id varchar(64) NOT NULL UNIQUE)"},
			"the column command_hash is missing in the database"},
		{"no unique", "", []string{charges}, unique},
		{"an index that is not unique", "", []string{charges, "CREATE INDEX charges_o ON charges (operation_id)"}, unique},
		{"a unique without the operation", "", []string{with("UNIQUE (reference)")}, unique},
		{"a column that may be NULL", "", []string{with("UNIQUE (operation_id, note)")}, "operation_id,note" + null},
		{"the operation may be NULL", "", []string{"CREATE TABLE charges (operation_id varchar(64) UNIQUE, command_hash text)"},
			"operation_id" + null},
		{"partial", "", []string{charges, "CREATE UNIQUE INDEX charges_o ON charges (operation_id) WHERE note IS NULL"},
			"over operation_id is partial"},
		{"over expressions", "", []string{charges, "CREATE UNIQUE INDEX charges_o ON charges (operation_id, lower(reference))"},
			"over operation_id is over-expressions"},
		{"deferrable", postgres, []string{with("UNIQUE (operation_id) DEFERRABLE")}, "over operation_id is deferrable"},
		{"only included", postgres,
			[]string{charges, "CREATE UNIQUE INDEX charges_r ON charges (reference) INCLUDE (operation_id)"}, unique},
		{"a column that may be NULL is only included", postgres,
			[]string{charges, "CREATE UNIQUE INDEX charges_o ON charges (operation_id) INCLUDE (note)"}, ""},
		{"a good one beside a bad one", "", []string{with("UNIQUE (operation_id, note), UNIQUE (operation_id, reference)")}, ""},
		{"one without a time beside it", "", []string{with("booked_at timestamp NOT NULL, UNIQUE (operation_id, booked_at), " +
			"UNIQUE (operation_id, reference)")}, ""},
		{"partitioned by time", postgres, []string{with("booked_at timestamptz NOT NULL, UNIQUE (operation_id, booked_at)") +
			" PARTITION BY RANGE (booked_at)"}, "A partitioned table cannot: docs/database.md says how to build one"},
		{"partitioned by the operation", postgres, []string{with("booked_at timestamptz NOT NULL, UNIQUE (operation_id)") +
			" PARTITION BY HASH (operation_id)"}, ""},
	}
	// An index with a column whose value is another one in the second attempt protects nothing.
	for _, c := range []struct{ only, column, why string }{
		{"", "booked_at timestamp", "is a time"},
		{"", "booked_at timestamp with time zone", "is a time"},
		{"", "booked_on date", "is a time"},
		{"", "booked_at time", "is a time"},
		{"", "line text DEFAULT 'x'", "has a default"},
		{"", "line timestamp DEFAULT CURRENT_TIMESTAMP", "has a default"},
		{"", "line text GENERATED ALWAYS AS (note || 'x') STORED", "is generated"},
		{"", "created bigint", "is a time"}, // GORM's own
		{postgres, "line bigserial", "has a default"},
		{postgres, "line bigint GENERATED ALWAYS AS IDENTITY", "comes from a sequence"},
		{postgres, "line moment", "is a time"},
		{postgres, "line numbered", "has a default"},
		{postgres, "period interval", "is a time"},
		{postgres, "line uuid DEFAULT gen_random_uuid()", "has a default"},
	} {
		name, _, _ := strings.Cut(c.column, " ")
		ddl := with(c.column + " NOT NULL, UNIQUE (operation_id, " + name + ")")
		cases = append(cases, testCase{"with " + c.column, c.only, []string{ddl},
			"over operation_id," + name + " protects nothing: " + name + " " + c.why})
	}
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		newStore(t, db)
		if db.Name() == postgres {
			execute(t, db, "CREATE DOMAIN moment AS timestamptz", "CREATE DOMAIN numbered AS text DEFAULT gen_random_uuid()::text")
		}
		audit := func(t *testing.T, want string) {
			t.Helper()
			err := gormstore.Audit(t.Context(), db, &timedCharge{})
			if want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, want)
			require.ErrorContains(t, err, "charges", "it names the table")
		}
		for _, c := range cases {
			if c.only == "" || c.only == db.Name() {
				t.Run(c.name, func(t *testing.T) {
					execute(t, db, append([]string{"DROP TABLE IF EXISTS charges"}, c.ddl...)...)
					audit(t, c.want)
				})
			}
		}
		if db.Name() == postgres {
			t.Run("invalid", func(t *testing.T) {
				execute(t, db, "DROP TABLE charges", charges, "INSERT INTO charges VALUES ('o', 'c', 'r'), ('o', 'c', 'r')")
				require.Error(t, db.Exec("CREATE UNIQUE INDEX CONCURRENTLY charges_o ON charges (operation_id)").Error)
				audit(t, "over operation_id is invalid")
			})
		}
	})
}

// One error names everything.
//
// CONTRACT D-2, X-6
func TestAuditNamesEverything(t *testing.T) {
	sqlitePostgres(t, func(t *testing.T, db *gorm.DB) {
		execute(t, db, "DROP TABLE idempotency_settlement", "ALTER TABLE idempotency_record DROP COLUMN partial")
		require.NoError(t, db.AutoMigrate(&unique{}))
		err := gormstore.Audit(t.Context(), db, &charge{}, &unique{}, new(int))
		for _, want := range []string{
			"the write guard is not installed", "table idempotency_settlement is missing",
			"table idempotency_record has no column partial", "charges", "uniques", "*int is no GORM model",
		} {
			require.ErrorContains(t, err, want)
		}
	})
}

// CONTRACT F-2
func TestValidateOfPostgres(t *testing.T) {
	t.Parallel()
	cluster := pgtest.Own(t)
	migrate(t, openPostgres(t, cluster.URL(), 2))
	check := func(t *testing.T, wants ...string) {
		t.Helper()
		db := openPostgres(t, cluster.URL(), 2) // settings of a database hold for new connections
		store := newStore(t, db)
		if wants == nil {
			require.NoError(t, store.Validate(t.Context()))
		}
		for _, want := range wants {
			require.ErrorContains(t, store.Validate(t.Context()), want)
			require.ErrorContains(t, gormstore.Audit(t.Context(), db), want)
		}
	}
	check(t)
	cluster.Exec("ALTER DATABASE postgres SET synchronous_commit = off")
	check(t, "synchronous_commit is off")
	cluster.Exec("ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")
	eventually(t, "the server has read its settings", func() bool {
		var fsync string
		require.NoError(t, openPostgres(t, cluster.URL(), 2).Raw("SHOW fsync").Scan(&fsync).Error)
		return fsync == "off"
	})
	check(t, "synchronous_commit is off", "fsync is off")
	cluster.Exec("ALTER DATABASE postgres RESET synchronous_commit", "ALTER SYSTEM RESET fsync", "SELECT pg_reload_conf()")
	eventually(t, "the server has read its settings", func() bool {
		return newStore(t, openPostgres(t, cluster.URL(), 2)).Validate(t.Context()) == nil
	})
}

// CONTRACT F-2
func TestValidateOfSQLite(t *testing.T) {
	for name, c := range map[string]struct{ address, want string }{
		"journal": {"file:" + t.TempDir() + "/a.db?_pragma=synchronous(full)", "journal_mode is delete"},
		"synchronous": {
			"file:" + t.TempDir() + "/b.db?_pragma=journal_mode(wal)&_pragma=synchronous(normal)", "synchronous is not FULL",
		},
		"busy timeout": {
			"file:" + t.TempDir() + "/c.db?_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=busy_timeout(5)",
			"busy_timeout is 5ms",
		},
		"memory": {":memory:", "the database is in memory"},
	} {
		t.Run(name, func(t *testing.T) {
			db := openDB(t, sqlite.Open(c.address), 4)
			migrate(t, db)
			store := newStore(t, db)
			require.ErrorContains(t, store.Validate(t.Context()), c.want)
			require.ErrorContains(t, gormstore.Audit(t.Context(), db), c.want)
			if name != "memory" { // one round: all settings, whatever is wrong
				require.ErrorContains(t, gormstore.Audit(t.Context(), db),
					"?_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=busy_timeout(5000) ")
			}
		})
	}
}
