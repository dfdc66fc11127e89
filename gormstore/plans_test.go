package gormstore_test

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/internal/pgtest"
)

const manyRecords = `INSERT INTO idempotency_record (id, scope, realm, owner, fence, state, recovery, method, route,
	hash_version, command_hash, created_at, lease_until, deadline_at, expires_at, due_at)
SELECT sha256(i::text::bytea), sha256('scope'), substr(sha256((i % 50)::text::bytea), 1, 24), sha256('owner'), 1,
	CASE WHEN i % OPEN = 0 THEN 3 ELSE 2 END, 3, 'POST', '/v1/payments', 1, sha256('command'), now - i * 1000000::bigint,
	now, now, now, CASE WHEN i % OPEN <> 0 THEN now + (259200 - i) * 1000000::bigint END
FROM generate_series(1, 20000) i, (SELECT (extract(epoch FROM now()) * 1000000)::bigint AS now) c`

// A page of the operations that an operator may see is read from the index of the open records in its order, and not from the
// table, so that it ends with the page.
//
// CONTRACT S-5
func TestListUsesItsIndex(t *testing.T) {
	db := parallelPostgres(t)
	require.NoError(t, db.Exec(strings.ReplaceAll(manyRecords, "OPEN", "2")).Error)
	require.NoError(t, db.Exec("VACUUM ANALYZE idempotency_record").Error)
	require.NoError(t, db.Connection(func(one *gorm.DB) error {
		require.NoError(t, one.Exec("PREPARE list AS\n"+statementText(t, "postgres", "list")).Error)
		for _, cached := range []string{"force_custom_plan", "force_generic_plan"} {
			require.NoError(t, one.Exec("SET plan_cache_mode = "+cached).Error)
			for _, after := range []string{"0, ''", microsAgo("15000 s") + ", sha256('x')"} {
				var plan []string
				require.NoError(t, one.Raw("EXPLAIN EXECUTE list (50, substr(sha256('7'), 1, 24), substr(sha256('7'), 1, 24), "+
					"true, false, false, '', '', 0, "+endOfTime+", "+after+", '', '', '', '')").
					Scan(&plan).Error)
				joined := strings.Join(plan, "\n")
				require.Regexp(t, `Limit [^\n]*\n +->  Index Scan using idempotency_record_open on `, joined, "no more than the page is read")
				require.NotContains(t, joined, "Seq Scan", joined)
				if cached == "force_custom_plan" { // the cheaper one, and so the one that is taken
					require.NotContains(t, joined, "JIT", "a look at a few records that the planner takes for many")
				}
			}
		}
		return nil
	}))
}

// However much work the planner expects, few records are read, and nothing is compiled for it.
func TestNothingIsCompiled(t *testing.T) {
	t.Parallel()
	url := pgtest.Own(t, "shared_preload_libraries=pg_stat_statements", "jit=on", "jit_above_cost=0").URL()
	db := openPostgres(t, url, 2)
	migrate(t, db)
	require.NoError(t, db.Exec("CREATE EXTENSION pg_stat_statements").Error)
	version := query[int](t, db, "SELECT current_setting('server_version_num')::int")
	if version < 150000 {
		t.Skip("the server does not count what it compiles")
	}
	st := newStore(t, db)
	require.NoError(t, err2(st.List(t.Context(), store.Query{Unknown: true, Limit: 50})))
	require.NoError(t, err2(st.Sweep(t.Context(), 50, store.Window{})))
	for what, like := range map[string]string{"list": "%(r.created_at, r.id) >%"} {
		var read struct{ Calls, Compiled int }
		require.NoError(t, db.Raw(`SELECT sum(calls) AS calls, sum(jit_functions) AS compiled FROM pg_stat_statements
WHERE query LIKE ? AND query NOT LIKE '%pg_stat_statements%'`, like).Scan(&read).Error)
		require.Equal(t, 1, read.Calls, what)
		require.Zero(t, read.Compiled, what)
	}
}

// What metrics ask for again and again is read from the index of the open operations, however large the table is.
func TestSurveyUsesItsIndex(t *testing.T) {
	db := parallelPostgres(t)
	for _, plan := range plansOf(t, db, "count", countArgs) {
		require.Contains(t, plan, "idempotency_record_open", plan)
	}
	st := try(gormstore.New(db)).ok(t)
	read := try(st.Count(t.Context(), swept)).ok(t)
	require.Len(t, read, 1)
	require.Equal(t, 200, read[0].Count)
	require.WithinDuration(t, time.Now().Add(-20_000*time.Second), read[0].Oldest, time.Hour)
}

// countArgs are the arguments of the statement count for all that needs somebody.
const countArgs = `20000, '', '\xff', ` + "true, false, true, '', '', 0, " + endOfTime

