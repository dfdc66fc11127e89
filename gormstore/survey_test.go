package gormstore_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/internal/pgtest"
)

// Metrics ask again and again. So a survey reads by one statement, whatever there is to count. The server's log also has the
// transaction around it, which can only read and compiles nothing.
func TestSurveyIsOneStatement(t *testing.T) {
	t.Parallel()
	url := migratedURL(t)
	read := pgtest.Statements(t, url)
	db := openPostgres(t, url, 2) // opened after the log was switched on
	st := newStore(t, db)
	requireSurveyed(t, st, 0) // the schema is asked for once
	for _, rows := range []int{0, 200} {
		if rows > 0 {
			fill(t, db)
		}
		read()
		requireSurveyed(t, st, rows)
		requireStatements(t, read(), "begin isolation level read committed read only",
			"SELECT pg_catalog.set_config('jit', 'off', true)", "WITH RECURSIVE class (after)", "rollback")
	}
}

// On SQLite, too, it is read from the index of the open operations, in its order, of an empty table and of a large one.
func TestSurveyUsesItsIndexOnSQLite(t *testing.T) {
	t.Parallel()
	db := freshSQLite(t)(t)
	st := newStore(t, db)
	for _, rows := range []int{0, 200} {
		if rows > 0 {
			fill(t, db)
			require.NoError(t, db.Exec("ANALYZE").Error)
		}
		plan := sqlitePlan(t, db, "count", 10_000, []byte{}, []byte{0xff}, endOfTime, true, false, true, "", []byte{}, 0, endOfTime)
		require.Contains(t, plan, "SEARCH r USING INDEX idempotency_record_open ", plan)
		require.NotContains(t, plan, "USE TEMP B-TREE FOR ORDER BY\n    ", plan)
		requireSurveyed(t, st, rows)
	}
}

// fill adds 20,000 records. 200 of them are unknown operations.
func fill(t *testing.T, db *gorm.DB) {
	t.Helper()
	insert := strings.ReplaceAll(manyRecords, "OPEN", "100")
	if db.Name() == "sqlite" {
		insert = manyOnSQLite
	}
	require.NoError(t, db.Exec(insert).Error)
}

// manyOnSQLite is manyRecords on SQLite, where points in time are microseconds.
const manyOnSQLite = `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000),
	c AS MATERIALIZED (SELECT unixepoch() * 1000000 AS now)
INSERT INTO idempotency_record (id, scope, realm, owner, fence, state, recovery, method, route, hash_version, command_hash,
	created_at, lease_until, deadline_at, expires_at, sweep_from, sweep_after)
SELECT randomblob(32), randomblob(32), randomblob(24), randomblob(32), 1, CASE WHEN i % 100 = 0 THEN 3 ELSE 2 END, 3, 'POST',
	'/v1/payments', 1, randomblob(32), now - i * 1000000, now, now, now, now - i * 1000000,
	CASE WHEN i % 100 <> 0 THEN 259260 END FROM n, c`

const endOfTime = 253370764800000000 // 9999-01-01, in microseconds

// swept is what metrics ask for.
var swept = store.Query{Unknown: true, HalfDone: true, Swept: true, Limit: 10_000}

func requireSurveyed(t *testing.T, st *gormstore.Store, want int) {
	t.Helper()
	found := try(st.Count(t.Context(), swept)).ok(t)
	count := 0
	for _, b := range found {
		count += b.Count
	}
	require.Equal(t, want, count)
}
