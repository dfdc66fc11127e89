package gormstore_test

import (
	"bytes"
	"context"
	"database/sql"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/driver/postgres"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
)

// blackHole is a store behind a proxy some of whose connections pass nothing any more.
type blackHole struct {
	*proxy
	store *gormstore.Store
	pool  *sql.DB

	fallen  chan struct{} // one for each connection that has fallen in
	cancels atomic.Int32  // requests to cancel
}

// holePool is the limit of its pool.
const holePool = 4

func newBlackHole(t *testing.T, simple bool, way way) *blackHole {
	t.Helper()
	url := migratedURL(t)
	h := &blackHole{proxy: newProxy(t, url), fallen: make(chan struct{}, 2*holePool)}
	db := way.of(t, openDB(t, postgres.New(postgres.Config{DSN: h.url, PreferSimpleProtocol: simple}), holePool))
	h.pool = try(db.DB()).ok(t)
	h.store = try(gormstore.New(db, gormstore.StallAfter(1500*time.Millisecond))).ok(t) // the others fall in before
	tx, _ := beginRow(t, h.store, command(store.Rollback))                              // what is asked once is not asked of a black hole
	require.NoError(t, tx.Rollback())
	return h
}

// swallow makes so many connections pass nothing from the point on where falls says so, until the hole is closed.
func (h *blackHole) swallow(t *testing.T, n int32, falls func(toServer bool, chunk []byte) bool) (release func()) {
	t.Helper()
	released := make(chan struct{})
	release = sync.OnceFunc(func() { close(released) })
	t.Cleanup(release) // a test that fails does not hang
	var fallen atomic.Int32
	h.set(func(toServer bool, chunk []byte) (int, bool) {
		if _, cut := dropCancels(toServer, chunk); cut {
			h.cancels.Add(1)
			return 0, true
		}
		switch {
		case falls(toServer, chunk) && fallen.Add(1) <= n:
			h.fallen <- struct{}{}
			<-released
		case !toServer && bytes.Contains(chunk, []byte("25P03")): // the server gives up, and nobody hears it
			<-released
		}
		return len(chunk), false
	})
	return release
}

// The app goes on as if the connections that pass nothing were not there, and the truth comes to light over others.
//
// CONTRACT F-3, X-4
func TestBlackHole(t *testing.T) {
	t.Parallel()
	has := func(toServer bool, what ...string) func(bool, []byte) bool {
		return func(direction bool, chunk []byte) bool {
			if direction != toServer {
				return false
			}
			for _, w := range what {
				if bytes.Contains(chunk, []byte(w)) {
					return true
				}
			}
			return false
		}
	}
	body := []string{"paid", "70616964"} // the answer's, as such or in hex
	for protocol, simple := range map[string]bool{"extended": false, "simple": true} {
		for name, c := range map[string]struct {
			way     way
			parks   bool // what is sent is the Complete of a command on Park
			falls   func(bool, []byte) bool
			outcome error
		}{
			"COMMIT that never arrives":                   {wrapped, false, has(true, "COMMIT\x00"), store.ErrRetryable},
			"COMMIT whose answer never arrives":           {wrapped, false, has(false, "COMMIT\x00"), nil},
			"pipelined COMMIT that never arrives":         {overPgx, false, has(true, body...), store.ErrRetryable},
			"pipelined COMMIT whose answer never arrives": {overPgx, false, has(false, "COMMIT\x00"), nil},
			"Complete that never arrives":                 {overPgx, true, has(true, body...), nil},
			"Complete whose answer never arrives":         {overPgx, true, has(false, "UPDATE 1\x00"), nil},
		} {
			t.Run(protocol+" "+name, func(t *testing.T) {
				t.Parallel()
				h := newBlackHole(t, simple, c.way)
				n, recovery := holePool-1, store.Rollback // as many attempts as the pool has places for
				if c.parks {
					n, recovery = holePool, store.Park
				}
				commands, tickets, outcomes := make([]store.Claim, n), make([]store.Ticket, n), make([]chan error, n)
				for i := range commands {
					commands[i] = command(recovery)
					if c.parks {
						tickets[i] = won(t, h.store, commands[i])
					} else {
						commands[i].Deadline = 2 * time.Second // the server gives up after that
					}
				}
				release := h.swallow(t, int32(n), c.falls)
				for i := range commands {
					if !c.parks {
						outcomes[i] = commit(t, h.store, commands[i], 30*time.Second)
						continue
					}
					ctx := within(t, 30*time.Second)
					outcomes[i] = make(chan error, 1)
					go func() {
						outcomes[i] <- h.store.End(ctx, tickets[i], store.Ending{State: store.Completed, Answer: paid()})
					}()
				}
				for range n {
					<-h.fallen
				}
				h.requireGoesOn(t)
				for i, outcome := range outcomes {
					require.ErrorIs(t, <-outcome, c.outcome)
					if c.outcome != nil {
						requireFree(t, h.store, commands[i])
					} else {
						requireCompleted(t, h.store, commands[i], paid())
					}
				}
				h.requireEnds(t, release)
			})
		}
	}
}

