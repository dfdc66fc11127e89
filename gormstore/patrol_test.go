package gormstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
)

// claimedBefore claims a command on Park, so long ago that its attempt is lost by now, in a transaction or by itself. It is
// what a claim leaves that has seen no limit of the patrol.
func claimedBefore(t *testing.T, q *gorm.DB, ago time.Duration) core.ID {
	t.Helper()
	c := command(core.Park)
	require.NoError(t, q.Exec(`INSERT INTO idempotency_record (id, scope, realm, owner, fence, state, recovery, method, route,
	hash_version, command_hash, created_at, lease_until, deadline_at, sweep_from, sweep_after)
SELECT ?, ?, ?, ?, 1, 1, 3, 'POST', '/v1/payments', 1, ?, t.at, t.at, t.at, t.at, 259260
FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint - ? AS at) t`,
		c.ID[:], c.Scope[:], c.Realm[:], c.Owner[:], c.Hash.Sum[:], ago.Microseconds()).Error)
	return c.ID
}

func sweepOnce(t *testing.T, st *gormstore.Store) {
	t.Helper()
	require.NoError(t, err2(st.Sweep(t.Context(), 100, store.Window{})))
}

// requireListed checks what the operators are shown.
func requireListed(t *testing.T, st *gormstore.Store, want ...core.ID) {
	t.Helper()
	found := try(st.List(t.Context(), store.Query{Unknown: true, Limit: 100})).ok(t)
	got := make([]core.ID, 0, len(found))
	for _, r := range found {
		got = append(got, r.ID)
	}
	require.ElementsMatch(t, want, got)
}

// isAside reports whether the patrol has listed a record.
func isAside(t *testing.T, db *gorm.DB, id core.ID) (aside bool) {
	t.Helper()
	require.NoError(t, db.Raw("SELECT sweep_after IS NULL FROM idempotency_record WHERE id = ?", id[:]).Scan(&aside).Error)
	return aside
}

// A claim that others cannot see yet, because its COMMIT is slow or its handler is still at work, holds the patrol up.
// However the patrol is interrupted, and whichever instance goes on with it, the operation is listed as soon as others can
// see it, and stays so.
//
// CONTRACT T-4, X-8
func TestPatrolWaitsForClaims(t *testing.T) {
	db := parallelPostgres(t)
	forget := func(names ...string) func(t *testing.T) {
		return func(t *testing.T) {
			require.NoError(t, db.Exec("DELETE FROM idempotency_setting WHERE name IN ?", names).Error)
		}
	}
	for name, interrupt := range map[string]func(t *testing.T){
		"never":                      func(*testing.T) {},
		"before it notes who writes": forget("patrol/writers"),
		"by a lost database":         forget("patrol/limit", "patrol/passed", "patrol/writers"),
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, db.Exec("TRUNCATE idempotency_record, idempotency_setting").Error)
			early, late := newStore(t, db), newStore(t, db)
			hidden := opened(t, db)
			id := claimedBefore(t, hidden, time.Minute)
			seen := claimedBefore(t, db, 30*time.Second)
			for range 2 {
				sweepOnce(t, early)
				sweepOnce(t, late)
				requireListed(t, early, seen)
				require.False(t, isAside(t, db, seen), "the patrol has not come so far")
				interrupt(t)
			}
			require.NoError(t, hidden.Commit().Error)
			requireListed(t, late, id, seen)
			for range 3 {
				sweepOnce(t, late)
				requireListed(t, late, id, seen)
				requireListed(t, early, id, seen)
			}
			require.True(t, isAside(t, db, id) && isAside(t, db, seen))
		})
	}
}

