package gormstore_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
)

// leased is a store with a pool of four that has renewed the lease of a Park attempt once.
func leased(t *testing.T) (st *gormstore.Store, pool *sql.DB, won store.Record) {
	t.Helper()
	db, st := crowdedApp(t)
	won = try(st.Claim(t.Context(), command(core.Park))).ok(t).Record
	require.NoError(t, st.Renew(t.Context(), won.Ticket, time.Minute))
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st, try(db.DB()).ok(t), won
}

// Leases are renewed over a connection that the app's own routes never get, however many they are: a lease is not lost with
// a healthy database. The connection counts: one claim less has a place.
//
// CONTRACT X-1, F-7
func TestLeasesAreRenewedBesideACrowd(t *testing.T) {
	t.Parallel()
	st, pool, won := leased(t)
	for range 4 { // all that the app can get
		soon, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		if taken, err := pool.Conn(soon); err == nil {
			t.Cleanup(func() { _ = taken.Close() })
		}
		cancel()
	}
	require.NoError(t, st.Renew(within(t, 10*time.Second), won.Ticket, time.Minute))
}

// The keeper's connection is one of those that attempts would have.
//
// CONTRACT F-7
func TestKeeperIsCounted(t *testing.T) {
	t.Parallel()
	st, pool, _ := leased(t)
	for range 2 {
		begin(t, st, command(core.Rollback))
	}
	bounded, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := st.Claim(bounded, command(core.Park))
	require.ErrorIs(t, err, store.ErrCrowded)
	require.Zero(t, pool.Stats().WaitCount)
	require.NoError(t, st.Close())
	begin(t, st, command(core.Rollback)) // it was given back
}

// Many renewals go together. Each is answered for itself: one is stale, one stands still behind a lock, the others are renewed.
//
// CONTRACT
func TestRenewalsTogether(t *testing.T) {
	t.Parallel()
	st, pool, _ := leased(t)
	var all []store.Ticket
	for range 20 {
		all = append(all, try(st.Claim(t.Context(), command(core.Park))).ok(t).Record.Ticket)
	}
	stale := all[3]
	stale.Fence++
	all[3] = stale
	tx := try(pool.BeginTx(t.Context(), nil)).ok(t)
	defer func() { _ = tx.Rollback() }()
	_ = try(tx.ExecContext(t.Context(), "SELECT FROM idempotency_record WHERE id = $1 FOR UPDATE", all[7].ID[:])).ok(t)
	for i, err := range atOnce(len(all), func(i int) error { return st.Renew(within(t, 30*time.Second), all[i], time.Minute) }) {
		switch i {
		case 3:
			require.ErrorIs(t, err, store.ErrStale)
		case 7:
			require.ErrorContains(t, err, "55P03")
		default:
			require.NoError(t, err, i)
		}
	}
}

// A connection that the server has ended is replaced.
//
// CONTRACT X-1, F-2
func TestKeeperSurvivesItsConnection(t *testing.T) {
	t.Parallel()
	st, pool, won := leased(t)
	const others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND " +
		"pid <> pg_backend_pid() AND backend_type = 'client backend'"
	_ = try(pool.ExecContext(t.Context(), others)).ok(t)
	ctx := within(t, 30*time.Second)
	for tries := 0; ; tries++ { // as an attempt tries again
		err := st.Renew(ctx, won.Ticket, time.Minute)
		if err == nil {
			break
		}
		require.Less(t, tries, 5, err)
	}
	require.True(t, try(st.Find(ctx, won.ID, store.Viewer{All: true})).ok(t).LeaseUntil.After(won.LeaseUntil))
}
