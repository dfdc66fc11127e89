package browser

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/internal/pgtest"
)

// manyOperations are 10,000 unknown operations, one claimed in each minute of 2026, 20 half-done ones of today, and 20,000
// that are over.
const manyOperations = `WITH c AS (SELECT (extract(epoch FROM now()) * 1000000)::bigint AS now)
INSERT INTO idempotency_record (id, scope, realm, owner, fence, state, recovery, method, route,
	hash_version, command_hash, created_at, lease_until, deadline_at, expires_at, due_at)
SELECT sha256(i::text::bytea), sha256('scope'), $3::bytea, substr(sha256('owner'), 1, 16), 1, 3, 3, 'POST', $1,
	1, sha256('command'), 1767225600000000 + i * 60000000::bigint, now, now, NULL::bigint, NULL::bigint
FROM generate_series(0, 9999) i, c
UNION ALL
SELECT sha256(i::text::bytea), sha256('scope'), $3::bytea, substr(sha256('owner'), 1, 16), 1, 1, 2, 'POST', $2,
	1, sha256('command'), now - 3600000000, now - 3600000000, now - 3600000000, NULL, NULL
FROM generate_series(10000, 10019) i, c
UNION ALL
SELECT sha256(i::text::bytea), sha256('scope'), $3::bytea, substr(sha256('owner'), 1, 16), 1, 2, 3, 'POST', $1,
	1, sha256('command'), now, now, now, now + 259200000000, now + 259200000000
FROM generate_series(10020, 30019) i, c`

// Ten thousand operations need somebody, on PostgreSQL, beside more that are over. The pages stay as small as they are with a
// few, and the form of the filter, filled in with the keyboard, finds ten of them.
func TestInspectorManyOperations(t *testing.T) {
	t.Parallel()
	onEachApp(t, func(t *testing.T, framework string) {
		url := pgtest.URL(t)
		p := startApp(t, framework, "DATABASE_URL="+url) // which makes the tables
		conn, err := pgx.Connect(t.Context(), url)
		require.NoError(t, err)
		const payouts, refunds = "/v1/payouts", "/v1/payments/:id/refunds"
		realm := core.Scoping{}.PrincipalRealm(core.Principal{Issuer: "https://issuer.example"})
		_, err = conn.Exec(t.Context(), manyOperations, payouts, refunds, realm[:])
		require.NoError(t, err)
		require.NoError(t, conn.Close(t.Context()))

		b := newTab(t)
		signIn(b, p, "operator-1")
		// A busy machine may take too long to count them all: then the page counts fewer, and stays small and quick.
		require.Regexp(t, `10?\x{202f}000`, b.text(".card.unknown"))
		require.Contains(t, b.text(".card.half-done"), "20")
		b.looks()
		b.click(".card.unknown")
		seen := map[string]bool{}
		for range 4 {
			b.until("document.querySelector('table.list')")
			for _, id := range eval[[]string](b, "[...document.querySelectorAll('a.id')].map((a) => a.href)") {
				require.False(t, seen[id], "no page repeats an operation")
				seen[id] = true
			}
			before := eval[string](b, "location.search")
			b.click("a[rel=next]")
			b.until(fmt.Sprintf("location.search != %q", before))
		}
		require.Len(t, seen, 200)
		b.looks()

		rows := "[...document.querySelectorAll('table.list tbody tr')]"
		from, until := time.Date(2026, time.January, 3, 15, 4, 0, 0, time.UTC), time.Date(2026, time.January, 3, 15, 14, 0, 0, time.UTC)
		b.click(".filter a") // Reset
		b.until("location.search == ''")
		b.reach("[name=state]")
		b.choose("unknown")
		b.reach("[name=route]")
		b.choose("POST " + payouts)
		b.reach("[name=from]")
		b.typeTime(from)
		b.reach("[name=until]")
		b.typeTime(until)
		b.press(kb.Enter)
		b.until("location.search != ''")
		want := make([]string, 10)
		for i := range want {
			want[i] = from.Add(time.Duration(i) * time.Minute).Format(time.RFC3339)
		}
		require.Equal(t, want, eval[[]string](b, rows+".map((row) => row.querySelector('time').dateTime)"))
		require.Equal(t, []string{"unknown", "POST " + payouts, from.Format("2006-01-02T15:04"), until.Format("2006-01-02T15:04")},
			eval[[]string](b, "[...document.forms[0].elements].slice(0, 4).map((field) => field.value)"), "the form says what it shows")

		b.reach("[name=state]")
		b.choose("half_done")
		b.click(".filter button")
		b.until("document.querySelector('.empty')")
		require.Contains(t, b.text(".empty"), "as far as this filter goes")
		b.click(".filter a")
		b.until("location.search == ''")
		b.reach("[name=route]")
		b.choose("POST " + refunds)
		b.click(".filter button")
		b.until("location.search != ''")
		require.Equal(t, strings.Repeat("half-done ", 20), eval[string](b,
			rows+".map((row) => row.querySelector('.mark').textContent + ' ').join('')"))
		b.looks()
		b.quiet(p.URL)
	})
}
