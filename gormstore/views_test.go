package gormstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core/store"
)

// What people read in the database says of each record what the library says, swept or not, in words and timestamps.
//
// CONTRACT T-4
func TestViewsForPeople(t *testing.T) {
	onEvery(t, func(t *testing.T, _ database, db *gorm.DB) {
		st := newStore(t, db)
		require.NoError(t, st.End(t.Context(), won(t, st, command(store.Park)), store.Ending{State: store.Completed, Answer: paid()}))
		freed := won(t, st, command(store.Rollback))
		require.NoError(t, st.End(t.Context(), freed, store.Ending{State: store.Free}))
		won(t, st, command(store.Park))
		won(t, st, command(store.Resume))
		states := func() (words []string) {
			require.NoError(t, db.Raw("SELECT state FROM idempotency_operation ORDER BY recovery, state").Scan(&words).Error)
			return words
		}
		require.Equal(t, []string{"completed", "running", "running", "free"}, states())
		advance(t, db, time.Hour)
		require.Equal(t, []string{"completed", "unknown", "half done", "free"}, states())
		advance(t, db, store.DefaultRetention)
		require.Equal(t, []string{"expired", "unknown", "half done", "free"}, states())

		var operation, created string
		require.NoError(t, db.Raw("SELECT operation, CAST(created_at AS varchar(19)) FROM idempotency_operation WHERE state = 'free'").
			Row().Scan(&operation, &created))
		require.Equal(t, freed.ID.String(), operation)
		require.Contains(t, created, time.Now().Add(-time.Hour-store.DefaultRetention).UTC().Format("2006-01-"), created)

		require.NoError(t, db.Exec("INSERT INTO idempotency_step (record_id, name, kind, state, fence, started_at) SELECT ?, 'refund', 2, 1, 1, 0",
			freed.ID[:]).Error)
		var step, kind, state, started string
		require.NoError(t, db.Raw("SELECT name, kind, state, CAST(started_at AS varchar(19)) FROM idempotency_operation_step WHERE operation = ?",
			operation).Row().Scan(&step, &kind, &state, &started))
		require.Equal(t, []string{"refund", "provider", "started", "1970-01-01"}, []string{step, kind, state, started[:10]})
	})
}
