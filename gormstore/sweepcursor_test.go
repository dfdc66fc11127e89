package gormstore_test

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/gormstore/journal"
	"github.com/auth19/idem/internal/pgtest"
)

// dueRows are 1,000 rows of each kind whose time is over, in an order that is not that of the sweep, so that each costs a
// page of its own.
var dueRows = []string{
	`INSERT INTO idempotency_record (id, scope, realm, owner, fence, state, recovery, method, route, hash_version, command_hash,
	created_at, lease_until, deadline_at, expires_at, purge_at, due_at)
SELECT sha256(i::text::bytea), '', '', '', 1, 2, 3, '', '', 1, '', i, i, i, i, 4102444800000000, i
FROM generate_series(1, 1000) i ORDER BY sha256(i::text::bytea)`,
	`INSERT INTO idempotency_sighting (id, scope, hash_version, command_hash, seen_at, purge_at)
SELECT sha256(i::text::bytea), '', 1, '', i, i FROM generate_series(1, 1000) i ORDER BY 1`,
	`INSERT INTO processed_message (consumer_group, source, message_id, payload_hash, processed_at, expires_at)
SELECT 'stock', 'orders', i, '', i, i FROM generate_series(1, 1000) i ORDER BY sha256(i::text::bytea)`,
	`INSERT INTO idempotency_intent (intent, idempotency_key, planned_at, ended_at)
SELECT i, i, i, i FROM generate_series(1, 1000) i ORDER BY sha256(i::text::bytea)`,
}

// While somebody holds a snapshot (a report, a replica that is stuck), what a batch has swept stays in the index. The next
// batch does not walk over it: the last one reads as much as one in the middle. (The plan of the first ones is another.)
//
// CONTRACT T-3
func TestSweepBesideASnapshot(t *testing.T) {
	t.Parallel()
	const batch = 50
	url := pgtest.Own(t, "shared_preload_libraries=pg_stat_statements").URL()
	db := openPostgres(t, url, 4)
	migrate(t, db)
	execute(t, db, append(dueRows, "VACUUM ANALYZE", "CREATE EXTENSION pg_stat_statements")...)
	st, intents := newStore(t, db), newJournal(t, db)

	snapshot := db.Begin(&sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	require.NoError(t, snapshot.Exec("SELECT 1 FROM idempotency_record LIMIT 1").Error)
	defer snapshot.Rollback()
	read := map[string][]int{}
	for range 1000 / batch {
		require.NoError(t, db.Exec("SELECT pg_stat_statements_reset()").Error)
		require.Equal(t, store.Swept{Tombstones: batch, CommandLog: batch, Messages: batch},
			try(st.Sweep(patient(t), batch, store.Window{})).ok(t))
		require.Equal(t, batch, try(intents.Sweep(patient(t), journal.MinKeep, batch)).ok(t))
		for what, like := range map[string]string{"records": "SELECT CASE%r.due_at <=%", "commands": "DELETE%_sighting%",
			"messages": "DELETE%processed_message%", "intents": "DELETE%_intent%"} {
			read[what] = append(read[what], query[int](t, db, `SELECT sum(shared_blks_hit + shared_blks_read)
FROM pg_stat_statements WHERE calls > 0 AND query LIKE ?`, like))
		}
	}
	for what, pages := range read {
		t.Run(what, func(t *testing.T) {
			require.LessOrEqual(t, pages[len(pages)-1], pages[len(pages)/2]*5/4, pages)
		})
	}
}

// A batch that is not full is the last one: the next sweep begins at the beginning, and finds what others held until then.
//
// CONTRACT T-3
func TestSweepBeginsAgain(t *testing.T) {
	onStores(t, bothKinds, func(t *testing.T, db *gorm.DB, st *gormstore.Store) {
		intents := newJournal(t, db)
		sweepBoth := func(want int) {
			t.Helper()
			swept := try(st.Sweep(patient(t), 2, store.Window{})).ok(t)
			require.Equal(t, store.Swept{Tombstones: want, CommandLog: want, Messages: want}, swept)
			require.Equal(t, want, try(intents.Sweep(patient(t), journal.MinKeep, 2)).ok(t))
		}
		addDue(t, db, 10, 11, 12)
		sweepBoth(2)
		addDue(t, db, 1)
		sweepBoth(1)
		sweepBoth(1)
		sweepBoth(0)
	})
}

// addDue adds one row of each kind for each of the times, which are long over.
func addDue(t *testing.T, db *gorm.DB, times ...int64) {
	t.Helper()
	for _, at := range times {
		c := command(store.Park)
		id, name := c.ID[:], c.ID.String()
		require.NoError(t, db.Exec(`INSERT INTO idempotency_record (id, scope, realm, owner, fence, state, recovery, method, route,
	hash_version, command_hash, created_at, lease_until, deadline_at, expires_at, purge_at, due_at)
SELECT ?, ?, ?, ?, 1, 2, 3, '', '', 1, ?, 1, 1, 1, 1, 4102444800000000, CAST(? AS bigint)`, id, id, c.Realm[:], id, id, at).Error)
		require.NoError(t, db.Exec(`INSERT INTO idempotency_sighting (id, scope, hash_version, command_hash, seen_at, purge_at)
SELECT ?, ?, 1, ?, 1, CAST(? AS bigint)`, id, id, id, at).Error)
		require.NoError(t, db.Exec(`INSERT INTO processed_message (consumer_group, source, message_id, payload_hash, processed_at,
	expires_at) SELECT 'stock', 'orders', ?, ?, 1, CAST(? AS bigint)`, name, id, at).Error)
		require.NoError(t, db.Exec(`INSERT INTO idempotency_intent (intent, idempotency_key, planned_at, ended_at)
SELECT ?, ?, 1, CAST(? AS bigint)`, name, name, at).Error)
	}
}
