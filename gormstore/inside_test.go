package gormstore

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	libtnb "github.com/libtnb/sqlite"
	"github.com/stretchr/testify/require"
	pgdriver "gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/txn"
	"github.com/auth19/idem/internal/pgtest"
)

// TakeOn is take over this connection.
func (s *Store) TakeOn(ctx context.Context, own *sql.Conn, c store.Claim) (store.Claimed, error) {
	return s.take(ctx, own, c)
}

// storeOn is a store on a database, whose tables may not be there yet.
func storeOn(t *testing.T, dialector gorm.Dialector) *Store {
	t.Helper()
	db, err := gorm.Open(dialector, &gorm.Config{Logger: logger.Discard})
	require.NoError(t, err)
	pool, err := db.DB()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	store, err := New(db)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return store
}

// storeAt is a store on the server at url.
func storeAt(t *testing.T, url string) *Store {
	t.Helper()
	return storeOn(t, pgdriver.Open(url))
}

// onEach are stores on a migrated database of each kind.
func onEach(t *testing.T) map[string]*Store {
	t.Helper()
	stores := map[string]*Store{
		"postgres": storeAt(t, pgtest.URL(t)),
		"sqlite": storeOn(t, libtnb.Open("file:"+filepath.Join(t.TempDir(), "test.db")+
			"?_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=busy_timeout(5000)")),
	}
	for _, st := range stores {
		require.NoError(t, Migrate(t.Context(), st.db.Gorm))
	}
	return stores
}

// claimOf is the claim of a command.
func claimOf(id byte, r store.Recovery) store.Claim {
	return store.Claim{ID: store.ID{id}, Owner: store.Owner{1}, Scope: store.Scope{1}, Method: "POST", Route: "/v1/payments",
		Recovery: r, Hash: store.CommandHash{Version: 1}, Lease: time.Minute, Deadline: time.Minute}
}

// won is a claim that must win.
func won(t *testing.T, st *Store, c store.Claim) store.Ticket {
	t.Helper()
	claimed, err := st.Claim(t.Context(), c)
	require.NoError(t, err)
	require.True(t, claimed.Won)
	return claimed.Record.Ticket
}

// done is what the commands of these tests end with.
var done = store.Completion{Answer: store.Answer{Status: 201}, Retention: time.Hour, Tombstone: time.Hour}

// A record that could be erased when its page was read may be another attempt's by now. The statement that erases looks
// again.
//
// CONTRACT X-2
func TestErasureLooksAgain(t *testing.T) {
	t.Parallel()
	for name, st := range onEach(t) {
		t.Run(name, func(t *testing.T) {
			erased := func(c store.Claim) (n int64) {
				require.NoError(t, st.db.InTx(t.Context(), func(q txn.Querier) (err error) {
					n, err = st.db.Exec(t.Context(), q, erase, c.ID[:], c.Scope[:])
					return err
				}))
				return n
			}
			for i, want := range []store.State{store.Running, store.Unknown, store.Free} {
				c := claimOf(byte(i), store.Resume)
				ticket := won(t, st, c)
				switch want {
				case store.Unknown:
					require.NoError(t, st.End(t.Context(), ticket, store.Ending{State: store.Unknown}))
				case store.Free:
					require.NoError(t, st.End(t.Context(), ticket, store.Ending{State: store.Free}))
				}
				require.Zero(t, erased(c), want)
				rec, err := st.Find(t.Context(), c.ID, store.Viewer{All: true})
				require.NoError(t, err)
				require.Equal(t, want, rec.Stored)
			}
			c := claimOf(9, store.Park)
			require.NoError(t, st.End(t.Context(), won(t, st, c), store.Ending{State: store.Completed, Answer: done}))
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
			require.NoError(t, st.End(t.Context(), won(t, st, claimOf(1, store.Park)), store.Ending{State: store.Completed, Answer: done}))
			require.NoError(t, st.db.Gorm.Exec("UPDATE idempotency_record SET expires_at = 1, due_at = 1").Error)
			require.NoError(t, st.db.Gorm.Exec("INSERT INTO processed_message (consumer_group, source, message_id, payload_hash,"+
				" processed_at, expires_at) VALUES ('stock', 'payments', '7', ?, 1, 1)", make([]byte, 32)).Error)
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

// The first message of a transaction guards it, also on a server that cannot look after its client, and however the server
// has planned the statement. A stricter guard of the role stands.
func TestGuardsOfATransaction(t *testing.T) {
	t.Parallel()
	for has, want := range map[txn.RoleGuards][]string{
		{}:                           {"1min", "500ms"},
		{NoCheck: true}:              {"1min", "0"},
		{Idle: 5_000, Check: 60_000}: {"5s", "500ms"},
		{Idle: 90_000, Check: 3_000}: {"1min", "3s"},
	} {
		t.Run(fmt.Sprint(want), func(t *testing.T) {
			t.Parallel()
			own := onEach(t)["postgres"]
			own.db.Pool.SetMaxOpenConns(1)
			own.db.RoleGuards.Store(&has)
			for n := range 8 { // the first five are planned for their parameters
				tx, claimed, err := own.Begin(t.Context(), claimOf(byte(n), store.Rollback))
				require.NoError(t, err)
				require.True(t, claimed.Won)
				handle, _ := SQLTx(tx.Bind(t.Context(), nil))
				var idle, client string
				require.NoError(t, handle.QueryRowContext(t.Context(), `SELECT current_setting('idle_in_transaction_session_timeout'),
					current_setting('client_connection_check_interval')`).Scan(&idle, &client))
				require.Equal(t, want, []string{idle, client}, fmt.Sprint(n))
				require.NoError(t, tx.Rollback())
			}
		})
	}
}
