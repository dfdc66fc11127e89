package gormstore_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
)

// A claim that got no connection was not sent: because the app's own statements hold the pool, or because no connection can be
// opened. Its error says that there is nothing to release.
//
// CONTRACT F-1
func TestClaimWithoutAConnection(t *testing.T) {
	t.Parallel()
	config := try(pgx.ParseConfig(migratedURL(t))).ok(t)
	var away atomic.Bool
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if away.Load() {
			return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("nobody is there")}
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	pool := stdlib.OpenDB(*config)
	db := openDB(t, postgres.New(postgres.Config{Conn: pool}), 4)
	st := newStore(t, db)
	require.NoError(t, st.Validate(t.Context()))
	requireNotSent := func() {
		t.Helper()
		_, err := st.Claim(within(t, 100*time.Millisecond), command(store.Park))
		require.Error(t, err)
		require.True(t, store.LeavesNothing(err), err)
	}
	for { // until the pool has none left
		conn, err := pool.Conn(within(t, 100*time.Millisecond))
		if err != nil {
			break
		}
		defer func() { _ = conn.Close() }()
	}
	requireNotSent()

	pool.SetMaxIdleConns(0)
	away.Store(true)
	requireNotSent()
}

// lossy is a driver that calls a connection bad behind a COMMIT that was sent. Then no connection can be opened.
type lossy struct {
	driver.Connector
	loses, away atomic.Bool
}

type lossyConn struct {
	*stdlib.Conn
	of *lossy
}

// Connect implements [driver.Connector].
func (l *lossy) Connect(ctx context.Context) (driver.Conn, error) {
	if l.away.Load() {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("nobody is there")}
	}
	c, err := l.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return lossyConn{c.(*stdlib.Conn), l}, nil
}

// BeginTx implements [driver.ConnBeginTx].
func (c lossyConn) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	tx, err := c.Conn.BeginTx(ctx, options)
	return lossyTx{tx, c}, err
}

type lossyTx struct {
	driver.Tx
	on lossyConn
}

// Commit implements [driver.Tx].
func (t lossyTx) Commit() error {
	err := t.Tx.Commit()
	if err == nil && t.on.of.loses.Load() {
		t.on.of.away.Store(true)
		return errors.Join(driver.ErrBadConn, t.on.Conn.Close())
	}
	return err
}

// A driver may call a connection bad over which the claim was sent. Where there is no other connection, the claim may have
// landed nevertheless.
//
// CONTRACT F-1
func TestClaimOverAConnectionThatIsCalledBad(t *testing.T) {
	t.Parallel()
	url := migratedURL(t)
	config := try(pgx.ParseConfig(url)).ok(t)
	bad := &lossy{Connector: stdlib.GetConnector(*config)}
	pool := sql.OpenDB(bad)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	st := newStore(t, openDB(t, postgres.New(postgres.Config{Conn: pool}), 2))
	require.NoError(t, st.Validate(t.Context()))
	bad.loses.Store(true)
	c := command(store.Park)
	_, err := st.Claim(within(t, 10*time.Second), c)
	require.Error(t, err)
	rec := try(newStore(t, openPostgres(t, url, 2)).Find(t.Context(), c.ID, store.Viewer{All: true})).ok(t)
	require.Equal(t, c.Owner, rec.Owner, "it has landed")
	require.False(t, store.LeavesNothing(err), "%v", err)
}

// A connection whose server takes no writes is not kept: its next user would get it again, before others that lead to the
// primary.
//
// CONTRACT F-8
func TestConnectionThatTakesNoWrites(t *testing.T) {
	db := parallelPostgres(t)
	pool := try(db.DB()).ok(t)
	pool.SetMaxIdleConns(1)
	st := newStore(t, db)
	require.NoError(t, st.Validate(t.Context()))
	require.NoError(t, db.Exec("SET default_transaction_read_only = on").Error) // on the one that is idle, which is the next one
	won(t, st, command(store.Park))
	require.NoError(t, db.Exec("SET default_transaction_read_only = on").Error)
	begin(t, st, command(store.Rollback))
}

// What is left of a claim that was taken back without having been seen stays for a day by the database's clock, in which an old
// message may still be under way, and no longer.
//
// CONTRACT X-4, F-1
func TestLostClaimIsForgottenAfterADay(t *testing.T) {
	onStores(t, bothKinds, func(t *testing.T, db *gorm.DB, st *gormstore.Store) {
		landed, late := command(store.Park), command(store.Park)
		won(t, st, landed)
		require.NoError(t, st.Release(t.Context(), []store.Ticket{{ID: landed.ID, Owner: landed.Owner},
			{ID: late.ID, Owner: late.Owner}}))
		for _, step := range []struct {
			after time.Duration
			want  store.Swept
		}{{23 * time.Hour, store.Swept{}}, {2 * time.Hour, store.Swept{Dropped: 2}}} {
			advance(t, db, step.after)
			require.Equal(t, step.want, sweep(t, st, 100))
		}
	})
}