// requireGoesOn checks that the app's own statements and other commands come through.
func (h *blackHole) requireGoesOn(t *testing.T) {
	t.Helper()
	require.NoError(t, h.pool.QueryRowContext(within(t, 10*time.Second), "SELECT 1").Scan(new(int)))
	tx, _ := beginRow(t, h.store, command(store.Rollback))
	require.NoError(t, seal(within(t, 10*time.Second), tx, paid(), false))
	require.Greater(t, h.pool.Stats().MaxOpenConnections, holePool)
}

// requireEnds checks that the pool is as it was once the connections are back, and that no cancel request was sent.
func (h *blackHole) requireEnds(t *testing.T, release func()) {
	t.Helper()
	require.Zero(t, h.cancels.Load())
	release()
	eventually(t, "the pool has its limit again", func() bool {
		return h.pool.Stats().MaxOpenConnections == holePool
	})
}

// A server that waits for its standby has what was sent: its connection is not left behind, however often the store looks.
//
// CONTRACT F-3
func TestStandbyIsNoBlackHole(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	p := newProxy(t, r.URL()+"&synchronous_commit=on")
	const connections = 8
	db := openDB(t, postgres.New(postgres.Config{DSN: p.url, PreferSimpleProtocol: true}), connections)
	pool := try(db.DB()).ok(t)
	st := try(gormstore.New(db, gormstore.StallAfter(time.Second))).ok(t)
	var looks atomic.Int32
	p.set(func(toServer bool, chunk []byte) (int, bool) {
		if toServer && bytes.Contains(chunk, []byte("a.wait_event = 'SyncRep'")) {
			looks.Add(1)
		}
		return len(chunk), false
	})
	requireHeld := func(t *testing.T) {
		t.Helper()
		looks.Store(0)
		eventually(t, "it was looked at", func() bool { return looks.Load() > 1 })
		require.Equal(t, connections, pool.Stats().MaxOpenConnections)
	}

	transacted, parked := command(store.Rollback), command(store.Park)
	r.abandon()
	eventually(t, "the claim needs no standby", func() bool {
		ctx := within(t, time.Second)
		_, err := st.Claim(ctx, command(store.Park))
		return err == nil
	})
	ticket := won(t, st, parked)
	r.demand()

	outcome := commit(t, st, transacted, 30*time.Second)
	r.waiting()
	requireHeld(t)
	completed := later(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		return st.End(ctx, ticket, store.Ending{State: store.Completed, Answer: paid()})
	})
	sessions(t, r.admin, 1, "wait_event = 'SyncRep' AND query LIKE 'UPDATE%'")
	requireHeld(t)
	r.abandon()
	require.NoError(t, <-outcome)
	require.NoError(t, <-completed)
}
