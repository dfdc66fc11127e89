package gormstore

import (
	"path/filepath"
	"testing"
	"time"

	libtnb "github.com/libtnb/sqlite"
	"github.com/stretchr/testify/require"
	pgdriver "gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/internal/pgtest"
)

// onEach returns a store on an empty database of each kind.
func onEach(t *testing.T) map[string]*Store {
	t.Helper()
	stores := map[string]*Store{}
	for name, dialector := range map[string]gorm.Dialector{
		"postgres": pgdriver.Open(pgtest.URL(t)),
		"sqlite": libtnb.Open("file:" + filepath.Join(t.TempDir(), "test.db") +
			"?_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=busy_timeout(5000)"),
	} {
		db, err := gorm.Open(dialector, &gorm.Config{Logger: logger.Discard})
		require.NoError(t, err)
		pool, err := db.DB()
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, pool.Close()) })
		require.NoError(t, Migrate(t.Context(), db))
		store, err := New(db)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, store.Close()) })
		stores[name] = store
	}
	return stores
}

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
				c := store.Claim{ID: store.ID{byte(i)}, Owner: store.Owner{1}, Scope: store.Scope{1}, Method: "POST", Route: "/v1/payments",
					Recovery: store.Resume, Hash: store.CommandHash{Version: 1}, Lease: time.Minute, Deadline: time.Minute}
				claimed, err := st.Claim(t.Context(), c)
				require.NoError(t, err)
				switch want {
				case store.Unknown:
					require.NoError(t, st.Park(t.Context(), claimed.Record.Ticket))
				case store.Free:
					require.NoError(t, st.Release(t.Context(), claimed.Record.Ticket))
				}
				require.Zero(t, erased(c), want)
				rec, err := st.Find(t.Context(), c.ID)
				require.NoError(t, err)
				require.Equal(t, want, rec.Stored)
			}
			c := store.Claim{ID: store.ID{9}, Owner: store.Owner{1}, Scope: store.Scope{1}, Method: "POST", Route: "/v1/payments",
				Recovery: store.Park, Hash: store.CommandHash{Version: 1}, Lease: time.Minute, Deadline: time.Minute}
			claimed, err := st.Claim(t.Context(), c)
			require.NoError(t, err)
			answer := store.Completion{Answer: store.Answer{Status: 201}, Retention: time.Hour, Tombstone: time.Hour}
			require.NoError(t, st.Complete(t.Context(), claimed.Record.Ticket, answer))
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
			c := store.Claim{ID: store.ID{1}, Owner: store.Owner{1}, Scope: store.Scope{1}, Method: "POST", Route: "/v1/payments",
				Recovery: store.Park, Hash: store.CommandHash{Version: 1}, Lease: time.Minute, Deadline: time.Minute}
			claimed, err := st.Claim(t.Context(), c)
			require.NoError(t, err)
			answer := store.Completion{Answer: store.Answer{Status: 201}, Retention: time.Hour, Tombstone: time.Hour}
			require.NoError(t, st.Complete(t.Context(), claimed.Record.Ticket, answer))
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
