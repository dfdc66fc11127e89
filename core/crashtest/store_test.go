package crashtest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/crashtest"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/core/storetest"
)

// TestGatesAreTransparent shows that a store behind gates without faults behaves as without gates.
func TestGatesAreTransparent(t *testing.T) {
	g := crashtest.NewGates()
	t.Cleanup(g.Close)
	storetest.Run(t, func(*testing.T) storetest.Subject {
		var clock storetest.Clock
		return storetest.Subject{Store: g.Store(memstore.New(memstore.WithClock(clock.Now))), Advance: clock.Advance}
	}, storetest.Features{Attempts: true, Watch: true, Settings: true, Proposed: true})
}

// TestDeadStoresDoNotReturn shows what a crash is in this process: the call before it has worked, but its caller never
// learns of it; the call after it never begins.
func TestDeadStoresDoNotReturn(t *testing.T) {
	g, under := crashtest.NewGates(), memstore.New()
	st := g.Store(under)
	claim := store.Claim{ID: store.ID{1}, Recovery: store.Park, Lease: time.Minute, Deadline: time.Minute}
	fault := g.Strike(crashtest.Point{Event: 0, After: true})
	returned, ended := false, make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = st.Claim(t.Context(), claim)
		returned = true
	}()
	<-fault.Reached
	g.Kill()
	g.Close()
	<-ended
	require.False(t, returned)
	require.Equal(t, []string{"Claim"}, g.Events())
	rec, err := under.Find(t.Context(), claim.ID, store.Viewer{All: true})
	require.NoError(t, err)
	require.Equal(t, store.Running, rec.Stored)

	ended = make(chan struct{})
	go func() {
		defer close(ended)
		_ = st.End(t.Context(), rec.Ticket, store.Ending{State: store.Unknown})
		returned = true
	}()
	<-ended
	require.False(t, returned)
	rec, err = under.Find(t.Context(), claim.ID, store.Viewer{All: true})
	require.NoError(t, err)
	require.Equal(t, store.Running, rec.Stored)
}

// TestDeadTransactionsAreRolledBack shows that the rows of a crashed attempt are gone, and its key is free.
func TestDeadTransactionsAreRolledBack(t *testing.T) {
	b := rollingBack(t)
	g := crashtest.NewGates()
	claim := store.Claim{ID: store.ID{1}, Recovery: store.Rollback, Lease: time.Minute, Deadline: time.Minute}
	_, claimed, err := g.Store(b.store).(store.Attempts).Begin(t.Context(), claim)
	require.NoError(t, err)
	require.True(t, claimed.Won)
	g.Close()
	claim.Owner = store.Owner{2}
	tx, claimed, err := b.store.(store.Attempts).Begin(t.Context(), claim)
	require.NoError(t, err)
	require.True(t, claimed.Won)
	require.NoError(t, tx.Rollback())
}
