package gormstore

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core/store"
)

// A record that could be erased when its page was read may be another attempt's by now. The statement that erases looks
// again.
//
// CONTRACT X-2
func TestErasureLooksAgain(t *testing.T) {
	t.Parallel()
	for name, st := range onEach(t) {
		t.Run(name, func(t *testing.T) {
			erased := func(c store.Claim) (n int64) {
				require.NoError(t, st.inTx(t.Context(), func(q querier) (err error) {
					n, err = st.exec(t.Context(), q, erase, c.ID[:], c.Scope[:])
					return err
				}))
				return n
			}
			for i, want := range []store.State{store.Running, store.Unknown, store.Free} {
				c := claimOf(byte(i), store.Resume)
				ticket := won(t, st, c)
				switch want {
				case store.Unknown:
					require.NoError(t, st.Park(t.Context(), ticket))
				case store.Free:
					require.NoError(t, st.Release(t.Context(), ticket))
				}
				require.Zero(t, erased(c), want)
				rec, err := st.Find(t.Context(), c.ID)
				require.NoError(t, err)
				require.Equal(t, want, rec.Stored)
			}
			c := claimOf(9, store.Park)
			require.NoError(t, st.Complete(t.Context(), won(t, st, c), done))
			other := c
			other.Scope = store.Scope{2}
			require.Zero(t, erased(other), "another principal's")
			require.EqualValues(t, 1, erased(c))
		})
	}
}

// The clock may jump after a sweep has looked at it. Each statement that drops something looks again.
//
// CONTRACT T-5, T-3
func TestSweepLooksAtTheClockAgain(t *testing.T) {
	t.Parallel()
	for name, st := range onEach(t) {
		t.Run(name, func(t *testing.T) {
			inbox, err := NewInbox(st.db, InboxConfig{Group: "stock", BrokerRetention: time.Hour})
			require.NoError(t, err)
			none := func(*gorm.DB) error { return nil }
			require.NoError(t, inbox.Process(t.Context(), Message{Source: "payments", ID: "7"}, none))
			require.NoError(t, st.Complete(t.Context(), won(t, st, claimOf(1, store.Park)), done))
			ago := "'1970-01-02'::timestamptz"
			if name == "sqlite" {
				ago = "1"
			}
			require.NoError(t, st.db.Exec("UPDATE idempotency_record SET expires_at = "+ago+", sweep_from = "+ago).Error)
			require.NoError(t, st.db.Exec("UPDATE processed_message SET expires_at = "+ago).Error)
			now := time.Now()
			for _, w := range []store.Window{{From: now.Add(time.Hour)}, {To: now.Add(-time.Hour)}} {
				swept, err := st.sweepAll(t.Context(), 10, w)
				require.NoError(t, err)
				require.Equal(t, store.Swept{}, swept)
			}
			swept, err := st.sweepAll(t.Context(), 10, store.Window{From: now.Add(-time.Hour), To: now.Add(time.Hour)})
			require.NoError(t, err)
			require.Equal(t, store.Swept{Tombstones: 1, Messages: 1}, swept)
		})
	}
}
