package gormstore_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
)

// dropsRecords is a store that has passed its self-test, before somebody makes a trigger that drops records without an error.
func dropsRecords(t *testing.T, way way, when string) (*gormstore.Store, *gorm.DB) {
	t.Helper()
	db := way.fresh("", false)(t)(t)
	st := newStore(t, db)
	require.NoError(t, st.Validate(t.Context()))
	execute(t, db, "CREATE FUNCTION dropped() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
		"CREATE TRIGGER dropped BEFORE INSERT ON idempotency_record FOR EACH ROW "+when+" EXECUTE FUNCTION dropped()")
	return st, db
}

// A trigger drops the record of a first segment, with which the start of a call was to commit: the call is not made.
//
// CONTRACT
func TestRunningRecordThatATriggerDrops(t *testing.T) {
	bothWays(t, func(t *testing.T, way way) {
		st, db := dropsRecords(t, way, "WHEN (NEW.state = 1)")
		c := command(store.Resume)
		segments, _ := resume(t, st, c)
		err := err2(segments.Seal(t.Context(), store.Seal{Start: &store.StepRecord{Name: "charge", Kind: store.ProviderStep}}))
		requireIdle(t, db)
		if way == wrapped {
			require.ErrorIs(t, err, core.ErrStale)
			require.Zero(t, query[int](t, db, "SELECT count(*) FROM idempotency_step"))
			return
		}
		require.ErrorIs(t, err, store.ErrEnded)
		require.Equal(t, store.Unknown, try(st.Find(t.Context(), c.ID, store.Viewer{All: true})).ok(t).State())
	})
}

// A trigger drops the record of a refusal that is recorded alone, also behind a transaction that has failed: nobody is told of
// a refusal that a repeat does not find.
//
// CONTRACT
func TestRefusalThatATriggerDrops(t *testing.T) {
	bothWays(t, func(t *testing.T, way way) {
		st, db := dropsRecords(t, way, "WHEN (NEW.state = 2)")
		for _, failed := range []bool{false, true} {
			tx, ctx := beginRow(t, st, command(store.Rollback))
			if failed {
				require.Error(t, gormstore.Tx(ctx).Exec("SELECT 1 / 0").Error)
			}
			require.ErrorIs(t, seal(t.Context(), tx, refused(), true), core.ErrStale, "failed: %t", failed)
			require.Zero(t, countEffects(t, db))
		}
	})
}

// A trigger drops all records. Where COMMIT was on its way already, the store looks at its database again, and no repeat runs.
//
// CONTRACT F-8, X-8
func TestStoreWhoseRecordsATriggerDrops(t *testing.T) {
	bothWays(t, func(t *testing.T, way way) {
		st, db := dropsRecords(t, way, "")
		c := command(store.Rollback)
		tx, _ := beginRow(t, st, c)
		require.Error(t, seal(t.Context(), tx, paid(), false))
		if way == wrapped {
			require.Zero(t, countEffects(t, db))
			return
		}
		_, _, err := st.Begin(t.Context(), again(c))
		require.ErrorIs(t, err, store.ErrUnfit)
		require.Equal(t, 1, countEffects(t, db))
	})
}
