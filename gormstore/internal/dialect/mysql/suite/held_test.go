package suite

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
)

// An attempt whose handler has committed is recorded as unknown although a stranger has its slot: another attempt must not run
// beside rows that may be there.
//
// CONTRACT X-8
func TestUnknownIsRecordedBesideAStranger(t *testing.T) {
	db, address := migrated(t)
	st, other := newStore(t, db), open(t, address)
	require.NoError(t, db.Exec("CREATE PROCEDURE commits() COMMIT").Error)
	c := command(core.Rollback)
	a, ctx := begin(t, st, c)
	require.NoError(t, stock(gormstore.Tx(ctx)))
	tx := other.Begin()
	defer tx.Rollback()
	all := make(chan error, 1)
	go func() { all <- tx.Raw("SELECT COUNT(*) FROM idempotency_lock FOR UPDATE").Scan(new(int)).Error }()
	waits(t, db)
	_ = gormstore.Tx(ctx).Exec("CALL commits()").Error
	require.NoError(t, <-all)
	_, err := a.Seal(t.Context(), answered())
	require.ErrorIs(t, err, store.ErrEnded)
	rec, err := st.Find(t.Context(), c.ID, store.Viewer{All: true})
	require.NoError(t, err)
	require.Equal(t, store.Unknown, rec.State())
}

// waits returns when a transaction waits for a lock.
func waits(t *testing.T, db *gorm.DB) {
	t.Helper()
	require.Eventually(t, func() bool {
		var n int
		return db.Raw("SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'").Scan(&n).Error == nil && n == 1
	}, 10*time.Second, 200*time.Millisecond) // the server makes the table anew only if nobody has read it for 100 ms
}

// Nobody waits behind a transaction that holds a record, with a connection in the hand, for the 50 seconds that the server would
// let it.
//
// CONTRACT X-15
func TestNobodyWaitsForARecordThatIsHeld(t *testing.T) {
	db, address := migrated(t)
	st, other := newStore(t, db), open(t, address)
	// claimed is the claim of a record, whose times are over and which another transaction holds.
	claimed := func(t *testing.T, r core.Recovery, set string) store.Claim {
		t.Helper()
		c := command(r)
		got, err := st.Claim(t.Context(), c)
		require.NoError(t, err)
		require.True(t, got.Won)
		require.NoError(t, db.Exec("UPDATE idempotency_record SET lease_until = 1, deadline_at = 1, "+set+" WHERE id = ?", c.ID[:]).Error)
		tx := other.Begin()
		t.Cleanup(func() { tx.Rollback() })
		require.NoError(t, tx.Raw("SELECT fence FROM idempotency_record WHERE id = ? FOR UPDATE", c.ID[:]).Scan(new(int)).Error)
		return c
	}
	soon := func(t *testing.T) context.Context {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		t.Cleanup(cancel)
		return ctx
	}
	t.Run("a claim", func(t *testing.T) {
		c := claimed(t, core.Resume, "fence = 1")
		got, err := st.Claim(soon(t), again(c))
		require.NoError(t, err)
		require.True(t, got.Busy)
	})
	t.Run("a first attempt", func(t *testing.T) {
		c := claimed(t, core.Rollback, "state = 5, purge_at = 9000000000000000, due_at = 9000000000000000")
		a, _, err := st.Begin(soon(t), again(c))
		require.NoError(t, err)
		require.NotNil(t, a, "its record is written at its end")
		require.NoError(t, a.Rollback())
	})
	t.Run("a settlement", func(t *testing.T) {
		c := claimed(t, core.Park, "state = 3")
		_, err := st.Settle(soon(t), store.Settlement{ID: c.ID, Fence: 1, Window: around(), Who: "a", Why: "b"})
		require.ErrorIs(t, err, store.ErrStale, "look at it again")
	})
	t.Run("giving up", func(t *testing.T) {
		c := claimed(t, core.Resume, "fence = 2")
		ctx := soon(t)
		_, err := st.Intervene(ctx, store.Intervention{ID: c.ID, Fence: 2, GiveUp: true, Window: around(), Who: "a", Why: "b"})
		require.Error(t, err)
		require.NoError(t, ctx.Err())
	})
	t.Run("an erasure", func(t *testing.T) {
		c := claimed(t, core.Park, "state = 2, expires_at = 9000000000000000, purge_at = 9000000000000000, due_at = 9000000000000000")
		page, err := st.Erase(soon(t), c.Scope, store.ID{}, 100)
		require.NoError(t, err)
		require.Zero(t, page.Records)
	})
	t.Run("a sweep", func(t *testing.T) {
		claimed(t, core.Park, "state = 2, expires_at = 2, purge_at = 2, due_at = 2")
		swept, err := st.Sweep(soon(t), 100, around())
		require.NoError(t, err)
		require.Zero(t, swept.Dropped)
	})
}