// statementText is a statement on the tables of the search path.
func statementText(t *testing.T, dialect, name string) string {
	t.Helper()
	file := try(os.ReadFile("internal/dialect/" + dialect + "/golden.sql")).ok(t)
	_, statement, found := strings.Cut(string(file), "-- name: "+name+"\n")
	require.True(t, found)
	statement, _, _ = strings.Cut(statement, ";\n")
	return strings.NewReplacer("public.", "", "main.", "").Replace(statement)
}

// plansOf returns the plans of a statement over many records, as PostgreSQL makes them for the arguments and for any. None
// may read the whole table.
func plansOf(t *testing.T, db *gorm.DB, name, args string) (plans []string) {
	t.Helper()
	require.NoError(t, db.Exec(strings.ReplaceAll(manyRecords, "OPEN", "100")).Error)
	require.NoError(t, db.Exec("VACUUM ANALYZE idempotency_record").Error)
	require.NoError(t, db.Connection(func(one *gorm.DB) error {
		require.NoError(t, one.Exec("PREPARE planned AS\n"+statementText(t, "postgres", name)).Error)
		for _, cached := range []string{"force_custom_plan", "force_generic_plan"} {
			require.NoError(t, one.Exec("SET plan_cache_mode = "+cached).Error)
			lines := query[[]string](t, one, "EXPLAIN EXECUTE planned ("+args+")")
			plan := strings.Join(lines, "\n")
			require.NotContains(t, plan, "Seq Scan on idempotency_record", plan)
			plans = append(plans, plan)
		}
		require.NoError(t, one.Exec("DEALLOCATE planned").Error)
		return nil
	}))
	return plans
}

// sqlitePlan returns SQLite's plan of a statement: one line for each part of it, with the parts of a part indented below it.
func sqlitePlan(t *testing.T, db *gorm.DB, name string, args ...any) string {
	t.Helper()
	pool := try(db.DB()).ok(t)
	rows, err := pool.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+statementText(t, "sqlite", name), args...)
	require.NoError(t, err)
	defer func() { require.NoError(t, rows.Close()) }()
	depth := map[int]int{}
	var plan strings.Builder
	for rows.Next() {
		var id, parent, unused int
		var detail string
		require.NoError(t, rows.Scan(&id, &parent, &unused, &detail))
		depth[id] = depth[parent] + 1
		fmt.Fprintf(&plan, "%s%s\n", strings.Repeat("  ", depth[id]), detail)
	}
	require.NoError(t, rows.Err())
	return plan.String()
}

// On SQLite the list of operators is read from the index of the open operations, in its order, from the place of the page before
// on: nothing is sorted, and no table is scanned.
func TestListUsesItsIndexOnSQLite(t *testing.T) {
	t.Parallel()
	db := freshSQLite(t)(t)
	empty := []byte{}
	plan := sqlitePlan(t, db, "list", 50, empty, []byte{0xff}, true, false, true, "", empty, 0, 0, 0, empty, "", "", "", "")
	require.Contains(t, plan, "SEARCH r USING INDEX idempotency_record_open ((created_at,id)>(?,?)", plan)
	require.NotContains(t, plan, "TEMP B-TREE", plan)
	scansNoTable(t, plan)
}

// Nor do the numbers of the overview scan a table. They are of all open operations, which are read in the
// order of their index, and not sorted.
func TestCountUsesItsIndexOnSQLite(t *testing.T) {
	t.Parallel()
	plan := sqlitePlan(t, freshSQLite(t)(t), "count", 20_000, []byte{}, []byte{0xff}, true, false, true, "", []byte{}, 0, int64(math.MaxInt64))
	require.Regexp(t, `S(CAN|EARCH) r USING INDEX idempotency_record_open `, plan)
	scansNoTable(t, plan)
}

// scansNoTable fails the test if a plan reads all of a table. The letters c, class, r and o name what the statement itself has
// made; a scan of an index says so.
func scansNoTable(t *testing.T, plan string) {
	t.Helper()
	for line := range strings.Lines(plan) {
		scanned, scans := strings.CutPrefix(strings.TrimSpace(line), "SCAN ")
		switch {
		case !scans, scanned == "c", scanned == "r", scanned == "o", scanned == "CONSTANT ROW":
		default:
			require.Contains(t, scanned, "USING INDEX idempotency_record_open", plan)
		}
	}
}

