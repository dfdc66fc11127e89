package gormstore_test

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core/store"
)

// manyReferences are those of 50,000 operations: a seller of ten, an amount of a thousand, and a channel that no operation
// of seller-1 has. One reference was attached in each millisecond.
const manyReferences = `INSERT INTO idempotency_reference
SELECT sha256(i::text::bytea), 'seller', 'seller-' || i % 10, substr(sha256('realm'), 1, 24), i * 1000 FROM generate_series(1, 50000) i
UNION ALL
SELECT sha256(i::text::bytea), 'amount', (i / 10 % 1000)::text, substr(sha256('realm'), 1, 24), i * 1000 FROM generate_series(1, 50000) i
UNION ALL
SELECT sha256(i::text::bytea), 'channel', 'web', substr(sha256('realm'), 1, 24), i * 1000 FROM generate_series(2, 50000, 10) i`

// However many references there are, a page of them reads no more than it shows, page 500 like the first one; and a page
// that finds nothing reads no more than it may.
func TestReferencesAreReadByTheirIndex(t *testing.T) {
	db := parallelPostgres(t)
	execute(t, db, manyReferences, "VACUUM ANALYZE idempotency_reference")
	require.NoError(t, db.Transaction(func(one *gorm.DB) error {
		execute(t, one, statementText(t, "postgres", "withoutJIT"), "PREPARE planned AS\n"+statementText(t, "postgres", "referred"))
		for _, cached := range []string{"force_custom_plan", "force_generic_plan"} {
			execute(t, one, "SET plan_cache_mode = "+cached)
			for name, tt := range map[string]struct {
				refs   string
				before string // the place
				most   int    // pages of 8 KiB
			}{
				"first page":         {"'seller-1', '', '', ''", endOfTime, 51 * 12},
				"late page":          {"'seller-1', '', '', ''", "5000000", 51 * 12},
				"both are common":    {"'seller-2', '', 'web', ''", endOfTime, 51 * 16},
				"they never meet":    {"'seller-1', 'seller', 'web', ''", endOfTime, 1000 * 16},
				"no such name":       {"'seller-1', 'amount', '', ''", endOfTime, 1000 * 16},
				"nobody has the one": {"'seller-x', '', 'web', ''", endOfTime, 10},
			} {
				plan := strings.Join(query[[]string](t, one, fmt.Sprintf("EXPLAIN (ANALYZE, BUFFERS) EXECUTE planned "+
					"(%s, 0, %s, %s, '', substr(sha256('realm'), 1, 24), substr(sha256('realm'), 1, 24), 1000, 51, false)",
					tt.refs, endOfTime, tt.before)), "\n")
				require.Regexp(t, `Index (Only )?Scan Backward using idempotency_reference_value on idempotency_reference r`, plan)
				for _, costly := range []string{"Seq Scan", "Sort", "Hash", "hashed", "Materialize"} {
					require.NotContains(t, plan, costly, plan)
				}
				read := regexp.MustCompile(`Buffers: shared hit=(\d+)(?: read=(\d+))?`).FindStringSubmatch(plan)
				require.NotNil(t, read, plan)
				hit, _ := strconv.Atoi(read[1])
				missed, _ := strconv.Atoi(read[2])
				require.LessOrEqual(t, hit+missed, tt.most, "%s, %s:\n%s", name, cached, plan)
			}
		}
		return nil
	}))
}

func TestReferencesAreReadByTheirIndexOnSQLite(t *testing.T) {
	t.Parallel()
	realm, end := make([]byte, 24), int64(math.MaxInt64)
	plan := sqlitePlan(t, freshSQLite(t)(t), "referred", "seller-1", "", "77.10", "", 0, end, end, []byte{}, realm, realm, 1000, 51, true)
	require.Contains(t, plan, "SEARCH r USING INDEX idempotency_reference_value (value=? AND referred_at>? AND (referred_at,record_id)<(?,?))", plan)
	require.Equal(t, 2, strings.Count(plan, "SEARCH o USING INDEX sqlite_autoindex_idempotency_reference_1 (record_id=?)")+
		strings.Count(plan, "SEARCH o USING COVERING INDEX sqlite_autoindex_idempotency_reference_1 (record_id=?)"), plan)
	require.NotContains(t, plan, "SCAN idempotency", plan)
}

// A value that is everywhere, beside one that none of its operations has: the search stops, says where, and goes on from
// there.
func TestSearchOfReferencesStops(t *testing.T) {
	onEvery(t, func(t *testing.T, _ database, db *gorm.DB) {
		insert := `INSERT INTO idempotency_reference
SELECT decode(lpad(to_hex(i), 64, '0'), 'hex'), 'seller', 'seller-1', decode(repeat('07', 24), 'hex'), i * 1000 FROM generate_series(1, 11000) i
UNION ALL SELECT decode(repeat('00', 31) || '09', 'hex'), 'amount', '77.10', decode(repeat('07', 24), 'hex'), 1`
		if db.Name() == "sqlite" {
			insert = `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 11000)
INSERT INTO idempotency_reference SELECT unhex(printf('%064x', i)), 'seller', 'seller-1', zeroblob(24), i * 1000 FROM n
UNION ALL SELECT unhex(printf('%064x', 9)), 'amount', '77.10', zeroblob(24), 1`
		}
		execute(t, db, insert)
		st := newStore(t, db)
		q := store.Query{Refs: []store.Ref{{Value: "seller-1"}, {Value: "77.10"}}, Limit: 50}
		var at time.Time
		pages := 0
		for ; ; pages++ {
			page := try(st.Referred(t.Context(), q)).ok(t)
			if page.Next == (store.Cursor{}) {
				require.Equal(t, []store.ID{{31: 9}}, page.IDs)
				break
			}
			require.Empty(t, page.IDs)
			require.True(t, at.IsZero() || page.Next.CreatedAt.Before(at))
			q.After, at = page.Next, page.Next.CreatedAt
		}
		require.Equal(t, 5, pages, "it looks at 2,000 at a time")
	})
}
