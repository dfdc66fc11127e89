package gormstore_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
)

// gated is an app whose connections are counted, and opened when the test lets them.
type gated struct {
	db, admin *gorm.DB
	store     *gormstore.Store
	dials     atomic.Int32 // those of cancel requests, too
	opened    atomic.Int32
	gate      atomic.Pointer[chan struct{}]
	answers   atomic.Pointer[heldAnswers]
}

// heldAnswers are those of the server to the first connection that asks it something: they come when the test lets them.
type heldAnswers struct {
	gate chan struct{}
	to   atomic.Pointer[heldConn]
}

// heldConn is a connection whose answers a test can hold.
type heldConn struct {
	net.Conn
	answers *atomic.Pointer[heldAnswers]
}

// Write implements [net.Conn].
func (c *heldConn) Write(b []byte) (int, error) {
	if held := c.answers.Load(); held != nil {
		held.to.CompareAndSwap(nil, c)
	}
	return c.Conn.Write(b)
}

// Read implements [net.Conn].
func (c *heldConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if held := c.answers.Load(); held != nil && held.to.Load() == c {
		<-held.gate
	}
	return n, err
}

func newGated(t *testing.T, connections int) *gated {
	t.Helper()
	address := migratedURL(t)
	g := &gated{admin: openPostgres(t, address, 2)}
	config := try(pgx.ParseConfig(address)).ok(t)
	config.DialFunc = func(ctx context.Context, network, host string) (net.Conn, error) {
		g.dials.Add(1)
		if gate := g.gate.Load(); gate != nil {
			<-*gate
		}
		conn, err := new(net.Dialer).DialContext(ctx, network, host)
		return &heldConn{conn, &g.answers}, err
	}
	opened := stdlib.OptionAfterConnect(func(context.Context, *pgx.Conn) error {
		g.opened.Add(1)
		return nil
	})
	g.db = openDB(t, postgres.New(postgres.Config{Conn: stdlib.OpenDB(*config, opened)}), connections)
	try(g.db.DB()).ok(t).SetMaxIdleConns(connections)
	g.store = newStore(t, g.db)
	require.NoError(t, g.store.Validate(t.Context()))
	t.Cleanup(func() { require.NoError(t, g.store.Close()) })
	return g
}

// claim claims with a time that is too short for most of what a database does.
func (g *gated) claim(t *testing.T, recovery core.Recovery) error {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if recovery == core.Park {
		_, err := g.store.Claim(ctx, command(recovery))
		return err
	}
	a, _, err := g.store.Begin(ctx, command(recovery))
	if err == nil {
		err = a.Rollback()
	}
	return err
}

// Claims that get no answer in time do not cost their connections: new ones would get none either. When the database answers
// again, the connections are there.
//
// CONTRACT F-1, F-3
func TestLockedRecordsCostNoConnections(t *testing.T) {
	t.Parallel()
	for _, recovery := range []core.Recovery{core.Rollback, core.Park} {
		t.Run(recovery.String(), func(t *testing.T) {
			t.Parallel()
			const connections, waves = 8, 5
			g := newGated(t, connections)
			require.NoError(t, g.claim(t, core.Park)) // the connection for renewals
			for range 6 {                             // the connections have prepared their statements
				for range atOnce(6, func(int) error { return g.claim(t, recovery) }) {
				}
			}
			before := g.opened.Load()
			locked := g.admin.Begin()
			require.NoError(t, locked.Exec("LOCK TABLE idempotency_record IN ACCESS EXCLUSIVE MODE").Error)
			for range waves {
				for _, err := range atOnce(2*connections, func(int) error { return g.claim(t, recovery) }) {
					require.Error(t, err)
				}
			}
			require.NoError(t, locked.Commit().Error)
			eventually(t, "the connections answer", func() bool { return g.claim(t, recovery) == nil })
			require.LessOrEqual(t, g.opened.Load()-before, int32(connections))
		})
	}
}

// A connection that takes long to open is worth more than the time of a claim: the claim waits for it longer than for an
// answer. If even that is too long, nothing was sent, and the connection is there for the next.
//
// CONTRACT F-1
func TestConnectionThatTakesLong(t *testing.T) {
	t.Parallel()
	for _, recovery := range []core.Recovery{core.Rollback, core.Park} {
		t.Run(recovery.String(), func(t *testing.T) {
			t.Parallel()
			g := newGated(t, 8)
			require.NoError(t, g.claim(t, core.Park)) // the connection for renewals
			pool := try(g.db.DB()).ok(t)
			pool.SetMaxIdleConns(-1)
			pool.SetMaxIdleConns(8)
			gate := make(chan struct{})
			g.gate.Store(&gate)
			before := g.dials.Load()
			claimed := later(func() error { return g.claim(t, recovery) })
			select {
			case err := <-claimed:
				require.NoError(t, err, "its time is over, but not that of the connection")
			case <-time.After(time.Second):
			}
			err := <-claimed
			require.ErrorIs(t, err, store.ErrCrowded)
			require.Equal(t, before+1, g.dials.Load())
			g.gate.Store(nil)
			close(gate)
			eventually(t, "the connection goes to the pool", func() bool { return pool.Stats().Idle == 1 })

			pool.SetMaxIdleConns(-1)
			pool.SetMaxIdleConns(8)
			gate = make(chan struct{})
			g.gate.Store(&gate)
			claimed = later(func() error { return g.claim(t, recovery) })
			eventually(t, "it waits", func() bool { return g.dials.Load() == before+2 })
			time.Sleep(150 * time.Millisecond) // longer than it may
			close(gate)
			require.NoError(t, <-claimed)
		})
	}
}

// What goes on behind a claim that has given up sends nothing more: it is given back by then, and would take the free record
// that keeps it out.
//
// CONTRACT F-1, X-15
func TestGivenUpClaimSendsNothingMore(t *testing.T) {
	t.Parallel()
	g := newGated(t, 8)
	require.NoError(t, g.claim(t, core.Park)) // the connection for renewals
	locked := g.admin.Begin()
	require.NoError(t, locked.Exec("LOCK TABLE idempotency_record IN ACCESS EXCLUSIVE MODE").Error)
	for _, err := range atOnce(6, func(int) error { return g.claim(t, core.Park) }) { // from now on, claims are watched
		require.Error(t, err)
	}
	require.NoError(t, locked.Commit().Error)
	c := command(core.Park)
	won := try(g.store.Claim(t.Context(), c)).ok(t).Record.Ticket
	require.NoError(t, g.store.End(t.Context(), won, store.Ending{State: store.Free}))

	held := &heldAnswers{gate: make(chan struct{})}
	g.answers.Store(held)
	lost := again(c)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := g.store.Claim(ctx, lost)
	require.Error(t, err)
	require.False(t, store.LeavesNothing(err))
	require.NoError(t, g.store.Release(t.Context(), []store.Ticket{{ID: lost.ID, Owner: lost.Owner}}))
	g.answers.Store(nil)
	close(held.gate)
	pool := try(g.db.DB()).ok(t)
	eventually(t, "it has ended", func() bool { return pool.Stats().InUse <= 1 }) // the connection for renewals
	rec, err := g.store.Find(t.Context(), c.ID, store.Viewer{All: true})
	require.NoError(t, err)
	require.Equal(t, store.Free, rec.State(), "nobody runs it")
}
