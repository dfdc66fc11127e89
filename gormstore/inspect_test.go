package gormstore_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
)

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
// on: nothing is sorted, and no table is scanned. Beside it there are those that no sweep has put into that index yet. They
// are few, they come from the index of the sweep, and they alone are sorted.
func TestListUsesItsIndexOnSQLite(t *testing.T) {
	t.Parallel()
	db := freshSQLite(t)(t)
	empty := []byte{}
	plan := sqlitePlan(t, db, "list", 50, empty, []byte{0xff}, 0, true, false, true, "", empty, 0, 0, 0, empty)
	open, late, found := strings.Cut(plan, "    RIGHT\n")
	require.True(t, found, plan)
	require.Contains(t, open, "MERGE (UNION ALL)\n    LEFT\n      SEARCH r USING INDEX idempotency_record_open ((created_at,id)>(?,?)", plan)
	require.NotContains(t, open, "TEMP B-TREE", plan)
	require.Contains(t, late, "SEARCH r USING INDEX idempotency_record_sweep (sweep_after=? AND sweep_from>?)", plan)
	scansNoTable(t, plan)
}

// Nor do the numbers of the overview scan a table. They are of all open operations, which are read in the
// order of their index, and not sorted.
func TestCountUsesItsIndexOnSQLite(t *testing.T) {
	t.Parallel()
	plan := sqlitePlan(t, freshSQLite(t)(t), "count", 20_000, []byte{}, []byte{0xff}, 0, true, false, true, "", []byte{}, 0, endOfTime)
	require.Regexp(t, `MERGE \(UNION ALL\)\n\s+LEFT\n\s+S(CAN|EARCH) r USING INDEX idempotency_record_open `, plan)
	require.Contains(t, plan, "SEARCH r USING INDEX idempotency_record_sweep (sweep_after=? AND sweep_from>?)", plan)
	scansNoTable(t, plan)
}

// scansNoTable fails the test if a plan reads all of a table. The letters c, class, r and o name what the statement itself has
// made; a scan of an index says so.
func scansNoTable(t *testing.T, plan string) {
	t.Helper()
	for line := range strings.Lines(plan) {
		scanned, scans := strings.CutPrefix(strings.TrimSpace(line), "SCAN ")
		switch {
		case !scans, scanned == "c", scanned == "class", scanned == "r", scanned == "o", scanned == "CONSTANT ROW":
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
	require.Contains(t, plan, "SEARCH r USING INDEX idempotency_record_sweep (sweep_after=?)", plan)
	plan = sqlitePlan(t, sqlite, "near", make([]byte, 32), make([]byte, 32), []byte{}, []byte{}, 50)
	require.Contains(t, plan, "sqlite_autoindex_idempotency_record_1 (id>? AND id<?)", plan)

	db := freshPostgres("", false)(t)(t)
	for _, plan := range plansOf(t, db, "lastAnswered", "'', 'POST /v1/payments'") {
		require.Contains(t, plan, "Index Scan Backward using idempotency_record_sweep", plan)
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