// A record that another transaction has locked is not passed: what becomes of the record is not known yet.
//
// CONTRACT T-4
func TestPatrolStopsAtALock(t *testing.T) {
	db, store := parallelStore(t)
	first, second, third := claimedBefore(t, db, 50*time.Second), claimedBefore(t, db, 40*time.Second), claimedBefore(t, db, 30*time.Second)
	for _, end := range []func(tx *gorm.DB) *gorm.DB{(*gorm.DB).Rollback, (*gorm.DB).Commit} {
		tx := opened(t, db)
		require.NoError(t, tx.Exec("SELECT 1 FROM idempotency_record WHERE id = ? FOR UPDATE", second[:]).Error)
		sweepOnce(t, store)
		requireListed(t, store, first, second, third)
		require.True(t, isAside(t, db, first))
		require.False(t, isAside(t, db, second), "it may be completed the next moment")
		require.NoError(t, end(tx).Error)
	}
	sweepOnce(t, store)
	requireListed(t, store, first, second, third)
	require.True(t, isAside(t, db, second) && isAside(t, db, third))
}

// The clock has gone back: a claim by a clock that the patrol has passed is listed at once. The patrol goes back too, so that
// this does not last.
//
// CONTRACT T-4, T-5
func TestPatrolAfterTheClockWentBack(t *testing.T) {
	onStores(t, bothKinds, func(t *testing.T, db *gorm.DB, st *gormstore.Store) {
		win := func() core.ID {
			c := retained(command(core.Park))
			won(t, st, c)
			return c.ID
		}
		sweepOnce(t, st)
		advance(t, db, -time.Hour) // what was an hour ago is now
		ahead := win()
		require.True(t, isAside(t, db, ahead), "the patrol has passed its time, and would not find it")
		sweepOnce(t, st)
		require.False(t, isAside(t, db, win()))
		require.NoError(t, db.Exec("UPDATE idempotency_record SET lease_until = created_at").Error)
		require.Len(t, try(st.List(t.Context(), store.Query{Unknown: true, Limit: 10})).ok(t), 2)
	})
}

// While the patrol announces a limit, and before it has passed it, a claim at the limit lists itself. So it does not matter
// when the patrol looks who writes.
//
// CONTRACT T-4
func TestPatrolAnnouncesItsLimit(t *testing.T) {
	db, store := parallelStore(t)
	hidden := opened(t, db)
	id := claimedBefore(t, hidden, time.Minute)
	sweepOnce(t, store) // announces, notes, and waits
	var limit, passed int64
	require.NoError(t, db.Raw("SELECT value FROM idempotency_setting WHERE name = 'patrol/limit'").Scan(&limit).Error)
	require.NoError(t, db.Raw("SELECT coalesce(sum(value::bigint), 0) FROM idempotency_setting WHERE name = 'patrol/passed'").
		Scan(&passed).Error)
	require.Less(t, passed, limit)
	require.NoError(t, db.Exec("UPDATE idempotency_setting SET value = (value::bigint + 60000000)::text"+
		" WHERE name = 'patrol/limit'").Error) // or: the clock has gone back by a minute
	c := command(core.Park)
	won(t, store, c)
	require.True(t, isAside(t, db, c.ID))
	require.NoError(t, hidden.Commit().Error)
	requireListed(t, store, id)
}

// A transaction that stays open holds the patrol up. The sweeps say for how long, and no longer once it is over.
//
// CONTRACT T-3
func TestPatrolSaysThatItIsHeldUp(t *testing.T) {
	db, st := parallelStore(t)
	heldUp := func() time.Duration {
		t.Helper()
		swept := sweep(t, st, 100)
		return swept.HeldUp
	}
	require.Zero(t, heldUp())
	hidden := opened(t, db)
	claimedBefore(t, hidden, time.Minute)
	require.NoError(t, db.Exec("UPDATE idempotency_setting SET value = (value::bigint - 60000000)::text"+
		" WHERE name IN ('patrol/limit', 'patrol/passed')").Error) // it has rested
	require.Zero(t, heldUp(), "it has just begun to wait")
	require.NoError(t, db.Exec("UPDATE idempotency_setting SET value = "+
		"replace(value, split_part(value, ':', 1), (split_part(value, ':', 1)::bigint - 3600000000)::text)"+
		" WHERE name LIKE 'patrol/%'").Error) // an hour ago
	require.InDelta(t, time.Hour, heldUp(), float64(5*time.Minute))
	require.NoError(t, hidden.Rollback().Error)
	require.Zero(t, heldUp())
	require.Zero(t, heldUp())
}
