package gormstore_test

import (
	"context"
	"database/sql"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	"gorm.io/driver/postgres"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
)

// leased is a store with a pool of four that has begun a Park attempt.
func leased(t *testing.T) (st *gormstore.Store, pool *sql.DB, won store.Record) {
	t.Helper()
	db, st := crowdedApp(t)
	won = try(st.Claim(t.Context(), command(core.Park))).ok(t).Record
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st, try(db.DB()).ok(t), won
}

// flooded takes every connection that the app's own routes can get, and lets as many more wait for one. It returns one.
func flooded(t *testing.T, pool *sql.DB) (one *sql.Conn) {
	t.Helper()
	for range 3 {
		one = try(pool.Conn(t.Context())).ok(t)
		_ = try(one.ExecContext(t.Context(), "SET application_name = 'taken'")).ok(t)
		t.Cleanup(func() { _ = one.Close() })
	}
	wait, over := context.WithCancel(t.Context())
	t.Cleanup(over)
	before := pool.Stats().WaitCount
	for range 100 {
		go func() {
			if taken, err := pool.Conn(wait); err == nil {
				<-wait.Done()
				_ = taken.Close()
			}
		}()
	}
	require.Eventually(t, func() bool { return pool.Stats().WaitCount == before+100 }, time.Minute, time.Millisecond)
	return one
}

// Leases are renewed over a connection that the app's own routes never get, however many they are and however early they
// come: a lease is not lost with a healthy database.
//
// CONTRACT X-1, F-7
func TestLeasesAreRenewedBesideACrowd(t *testing.T) {
	t.Parallel()
	st, pool, won := leased(t)
	_ = flooded(t, pool)
	require.NoError(t, st.Renew(within(t, 30*time.Second), won.Ticket, time.Minute))
	require.Equal(t, 4, pool.Stats().MaxOpenConnections)
}

// A connection for renewals that breaks beside a crowd is replaced without a wait in the pool's line.
//
// CONTRACT X-1, F-2
func TestKeeperIsReplacedBesideACrowd(t *testing.T) {
	t.Parallel()
	st, pool, won := leased(t)
	admin := flooded(t, pool)
	until := func() (at time.Time) {
		const until = "SELECT lease_until FROM idempotency_operation"
		require.NoError(t, admin.QueryRowContext(t.Context(), until).Scan(&at))
		return at
	}
	before := until()
	_ = try(admin.ExecContext(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "+
		"WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name <> 'taken'")).ok(t)
	require.NoError(t, st.Renew(within(t, 30*time.Second), won.Ticket, time.Minute))
	require.True(t, until().After(before))
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

// A renewal whose time is over before it is sent renews nothing.
//
// CONTRACT F-1
func TestRenewalWhoseTimeIsOver(t *testing.T) {
	t.Parallel()
	st, _, won := leased(t)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for range 1_000 {
		require.ErrorIs(t, st.Renew(over, won.Ticket, time.Minute), context.Canceled)
	}
	require.NoError(t, st.Close()) // what was sent has ended
	require.Equal(t, won.LeaseUntil, try(st.Find(t.Context(), won.ID, store.Viewer{All: true})).ok(t).LeaseUntil)
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

// A store that is closed opens no connection any more, also where the server does not answer.
//
// CONTRACT F-7
func TestClosedStoreOpensNoConnection(t *testing.T) {
	t.Parallel()
	config := try(pgx.ParseConfig(migratedURL(t))).ok(t)
	var hangs atomic.Bool
	dials, ended := make(chan struct{}), make(chan error)
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if !hangs.CompareAndSwap(true, false) {
			return new(net.Dialer).DialContext(ctx, network, address)
		}
		dials <- struct{}{}
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, ctx.Err()
	}
	pool := stdlib.OpenDB(*config)
	st := newStore(t, openDB(t, postgres.New(postgres.Config{Conn: pool}), 4))
	require.NoError(t, st.Validate(t.Context()))
	pool.SetMaxIdleConns(-1)
	hangs.Store(true) // the next one, which is the keeper's

	claimed := make(chan error)
	go func() {
		_, err := st.Claim(t.Context(), command(core.Park))
		claimed <- err
	}()
	<-dials
	require.NoError(t, st.Close())
	require.ErrorIs(t, <-ended, context.Canceled) // not that the try took too long
	require.NoError(t, <-claimed)
}
