package memstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/core/storetest"
)

// With a clock that stands still the boundaries can be tested to the nanosecond: a time that is reached has passed.
//
// CONTRACT T-1, T-3, T-4
func TestBoundaries(t *testing.T) {
	const retention, tombstone = 24 * time.Hour, 48 * time.Hour
	ctx := t.Context()
	c := claimOf(1, store.Park)
	tests := map[string]struct {
		at        time.Duration // since the claim
		completed bool
		want      store.State
		swept     store.Swept
	}{
		"before the lease ends":     {c.Lease - 1, false, store.Running, store.Swept{}},
		"when the lease ends":       {c.Lease, false, store.Unknown, store.Swept{}},
		"before retention ends":     {retention - 1, true, store.Completed, store.Swept{}},
		"when retention ends":       {retention, true, store.Expired, store.Swept{Tombstones: 1}},
		"before the tombstone ends": {retention + tombstone - 1, true, store.Expired, store.Swept{Tombstones: 1}},
		"when the tombstone ends":   {retention + tombstone, true, store.Free, store.Swept{Dropped: 1}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var clock storetest.Clock
			s := memstore.New(memstore.WithClock(clock.Now))
			won := win(t, s, c)
			if test.completed {
				require.NoError(t, s.End(ctx, won.Ticket, store.Ending{State: store.Completed, Answer: paid(retention, tombstone)}))
			}
			clock.Advance(t, test.at)
			r, err := s.Find(ctx, c.ID, store.Viewer{All: true})
			require.NoError(t, err)
			require.Equal(t, test.want, r.State())
			swept, err := s.Sweep(ctx, 10, store.Window{})
			require.NoError(t, err)
			require.Equal(t, test.swept, swept)
			got, err := s.Claim(ctx, claimOf(1, store.Resume))
			require.NoError(t, err)
			require.Equal(t, test.want == store.Free, got.Won)
		})
	}
}

// CONTRACT X-7
func TestSettlementWaitsForTheDeadline(t *testing.T) {
	var clock storetest.Clock
	s := memstore.New(memstore.WithClock(clock.Now))
	c := claimOf(1, store.Park)
	won := win(t, s, c)
	clock.Advance(t, c.Deadline-1)
	_, err := s.Settle(t.Context(), store.Settlement{ID: c.ID, Fence: won.Fence})
	require.ErrorIs(t, err, store.ErrNotSettleable)
	clock.Advance(t, 1)
	_, err = s.Settle(t.Context(), store.Settlement{ID: c.ID, Fence: won.Fence})
	require.NoError(t, err)
}

// A lease is never longer than its attempt.
//
// CONTRACT X-1
func TestLeaseEndsWithTheDeadline(t *testing.T) {
	c := claimOf(1, store.Park)
	c.Lease = 2 * c.Deadline
	won := win(t, memstore.New(), c)
	require.Equal(t, won.Deadline, won.LeaseUntil)
}
