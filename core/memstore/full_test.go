package memstore_test

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/core/storetest"
)

// claimOf returns the claim of the n-th command.
func claimOf(n int, r store.Recovery) store.Claim {
	c := store.Claim{Recovery: r, Method: http.MethodPost, Route: "/pay", Lease: 30 * time.Second, Deadline: time.Minute}
	c.ID = core.Scoping{}.RecordID(core.Principal{Issuer: "i", Subject: "s"}, time.Duration(n).String())
	c.Owner[0], c.Owner[1] = byte(n), byte(n>>8)
	return c
}

func win(t *testing.T, s *memstore.Store, c store.Claim) store.Record {
	t.Helper()
	got, err := s.Claim(t.Context(), c)
	require.NoError(t, err)
	require.True(t, got.Won)
	return got.Record
}

func paid(retention, tombstone time.Duration) store.Completion {
	return store.Completion{
		Answer:    store.Answer{Status: http.StatusCreated, Body: []byte("paid")},
		Retention: retention, Tombstone: tombstone,
	}
}

// One record of each kind that is needed fills the store. None of them makes room, however long it takes.
//
// CONTRACT T-4
func TestFullStoreRefusesNewKeys(t *testing.T) {
	var clock storetest.Clock
	s := memstore.New(memstore.WithClock(clock.Now), memstore.WithMaxRecords(5))
	ctx := t.Context()

	win(t, s, claimOf(1, store.Park)) // unknown before long
	win(t, s, claimOf(2, store.Resume))
	require.NoError(t, s.End(ctx, win(t, s, claimOf(3, store.Resume)).Ticket, store.Ending{State: store.Unknown}))
	require.NoError(t, s.End(ctx, win(t, s, claimOf(4, store.Park)).Ticket, store.Ending{State: store.Completed, Answer: paid(24*time.Hour, 720*time.Hour)}))
	clock.Advance(t, 48*time.Hour)
	require.NoError(t, s.End(ctx, win(t, s, claimOf(5, store.Park)).Ticket, store.Ending{State: store.Completed, Answer: paid(24*time.Hour, 720*time.Hour)}))
	states := []store.State{store.Unknown, store.Running, store.Unknown, store.Expired, store.Completed}

	for range 2 {
		_, err := s.Claim(ctx, claimOf(6, store.Park))
		require.ErrorIs(t, err, store.ErrFull)
		for i, want := range states {
			r, err := s.Find(ctx, claimOf(i+1, store.Park).ID, store.Viewer{All: true})
			require.NoError(t, err)
			require.Equal(t, want, r.State(), "record %d", i+1)
		}
		_, err = s.Sweep(ctx, 100, store.Window{}) // leaves a tombstone, which counts as before
		require.NoError(t, err)
	}
	got, err := s.Claim(ctx, claimOf(5, store.Park))
	require.NoError(t, err, "known keys are answered")
	require.Equal(t, "paid", string(got.Record.Answer.Body))
	win(t, s, claimOf(2, store.Resume)) // and may be taken over

	clock.Advance(t, 721*time.Hour) // the first tombstone is over; nobody swept
	win(t, s, claimOf(6, store.Park))
	_, err = s.Claim(ctx, claimOf(7, store.Park))
	require.ErrorIs(t, err, store.ErrFull)
}

// The row of a freed key is there for its fence only: it makes room, the longest freed first.
//
// CONTRACT T-4
func TestFreedKeysMakeRoom(t *testing.T) {
	s := memstore.New(memstore.WithMaxRecords(2))
	ctx := t.Context()
	win(t, s, claimOf(1, store.Park))
	require.NoError(t, s.End(ctx, win(t, s, claimOf(2, store.Park)).Ticket, store.Ending{State: store.Free}))
	require.EqualValues(t, 2, win(t, s, claimOf(2, store.Park)).Fence, "a freed key needs no room to be claimed again")
	_, err := s.Claim(ctx, claimOf(3, store.Park))
	require.ErrorIs(t, err, store.ErrFull)

	require.NoError(t, s.End(ctx, store.Ticket{ID: claimOf(2, store.Park).ID, Owner: claimOf(2, store.Park).Owner}, store.Ending{State: store.Free}))
	win(t, s, claimOf(3, store.Park))
	_, err = s.Claim(ctx, claimOf(2, store.Park))
	require.ErrorIs(t, err, store.ErrFull)
}

// An attempt that has sealed nothing has a place, and gives it back. Over a freed key it has the place of that one, also
// after the freed row is gone.
//
// CONTRACT T-4, X-14
func TestOpenAttemptsTakeRoom(t *testing.T) {
	ctx := t.Context()
	for _, freed := range []bool{false, true} {
		for _, sealed := range []bool{false, true} {
			s := memstore.New(memstore.WithMaxRecords(1))
			c := claimOf(1, store.Resume)
			if freed {
				require.NoError(t, s.End(ctx, win(t, s, c).Ticket, store.Ending{State: store.Free}))
			}
			segments, got, err := s.Begin(ctx, c)
			require.NoError(t, err)
			require.True(t, got.Won)
			for range 2 { // the first one drops the freed row
				_, err = s.Claim(ctx, claimOf(2, store.Park))
				require.ErrorIs(t, err, store.ErrFull)
			}
			if sealed {
				_, err = segments.Seal(ctx, store.Seal{})
				require.NoError(t, err)
				_, err = s.Claim(ctx, claimOf(2, store.Park))
				require.ErrorIs(t, err, store.ErrFull)
				require.NoError(t, s.End(ctx, got.Record.Ticket, store.Ending{State: store.Free}))
			}
			require.NoError(t, segments.Rollback())
			win(t, s, claimOf(2, store.Park))
			_, err = s.Claim(ctx, claimOf(3, store.Park))
			require.ErrorIs(t, err, store.ErrFull)
		}
	}
}

// CONTRACT T-4
func TestLimitHoldsUnderLoad(t *testing.T) {
	const limit, keys = 100, 400
	s := memstore.New(memstore.WithMaxRecords(limit))
	var won, full atomic.Int64
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range keys / 8 {
				got, err := s.Claim(t.Context(), claimOf(worker*keys+i, store.Park))
				if err != nil {
					assert.ErrorIs(t, err, store.ErrFull)
					full.Add(1)
				} else if assert.True(t, got.Won) {
					won.Add(1)
				}
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, limit, won.Load())
	require.EqualValues(t, keys-limit, full.Load())
}

// CONTRACT T-4
func TestNonsenseOptionsMeanDefaults(t *testing.T) {
	s := memstore.New(memstore.WithMaxRecords(0), memstore.WithMaxRecords(-1), memstore.WithClock(nil))
	before := time.Now()
	r := win(t, s, claimOf(1, store.Park))
	require.WithinRange(t, r.CreatedAt, before, time.Now())
}