// What a page shows beside the list is read from indexes, too, and of many settlements only the last ones are.
func TestPagesUseTheirIndexes(t *testing.T) {
	t.Parallel()
	sqlite := freshSQLite(t)(t)
	plan := sqlitePlan(t, sqlite, "lastSettled", []byte{}, "", 50)
	require.Contains(t, plan, "SCAN s USING INDEX idempotency_settlement_lately", plan)
	require.NotContains(t, plan, "TEMP B-TREE", plan)
	plan = sqlitePlan(t, sqlite, "lastAnswered", []byte{}, "POST /v1/payments")
	require.Contains(t, plan, "SEARCH l USING INDEX idempotency_record_due (due_at>? AND due_at<?)", plan)
	plan = sqlitePlan(t, sqlite, "near", make([]byte, 32), make([]byte, 32), []byte{}, []byte{}, 50)
	require.Contains(t, plan, "sqlite_autoindex_idempotency_record_1 (id>? AND id<?)", plan)

	db := freshPostgres("", false)(t)(t)
	for _, plan := range plansOf(t, db, "lastAnswered", "'', 'POST /v1/payments'") {
		require.Contains(t, plan, "Index Scan Backward using idempotency_record_due", plan)
	}
	require.NoError(t, db.Exec(`INSERT INTO idempotency_settlement
SELECT id, created_at, 'olga', 'why', '', 1, 3, 2, 2, 201 FROM idempotency_record`).Error)
	execute(t, db, "VACUUM ANALYZE idempotency_settlement", "DELETE FROM idempotency_record")
	for _, plan := range plansOf(t, db, "lastSettled", "'', '', 50::bigint") {
		require.Contains(t, plan, "Index Scan Backward using idempotency_settlement_lately", plan)
	}
	require.NoError(t, db.Exec("DELETE FROM idempotency_record").Error)
	for _, plan := range plansOf(t, db, "near", `'\x00', '\x01', '\x02', '', 50::bigint`) {
		require.Contains(t, plan, "idempotency_record_pkey", plan)
	}
}

// What came and what was settled is read from the indexes of the open operations and of the settlements, and no table is scanned.
func TestFlowUsesItsIndexes(t *testing.T) {
	t.Parallel()
	plan := sqlitePlan(t, freshSQLite(t)(t), "flow", make([]byte, 24), make([]byte, 24), 24)
	require.Contains(t, plan, "SEARCH r USING INDEX idempotency_record_open (created_at>?", plan)
	require.Contains(t, plan, "SEARCH h USING INDEX idempotency_settlement_lately (settled_at>?", plan)
	require.Contains(t, plan, "SEARCH r USING INDEX sqlite_autoindex_idempotency_record_1 (id=?)", plan)

	db := freshPostgres("", false)(t)(t)
	require.NoError(t, db.Exec(strings.ReplaceAll(manyRecords, "OPEN", "100")).Error)
	execute(t, db, `INSERT INTO idempotency_settlement
SELECT id, created_at, 'olga', 'why', '', 1, 3, 2, 2, 201 FROM idempotency_record WHERE state = 2`, "VACUUM ANALYZE idempotency_settlement",
		"DELETE FROM idempotency_record")
	for _, plan := range plansOf(t, db, "flow", `'', '\xff', 24::bigint`) {
		require.Contains(t, plan, "using idempotency_record_open", plan)
		require.Contains(t, plan, "using idempotency_record_pkey", plan)
	}
}

// Metrics ask again and again. So a survey reads by one statement, whatever there is to count. The server's log also has the
// transaction around it, which compiles nothing.
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
		requireStatements(t, read(), "begin isolation level read committed",
			"SELECT pg_catalog.set_config('jit', 'off', true)", "SELECT CAST(pg_catalog.date_part", "rollback")
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
		plan := sqlitePlan(t, db, "count", 10_000, []byte{}, []byte{0xff}, true, false, true, "", []byte{}, 0, int64(math.MaxInt64))
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
	created_at, lease_until, deadline_at, expires_at, due_at)
SELECT randomblob(32), randomblob(32), randomblob(24), randomblob(32), 1, CASE WHEN i % 100 = 0 THEN 3 ELSE 2 END, 3, 'POST',
	'/v1/payments', 1, randomblob(32), now - i * 1000000, now, now, now,
	CASE WHEN i % 100 <> 0 THEN now + (259200 - i) * 1000000 END FROM n, c`

const endOfTime = "253370764800000000" // 9999-01-01, in microseconds

// microsAgo is a point in time of PostgreSQL.
func microsAgo(interval string) string {
	return "(extract(epoch FROM now() - interval '" + interval + "') * 1000000)::bigint"
}

// swept is what metrics ask for.
var swept = store.Query{Unknown: true, HalfDone: true, Limit: 10_000}

func requireSurveyed(t *testing.T, st *gormstore.Store, want int) {
	t.Helper()
	found := try(st.Count(t.Context(), swept)).ok(t)
	count := 0
	for _, b := range found {
		count += b.Count
	}
	require.Equal(t, want, count)
}
