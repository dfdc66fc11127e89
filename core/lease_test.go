package core_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
)

// untilLost is a handler that waits for the end of its context and adds how long that took.
func untilLost(t *testing.T, after *list[time.Duration]) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		begun := time.Now()
		<-r.Context().Done()
		after.add(time.Since(begun))
		if err := context.Cause(r.Context()); !errors.Is(err, core.ErrLeaseLost) {
			t.Error(err)
		}
		time.Sleep(2 * time.Minute) // it does not stop at once; a renewal that is under way ends before
		created(w, r)
	}
}

// CONTRACT X-1
func TestLeaseIsLostTwoThirdsAfterTheLastConfirmation(t *testing.T) {
	const lease = 30 * time.Second
	for name, test := range map[string]struct {
		renew func(ctx context.Context, since time.Duration) error
		lost  time.Duration
		err   error
	}{
		"never confirmed": {func(context.Context, time.Duration) error { return errAway }, 20 * time.Second, errAway},
		"confirmed once": {func(_ context.Context, since time.Duration) error {
			if since > 10*time.Second {
				return errAway
			}
			return nil
		}, 30 * time.Second, errAway},
		"confirmed again in time": {func(_ context.Context, since time.Duration) error {
			if since < 15*time.Second || since > 25*time.Second {
				return errAway
			}
			return nil
		}, 45 * time.Second, errAway},
		"a store that does not end its calls": {func(_ context.Context, since time.Duration) error {
			time.Sleep(time.Minute)
			return nil
		}, 20 * time.Second, context.DeadlineExceeded},
		"a store that hangs": {func(ctx context.Context, _ time.Duration) error {
			<-ctx.Done()
			return ctx.Err()
		}, 20 * time.Second, context.DeadlineExceeded},
		"a confirmation counts from when it was sent": {func(_ context.Context, since time.Duration) error {
			if since > 10*time.Second {
				time.Sleep(time.Minute)
			}
			time.Sleep(5 * time.Second)
			return nil
		}, 30 * time.Second, context.DeadlineExceeded},
		"taken over while the store hangs": {func(context.Context, time.Duration) error {
			time.Sleep(time.Minute)
			return core.ErrStale
		}, 20 * time.Second, context.DeadlineExceeded},
		"taken over": {func(_ context.Context, since time.Duration) error { return core.ErrStale }, 10 * time.Second, core.ErrStale},
	} {
		inBubble(t, name, func(t *testing.T) {
			store := newFaultStore(memstore.New())
			begun := time.Now()
			store.on("renew", func(ctx context.Context) error { return test.renew(ctx, time.Since(begun)) })
			var lost list[time.Duration]
			a := newApp(t, core.Config{Store: store, ClaimTimeout: 10 * time.Second,
				Policy: core.Policy{Recovery: core.Park, Lease: lease, Deadline: time.Hour}}, untilLost(t, &lost))
			w := a.post("k-1", `{}`)
			require.Len(t, lost.all(), 1)
			require.InDelta(t, test.lost.Seconds(), lost.all()[0].Seconds(), 0.001)
			events := a.of(core.EventLeaseLost)
			require.Len(t, events, 1)
			require.ErrorIs(t, events[0].Err, test.err)
			require.Equal(t, core.Scoping{}.RecordID(alice, "k-1"), events[0].Operation)
			require.Equal(t, int64(1), events[0].Fence)
			require.Equal(t, "created", w.Header().Get("Idempotency-Result"), "late and unsettled, it may still complete (X-2)")
		})
	}
}

// CONTRACT X-1
func TestRenewals(t *testing.T) {
	inBubble(t, "lease is tried again soon while the store is away", func(t *testing.T) {
		store := newFaultStore(memstore.New())
		var tries list[time.Duration]
		begun := time.Now()
		store.on("renew", func(context.Context) error {
			tries.add(time.Since(begun))
			if since := time.Since(begun); since > 10*time.Second && since < 33*time.Second {
				return errAway
			}
			return nil
		})
		a := newApp(t, core.Config{Store: store, Policy: core.Policy{Recovery: core.Park, Lease: time.Minute, Deadline: time.Hour}},
			func(http.ResponseWriter, *http.Request) { time.Sleep(50 * time.Second) })
		a.post("k-1", `{}`)
		var seconds []float64
		for _, try := range tries.all() {
			seconds = append(seconds, try.Seconds())
		}
		require.Equal(t, []float64{20, 22, 24, 26, 28, 30, 32, 34}, seconds, "a thirtieth of the lease later, until it answers")
		require.Empty(t, a.of(core.EventLeaseLost))
	})
	inBubble(t, "past its deadline an attempt is not lost: it has ended, and its handler knows", func(t *testing.T) {
		store := newFaultStore(memstore.New())
		var renewals list[time.Duration]
		begun := time.Now()
		store.on("renew", func(context.Context) error { renewals.add(time.Since(begun)); return nil })
		a := newApp(t, core.Config{Store: store, Policy: core.Policy{Recovery: core.Park, Deadline: 25 * time.Second}},
			func(_ http.ResponseWriter, r *http.Request) {
				<-r.Context().Done()
				require.ErrorIs(t, r.Context().Err(), context.DeadlineExceeded)
				require.NotErrorIs(t, context.Cause(r.Context()), core.ErrLeaseLost)
				time.Sleep(time.Hour)
			})
		a.post("k-1", `{}`)
		require.Equal(t, []time.Duration{10 * time.Second, 20 * time.Second}, renewals.all())
		require.NotContains(t, a.kinds(), core.EventLeaseLost)
	})
}

// A renewal that is under way when the handler ends is the last one, and cannot be lost any more.
//
// CONTRACT X-1
func TestRenewalUnderWayAtTheEnd(t *testing.T) {
	eachInBubble(t, map[string]error{"confirmed": nil, "store away": errAway, "stale": core.ErrStale}, func(t *testing.T, answer error) {
		store := newFaultStore(memstore.New())
		var renewals list[time.Time]
		store.on("renew", func(context.Context) error {
			renewals.add(time.Now())
			time.Sleep(900 * time.Millisecond)
			return answer
		})
		begun := time.Now()
		store.on("complete", func(context.Context) error {
			if time.Since(begun) < 9*time.Second {
				return errAway
			}
			return nil
		})
		a := newApp(t, core.Config{Store: store, Policy: core.Policy{Recovery: core.Park, Lease: 3 * time.Second}},
			func(http.ResponseWriter, *http.Request) { time.Sleep(1500 * time.Millisecond) })
		require.Equal(t, "created", a.post("k-1", `{}`).Header().Get("Idempotency-Result"))
		require.Len(t, renewals.all(), 1)
		require.NotContains(t, a.kinds(), core.EventLeaseLost)
	})
}
