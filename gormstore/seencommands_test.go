package gormstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/internal/pgtest"
)

// advanceSightings moves all sightings d into the past.
func advanceSightings(t *testing.T, db *gorm.DB, d time.Duration) {
	t.Helper()
	by := "? * interval '1 microsecond'"
	if db.Name() == "sqlite" {
		by = "?"
	}
	require.NoError(t, db.Exec("UPDATE idempotency_sighting SET seen_at = seen_at - "+by+", purge_at = purge_at - "+by,
		d.Microseconds(), d.Microseconds()).Error)
}

func sightingOf(c store.Claim) store.Sighting {
	return store.Sighting{ID: c.ID, Scope: c.Scope, Hash: c.Hash, Window: 10 * time.Minute, Keep: 72 * time.Hour}
}

// The server's own log says what a sighting costs, and its planner how it finds what came before.
func TestSightingIsOneStatement(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	setUp := openPostgres(t, url, 2)
	migrate(t, setUp)
	read := pgtest.Statements(t, url)
	db := openPostgres(t, url, 4)
	st := newStore(t, db)
	c := sightingOf(command(store.Park))
	_, err := st.Find(t.Context(), c.ID) // the store's first statement finds the schema
	require.ErrorIs(t, err, store.ErrNotFound)
	read()
	for range 3 {
		_, err := st.Sight(t.Context(), c)
		require.NoError(t, err)
	}
	requireStatements(t, read(), "WITH c AS", "WITH c AS", "WITH c AS")

	require.NoError(t, db.Exec(`INSERT INTO idempotency_sighting
SELECT sha256(i::text::bytea), ?::bytea, 1, sha256(('command ' || i)::bytea), now(), now() FROM generate_series(1, 2000) i`,
		c.Scope[:]).Error)
	require.NoError(t, db.Exec("VACUUM ANALYZE idempotency_sighting").Error)
	var plan []string
	require.NoError(t, db.Raw(`EXPLAIN SELECT e.id FROM idempotency_sighting e
WHERE e.scope = ? AND e.command_hash = ? AND e.seen_at > (SELECT clock_timestamp()) - interval '10 minutes' AND e.id <> ?
ORDER BY e.seen_at DESC LIMIT 1`, c.Scope[:], c.Hash.Sum[:], c.ID[:]).Scan(&plan).Error)
	require.Contains(t, fmt.Sprint(plan), "Index Only Scan Backward using idempotency_sighting_command", strings.Join(plan, "\n"))
}
