package gormstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/internal/pgtest"
)

func sightingOf(c store.Claim) store.Sighting {
	return store.Sighting{ID: c.ID, Scope: c.Scope, Hash: c.Hash, Window: 10 * time.Minute, Keep: 72 * time.Hour}
}

// The server's own log says what a sighting costs, and its planner how it finds what came before.
func TestSightingIsOneStatement(t *testing.T) {
	t.Parallel()
	url := migratedURL(t)
	read := pgtest.Statements(t, url)
	db := openPostgres(t, url, 4)
	st := newStore(t, db)
	c := sightingOf(command(store.Park))
	_, err := st.Find(t.Context(), c.ID) // the store's first statement finds the schema
	require.ErrorIs(t, err, store.ErrNotFound)
	read()
	for range 3 {
		require.NoError(t, err2(st.Sight(t.Context(), c)))
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
