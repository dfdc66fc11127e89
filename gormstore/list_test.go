package gormstore_test

import (
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
	hash_version, command_hash, created_at, lease_until, deadline_at, expires_at, sweep_from, sweep_after)
SELECT sha256(i::text::bytea), sha256('scope'), substr(sha256((i % 50)::text::bytea), 1, 24), sha256('owner'), 1,
	CASE WHEN i % OPEN = 0 THEN 3 ELSE 2 END, 3, 'POST', '/v1/payments', 1, sha256('command'), now() - i * interval '1 s',
	now(), now(), now(), now() - i * interval '1 s', CASE WHEN i % OPEN <> 0 THEN 259260 END FROM generate_series(1, 20000) i`

// A page of the operations that an operator may see is read from the indexes, and not from the table: from that of the open
// records in its order, so that it ends with the page, and from the end of that of the sweep.
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
			for _, after := range []string{"'0001-01-01', ''", "now() - interval '15000 s', sha256('x')"} {
				var plan []string
				require.NoError(t, one.Raw("EXPLAIN EXECUTE list (50, substr(sha256('7'), 1, 24), substr(sha256('7'), 1, 24), "+
					"(extract(epoch FROM now() - interval '1 s') * 1000000)::bigint, true, false, false, '', '', "+
					"'0001-01-01', '9999-12-31', "+after+")").
					Scan(&plan).Error)
				joined := strings.Join(plan, "\n")
				require.Regexp(t, `Limit [^\n]*\n +->  Index Scan using idempotency_record_open on `, joined, "no more than the page is read")
				require.Contains(t, joined, "using idempotency_record_sweep ", joined)
				require.Contains(t, joined, "Index Cond: ((sweep_after = class.after) AND (sweep_from > ", joined)
				require.NotContains(t, joined, "Seq Scan", joined)
				if cached == "force_custom_plan" { // the cheaper one, and so the one that is taken
					require.NotContains(t, joined, "JIT", "a look at a few records that the planner takes for many")
				}
			}
		}
		return nil
	}))
}

// However much work the planner expects, few records are read, and nothing is compiled for it. The patrol comes by every ten
// seconds: compiling its plan would take a second of a processor each time.
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
	for what, like := range map[string]string{"list": "%(r.created_at, r.id) >%", "patrol": "%SKIP LOCKED%listed AS%"} {
		var read struct{ Calls, Compiled int }
		require.NoError(t, db.Raw(`SELECT sum(calls) AS calls, sum(jit_functions) AS compiled FROM pg_stat_statements
WHERE query LIKE '%class (after)%' AND query LIKE ? AND query NOT LIKE '%pg_stat_statements%'`, like).Scan(&read).Error)
		require.Equal(t, 1, read.Calls, what)
		require.Zero(t, read.Compiled, what)
	}
}

// What metrics ask for again and again is read from the index of the open operations, however large the table is.
func TestSurveyUsesItsIndex(t *testing.T) {
	db := parallelPostgres(t)
	for _, plan := range plansOf(t, db, "count", countArgs("253370764800000000")) {
		require.Contains(t, plan, "idempotency_record_open", plan)
	}
	st := try(gormstore.New(db)).ok(t)
	read := try(st.Count(t.Context(), swept)).ok(t)
	require.Len(t, read, 1)
	require.Equal(t, 200, read[0].Count)
	require.WithinDuration(t, time.Now().Add(-20_000*time.Second), read[0].Oldest, time.Hour)
}

// What the overview of operators counts is read from the indexes, too.
func TestCountUsesItsIndex(t *testing.T) {
	db := parallelPostgres(t)
	passed := "(extract(epoch FROM now() - interval '1 s') * 1000000)::bigint"
	for _, plan := range plansOf(t, db, "count", countArgs(passed)) {
		require.Contains(t, plan, "idempotency_record_open", plan)
		require.Regexp(t, `Index Cond: \(\(sweep_after = class(_1)?\.after\) AND \(sweep_from > `, plan)
	}
}

// countArgs are the arguments of the statement count for all that needs somebody.
func countArgs(passed string) string {
	return `20000, '', '\xff', ` + passed + ", true, false, true, '', '', '0001-01-01', '9999-12-31'"
}

// statementText is a statement of the operators' files, on the tables of the search path.
func statementText(t *testing.T, dialect, name string) string {
	t.Helper()
	file := try(os.ReadFile("statements/" + dialect + "/operations.sql")).ok(t)
	_, statement, found := strings.Cut(string(file), "-- name: "+name+"\n")
	require.True(t, found)
	statement, _, _ = strings.Cut(statement, ";\n")
	return strings.ReplaceAll(statement, `:"schema".`, "")
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
