package gormstore

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/store"
)

// SQLite has one writer: the patrol gives it back after each batch, however many records it has to look at.
//
// CONTRACT T-3
func TestPatrolOfSQLiteComesInBatches(t *testing.T) {
	t.Parallel()
	st := onEach(t)["sqlite"]
	db := st.db
	const records = 2*patrolBatch + 100
	begun := time.Now().Add(-time.Hour).UnixMicro()
	require.NoError(t, db.Exec(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
INSERT INTO idempotency_record (id, scope, realm, owner, fence, state, recovery, method, route, hash_version, command_hash,
	created_at, lease_until, deadline_at, sweep_from, sweep_after)
SELECT randomblob(32), zeroblob(32), zeroblob(24), zeroblob(16), 1, 1, 3, 'POST', '/v1/payments', 1, zeroblob(32),
	? + i, ? + i, ? + i, ? + i, 259260 + i % 2 FROM n`, records, begun, begun, begun, begun).Error)

	b := beat{limit: time.Now().UnixMicro()}
	var batches []int64
	for before := int64(0); b.passed < b.limit; {
		require.Less(t, len(batches), 10, "it goes on")
		require.NoError(t, st.inTx(t.Context(), func(q querier) (err error) {
			b.passed, err = st.patrolTo(t.Context(), q, b)
			return err
		}))
		var listed int64
		require.NoError(t, db.Raw("SELECT count(*) FROM idempotency_record WHERE sweep_after IS NULL").Scan(&listed).Error)
		batches = append(batches, listed-before)
		before = listed
	}
	for _, batch := range batches { // of both values of sweep_after
		require.LessOrEqual(t, batch, int64(2*patrolBatch+2))
	}
	require.Len(t, batches, 2)

	_, err := st.Sweep(t.Context(), 100, store.Window{})
	require.NoError(t, err)
	page, err := st.List(t.Context(), store.Query{Unknown: true, Limit: records + 1})
	require.NoError(t, err)
	require.Len(t, page, records)
}
