package txn

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/store"
)

// In a burst the order is that of the requests. Once the oldest has waited for longer, the newest comes first, but each
// fourth place is the oldest's. A segment behind a call comes before all of them, and has a place in reserve.
//
// CONTRACT X-15
func TestOrderOfTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(1, 1)
		require.NoError(t, l.enter(t.Context(), false))
		var order []int
		enter := func(n int, segment bool) {
			go func() {
				if l.enter(t.Context(), segment) == nil {
					order = append(order, n)
				}
			}()
			synctest.Wait()
		}
		for n := range 8 {
			enter(n, false)
		}
		enter(100, true) // the reserve
		enter(101, true)
		for range 4 {
			l.leave()
			synctest.Wait()
		}
		require.Equal(t, []int{100, 101, 0, 1}, order)
		time.Sleep(time.Second)
		for range 6 {
			l.leave()
			synctest.Wait()
		}
		require.Len(t, order, 10)
		require.Equal(t, []int{2, 7, 6, 5}, order[4:8])
	})
}

// How long the line takes is learned from the places that get free while somebody waits. One that stood still is not taken
// for what is usual.
//
// CONTRACT F-1
func TestLengthOfTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(1, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		require.NoError(t, l.enter(ctx, false))
		next := func(hold time.Duration) {
			go func() { _ = l.enter(ctx, false) }()
			synctest.Wait()
			time.Sleep(hold)
			l.leave()
			synctest.Wait()
		}
		for range 200 {
			go func() { _ = l.enter(ctx, false) }()
		}
		for range 100 {
			next(20 * time.Millisecond)
		}
		require.InDelta(t, 20*time.Millisecond, l.gap, float64(time.Millisecond))
		next(time.Hour / 2)
		require.Less(t, l.gap, 25*time.Millisecond)

		short, cancelShort := context.WithTimeout(t.Context(), time.Second)
		defer cancelShort()
		var crowded *store.CrowdedError
		require.ErrorAs(t, l.enter(short, false), &crowded, "200 wait, for 4 s")
		require.ErrorIs(t, crowded.Why, errTooLong)
		require.InDelta(t, 4.5*float64(time.Second), crowded.After, float64(time.Second))
		for range 10 {
			require.ErrorAs(t, l.enter(short, false), &crowded)
		}
		require.Greater(t, crowded.After, 4500*time.Millisecond, "with those who will come back")
		cancel()
		synctest.Wait()
	})
}

// A time in which each place was held for long makes a line that nobody may join. It must not stay so: who waits first
// always may, and so the line learns that places get free again.
//
// CONTRACT F-1
func TestLineLearnsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(1, 1)
		var served, refused atomic.Int64
		// load is that of eight clients for a while, each of which tries once more as soon as it was answered.
		load := func(hold, during time.Duration) {
			served.Store(0)
			refused.Store(0)
			end := time.Now().Add(during)
			for range 8 {
				go func() {
					for time.Now().Before(end) {
						ctx, cancel := context.WithTimeout(t.Context(), 750*time.Millisecond)
						if err := l.enter(ctx, false); err == nil {
							served.Add(1)
							time.Sleep(hold)
							l.leave()
						} else {
							refused.Add(1)
							time.Sleep(10 * time.Millisecond)
						}
						cancel()
					}
				}()
			}
			time.Sleep(during + 2*hold + time.Second)
			synctest.Wait()
		}
		load(time.Second, 2*time.Minute) // longer than anybody waits
		require.Greater(t, l.gap, 500*time.Millisecond)
		load(10*time.Millisecond, 5*time.Second)
		load(10*time.Millisecond, 5*time.Second)
		require.Zero(t, refused.Load(), "%d served, %v between two places", served.Load(), l.gap)
	})
}
