package memstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/core/storetest"
)

// CONTRACT X-7
func TestSettlementsAreKept(t *testing.T) {
	var clock storetest.Clock
	s := memstore.New(memstore.WithClock(clock.Now))
	ctx := t.Context()
	c := claimOf(1, store.Park)
	require.Empty(t, s.Settlements(c.ID))

	first := win(t, s, c)
	clock.Advance(t, time.Hour)
	_, err := s.Settle(ctx, store.Settlement{ID: c.ID, Fence: first.Fence + 1, Who: "x", Why: "x"})
	require.ErrorIs(t, err, store.ErrStale)
	free, err := s.Settle(ctx, store.Settlement{ID: c.ID, Fence: first.Fence, Who: "ann", Why: "no charge"})
	require.NoError(t, err)
	firstAt := clock.Now()

	second := win(t, s, c)
	clock.Advance(t, time.Hour)
	answer := paid(24*time.Hour, 0)
	done, err := s.Settle(ctx, store.Settlement{ID: c.ID, Fence: second.Fence, Answer: &answer, Who: "bob", Why: "charged"})
	require.NoError(t, err)

	secondAt := clock.Now()
	clock.Advance(t, 48*time.Hour)
	_, err = s.Sweep(ctx, 10, store.Window{})
	require.NoError(t, err)
	_, err = s.Find(ctx, c.ID, store.Viewer{All: true})
	require.ErrorIs(t, err, store.ErrNotFound)

	first.Now, second.Now = firstAt, secondAt
	require.Equal(t, []memstore.Settled{
		{Who: "ann", Why: "no charge", At: firstAt, Before: first, After: free},
		{Who: "bob", Why: "charged", At: secondAt, Before: second, After: done},
	}, s.Settlements(c.ID))
}
