package suite

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
)

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
