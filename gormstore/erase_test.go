package gormstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
)

// eraseAll erases in batches.
func eraseAll(t *testing.T, st *gormstore.Store, scope store.Scope, limit int) (total store.ErasedPage) {
	t.Helper()
	for after := (core.ID{}); ; {
		page := try(st.Erase(t.Context(), scope, after, limit)).ok(t)
		total.Records += page.Records
		total.Open = append(total.Open, page.Open...)
		if page.Next == (core.ID{}) {
			return total
		}
		after = page.Next
	}
}

// Nothing of what somebody wrote is left in any table of the library, except in the history's reasons.
func TestNothingIsLeftOfTheErased(t *testing.T) {
	onStores(t, bothKinds, func(t *testing.T, db *gorm.DB, st *gormstore.Store) {
		const secret = "Jane Doe 1970-01-01"
		answer := paid()
		answer.Answer.Body = []byte(secret)
		answer.Answer.Header.Set("Location", "/customers/"+secret)
		c := command(core.Resume)
		step := store.StepRecord{Name: "refund", Kind: store.ProviderStep, Result: []byte(`"` + secret + `"`)}
		segments, _ := resume(t, st, c)
		require.NoError(t, err2(segments.Seal(t.Context(), store.Seal{Steps: []store.StepRecord{step}})))
		require.NoError(t, st.Refer(t.Context(), c.ID, c.Realm, store.Ref{Name: "customer", Value: secret}))
		require.NoError(t, err2(segments.Seal(t.Context(), store.Seal{Answer: &answer})))
		require.Contains(t, everything(t, db), secret)

		require.Equal(t, store.ErasedPage{Records: 1}, eraseAll(t, st, c.Scope, 10))
		require.NotContains(t, everything(t, db), secret)
		requireState(t, st, c, store.Expired)
	})
}

// everything is the tables of records, steps, references and notes as text.
func everything(t *testing.T, db *gorm.DB) string {
	t.Helper()
	var text strings.Builder
	for _, table := range []string{"idempotency_record", "idempotency_step", "idempotency_reference", "idempotency_note"} {
		var rows []map[string]any
		require.NoError(t, db.Table(table).Find(&rows).Error)
		for _, row := range rows {
			for column, value := range row {
				if raw, ok := value.([]byte); ok {
					value = string(raw)
				}
				fmt.Fprintln(&text, column, value)
			}
		}
	}
	return text.String()
}

// An erasure writes to no index, and walks along the primary key: there is no index of principals that claims would pay for.
func TestErasureIsCheapForOthers(t *testing.T) {
	db, st := parallelStore(t)
	scope := command(core.Park).Scope
	for range 200 {
		answered(t, st, command(core.Park))
	}
	require.NoError(t, db.Exec("VACUUM ANALYZE idempotency_record").Error) // room on the pages
	var updated, hot int
	counts := func() {
		require.NoError(t, db.Raw("SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'idempotency_record'").
			Row().Scan(&updated, &hot))
	}
	eventually(t, "the updates are counted", func() bool { counts(); return updated >= 200 })
	cold := updated - hot
	require.Equal(t, 200, eraseAll(t, st, scope, 30).Records)
	eventually(t, "the updates are counted", func() bool { counts(); return updated >= 400 })
	require.LessOrEqual(t, updated-hot-cold, 20, "%d of 200 erasures wrote to the indexes", updated-hot-cold)
}

// An attempt's COMMIT was cut off, and its answer was erased before it is read back: it was committed all the same.
//
// CONTRACT X-4
func TestErasedBeforeItIsConfirmed(t *testing.T) {
	onStores(t, transactionKinds, func(t *testing.T, db *gorm.DB, st *gormstore.Store) {
		c := command(core.Rollback)
		tx, _ := beginRow(t, st, c)
		require.Empty(t, eraseAllWhileOpen(t, st, c.Scope), "nobody else can see it")
		require.NoError(t, seal(t.Context(), tx, paid(), false))
		require.Equal(t, 1, eraseAll(t, st, c.Scope, 10).Records)
		claimed := try(st.Claim(t.Context(), again(c))).ok(t)
		require.False(t, claimed.Won)
		require.Equal(t, store.Expired, claimed.Record.State())
	})
}

func eraseAllWhileOpen(t *testing.T, st *gormstore.Store, scope store.Scope) []core.ID {
	t.Helper()
	page := try(st.Erase(t.Context(), scope, core.ID{}, 100)).ok(t)
	require.Zero(t, page.Records)
	return page.Open
}

// A connection is cut in the middle of an erasure: the batch is undone, and the next call does it.
func TestErasureIsCutOff(t *testing.T) {
	db, st := parallelStore(t)
	var claims []store.Claim
	for range 5 {
		c := command(core.Park)
		answered(t, st, c)
		claims = append(claims, c)
	}
	holder := opened(t, db) // holds one of the records, so that the erasure waits in the middle
	require.NoError(t, holder.Exec("SELECT 1 FROM idempotency_record ORDER BY id DESC LIMIT 1 FOR UPDATE").Error)
	failed := later(func() error {
		_, err := st.Erase(t.Context(), claims[0].Scope, core.ID{}, 100)
		return err
	})
	eventually(t, "the erasure waits", func() bool {
		var cut int
		require.NoError(t, db.Raw(`SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE 'UPDATE%idempotency_record%'`).Scan(&cut).Error)
		return cut > 0
	})
	require.NoError(t, holder.Rollback().Error)
	err, state := <-failed, store.Completed
	if err == nil { // the library has tried again
		state = store.Expired
	}
	for _, c := range claims {
		requireState(t, st, c, state, "a batch is erased whole, or not")
	}
	if err != nil {
		require.Equal(t, len(claims), eraseAll(t, st, claims[0].Scope, 2).Records)
	}
}

// docs/operations.md says how long a logged command stays: an erasure leaves it.
func TestLoggedCommandsStayForRetention(t *testing.T) {
	db := parallelPostgres(t)
	hook := webhook{t, newModule(t, newStore(t, db), core.Policy{Recovery: core.Park, RefuseRekeyed: true})}
	require.Equal(t, 200, hook.call("a", func(context.Context) int { return 200 }).Code)
	kept := query[[]int64](t, db, "SELECT purge_at - seen_at FROM idempotency_sighting")
	require.Equal(t, []int64{store.DefaultRetention.Microseconds()}, kept)
}
