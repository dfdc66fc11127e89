package gormstore

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// A message of a client that is gone may arrive after its outcome was read back. What was told stays true: nothing of it is
// recorded any more, whether the attempt saw no record or a free one.
//
// CONTRACT X-4
func TestReadBackKeepsOutALateMessage(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(t *testing.T, st *Store, c store.Claim){
		"no record": func(*testing.T, *Store, store.Claim) {},
		"free record": func(t *testing.T, st *Store, c store.Claim) {
			require.NoError(t, st.End(t.Context(), won(t, st, c), store.Ending{State: store.Free}))
		},
		"its time is over": func(t *testing.T, st *Store, c store.Claim) {
			require.NoError(t, st.End(t.Context(), won(t, st, c), store.Ending{State: store.Completed, Answer: done}))
			require.NoError(t, st.db.Gorm.Exec("UPDATE idempotency_record SET expires_at = 1, purge_at = 1").Error)
		},
	} {
		t.Run(name, func(t *testing.T) {
			st, c := onEach(t)["postgres"], claimOf(1, store.Rollback)
			before(t, st, c)
			c.Owner = store.Owner{2}
			begun, _, err := st.Begin(t.Context(), c)
			require.NoError(t, err)
			a := begun.(*attempt)
			a.first.seal = &store.Seal{Answer: &done, Alone: true}
			message, err := a.first.last(t.Context(), a.last)
			require.NoError(t, err)
			ours, err := a.last.RollbackOurs(t.Context())
			require.NoError(t, err)
			require.True(t, ours)

			for range 2 {
				committed, certain, stale := (&txn.Tx{DB: st.db, Entry: &a.first}).Look(t.Context())
				require.NoError(t, stale)
				require.False(t, committed)
				require.True(t, certain)
			}
			_, err = txn.Send(t.Context(), a.last.Conn.SQL, message.Alone...)
			require.Error(t, err)
			swept, err := st.Sweep(t.Context(), 10, store.Window{})
			require.NoError(t, err)
			require.Zero(t, swept.Dropped, "it stays for as long as the message may be under way")
			rec, err := st.Find(t.Context(), c.ID, store.Viewer{All: true})
			require.NoError(t, err)
			require.Equal(t, store.Free, rec.State())
			listed, err := st.List(t.Context(), store.Query{Unknown: true, Resumable: true, HalfDone: true, Limit: 10})
			require.NoError(t, err)
			require.Empty(t, listed)

			c.Owner = store.Owner{3}
			elsewhere, err := New(st.db.Gorm) // here the attempt is still running
			require.NoError(t, err)
			next, claimed, err := elsewhere.Begin(t.Context(), c)
			require.NoError(t, err)
			require.Greater(t, claimed.Record.Fence, a.fence)
			require.NoError(t, next.Rollback())
			_ = begun.Rollback() // its transaction was ended by hand
		})
	}
}

// A takeover whose answer was lost is given back, and may arrive behind that. It takes nothing over: the next repeat goes on at
// once, with the steps, and as the second attempt.
//
// CONTRACT X-15, F-1
func TestReleaseComesBeforeItsTakeover(t *testing.T) {
	t.Parallel()
	for name, st := range onEach(t) {
		for times := range 3 {
			t.Run(name, func(t *testing.T) {
				c := claimOf(byte(times), store.Resume)
				c.Window, c.Key = store.Window{}, store.KeyTime{}
				first, _, err := st.Begin(t.Context(), c)
				require.NoError(t, err)
				first.Bind(t.Context(), nil)
				_, err = first.Seal(t.Context(), store.Seal{Start: &store.StepRecord{Name: "charge", Kind: store.ProviderStep}})
				require.NoError(t, err)
				require.NoError(t, st.db.Gorm.Exec("UPDATE idempotency_record SET lease_until = 1").Error)
				seen, err := st.Find(t.Context(), c.ID, store.Viewer{All: true})
				require.NoError(t, err)

				lost := c
				lost.Owner = store.Owner{2}
				for range times {
					require.NoError(t, st.Release(t.Context(), []store.Ticket{{ID: lost.ID, Owner: lost.Owner}}))
				}
				claimed, err := takenOver(t.Context(), st, lost, seen)
				if times == 0 { // it comes first
					require.NoError(t, err)
					require.True(t, claimed.Won)
					for range 2 {
						before := claimed.Record.Fence
						require.NoError(t, st.Release(t.Context(), []store.Ticket{{ID: lost.ID, Owner: lost.Owner}}))
						claimed.Record, err = st.Find(t.Context(), c.ID, store.Viewer{All: true})
						require.NoError(t, err)
						require.Greater(t, claimed.Record.Fence, before)
					}
				} else {
					require.False(t, claimed.Won)
				}
				require.ErrorIs(t, st.Renew(t.Context(), store.Ticket{ID: c.ID, Owner: c.Owner, Fence: seen.Fence}, c.Lease),
					store.ErrStale, "a slow owner is stale by that")

				c.Owner = store.Owner{3}
				_, claimed, err = st.Begin(t.Context(), c)
				require.NoError(t, err)
				require.True(t, claimed.Won, "nobody is at work")
				require.Equal(t, 2, claimed.Record.Attempts)
				steps, err := st.Steps(t.Context(), c.ID)
				require.NoError(t, err)
				require.Len(t, steps, 1)
			})
		}
	}
}

func takenOver(ctx context.Context, st *Store, c store.Claim, seen store.Record) (claimed store.Claimed, err error) {
	err = st.db.Write(ctx, func(q txn.Querier) error {
		claimed, err = st.takeOver(ctx, q, c, seen)
		return err
	})
	return claimed, err
}

// Sweep and erasure change the record of a free key, and then its steps. So does an attempt that takes the key: each waits for
// the other, and none is undone by a deadlock.
//
// CONTRACT X-15, T-3
func TestStepsAreForgottenBehindTheirRecord(t *testing.T) {
	t.Parallel()
	st, c := onEach(t)["postgres"], claimOf(1, store.Resume)
	first, claimed, err := st.Begin(t.Context(), c)
	require.NoError(t, err)
	_, err = first.Seal(t.Context(), store.Seal{Steps: []store.StepRecord{{Name: "charge", Kind: store.ProviderStep}}})
	require.NoError(t, err)
	require.NoError(t, st.End(t.Context(), claimed.Record.Ticket, store.Ending{State: store.Free}))
	c.Owner = store.Owner{2}
	next, _, err := st.Begin(t.Context(), c)
	require.NoError(t, err)

	sweep := st.db.Gorm.Begin()
	require.NoError(t, sweep.Exec("UPDATE idempotency_record SET due_at = due_at").Error)
	sealed := make(chan error, 1)
	go func() {
		_, err := next.Seal(t.Context(), store.Seal{Answer: &done})
		sealed <- err
	}()
	require.Eventually(t, func() bool {
		var waiting int
		err := st.db.Gorm.Raw("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").
			Scan(&waiting).Error
		return err == nil && waiting == 1
	}, 20*time.Second, 10*time.Millisecond)
	require.NoError(t, sweep.Exec("DELETE FROM idempotency_step").Error)
	require.NoError(t, sweep.Commit().Error)
	require.NoError(t, <-sealed)
}
