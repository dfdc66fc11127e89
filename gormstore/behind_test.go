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
		return new(net.Dialer).DialContext(ctx, network, host)
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
