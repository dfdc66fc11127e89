package gormstore_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
)

// A page of the operations that an operator may see is read from the indexes, and not from the table: from that of the open
// records, and from the end of that of the sweep.
//
// CONTRACT S-5
func TestListUsesItsIndex(t *testing.T) {
	t.Parallel()
	db := freshPostgres("", false)(t)(t)
	require.NoError(t, db.Exec(`INSERT INTO idempotency_record (id, scope, realm, owner, fence, state, recovery, method, route,
	hash_version, command_hash, created_at, lease_until, deadline_at, expires_at, sweep_from, sweep_after)
SELECT sha256(i::text::bytea), sha256('scope'), substr(sha256((i % 50)::text::bytea), 1, 24), sha256('owner'), 1,
	CASE WHEN i % 10 = 0 THEN 3 ELSE 2 END, 3, 'POST', '/v1/payments', 1, sha256('command'), now() - i * interval '1 s',
	now(), now(), now(), now() - i * interval '1 s', CASE WHEN i % 10 <> 0 THEN 259260 END FROM generate_series(1, 20000) i`).Error)
	require.NoError(t, db.Exec("VACUUM ANALYZE idempotency_record").Error)
	file, err := os.ReadFile("statements/postgres/operations.sql")
	require.NoError(t, err)
	_, list, found := strings.Cut(string(file), "-- name: list\n")
	require.True(t, found)
	_, list, _ = strings.Cut(list, "\nWITH RECURSIVE")
	list, _, _ = strings.Cut(list, ";")

	require.NoError(t, db.Connection(func(one *gorm.DB) error {
		require.NoError(t, one.Exec("PREPARE list AS WITH RECURSIVE"+strings.ReplaceAll(list, `:"schema".`, "")).Error)
		for _, cached := range []string{"force_custom_plan", "force_generic_plan"} {
			require.NoError(t, one.Exec("SET plan_cache_mode = "+cached).Error)
			for _, after := range []string{"'0001-01-01', ''", "now() - interval '15000 s', sha256('x')"} {
				var plan []string
				require.NoError(t, one.Raw("EXPLAIN EXECUTE list (50, substr(sha256('7'), 1, 24), "+after+", 'unknown', "+
					"(extract(epoch FROM now() - interval '1 s') * 1000000)::bigint)").
					Scan(&plan).Error)
				joined := strings.Join(plan, "\n")
				require.Contains(t, joined, "using idempotency_record_open", joined)
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
