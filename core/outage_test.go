package core_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/store"
)

// A store that fails every request is told once a second, with how many requests there were. One that has too much to do
// has not failed: each of its requests is refused, and that is all.
//
// CONTRACT F-1
func TestAnOutageIsToldOnceASecond(t *testing.T) {
	inBubble(t, "failing", func(t *testing.T) {
		st := newFaultStore(memstore.New()).on("claim", away)
		a := newApp(t, core.Config{Store: st}, created)
		for i := range 30 {
			requireProblem(t, a.post("k-"+strconv.Itoa(i), `{}`), 503, core.CodeStoreUnavailable)
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		counts := []int{}
		for _, e := range a.of(core.EventFailed) {
			require.ErrorIs(t, e.Err, errAway)
			counts = append(counts, e.Count)
		}
		require.Len(t, counts, 4)
		require.Equal(t, 30, counts[0]+counts[1]+counts[2]+counts[3])
		require.Len(t, a.of(core.EventRefused), 30)

		requireProblem(t, a.post("k", `{}`), 503, core.CodeStoreUnavailable)
		require.Len(t, a.of(core.EventFailed), 5, "the next outage is told at once")
	})
	t.Run("crowded", func(t *testing.T) {
		st := newFaultStore(memstore.New()).on("claim", func(context.Context) error {
			return fmt.Errorf("%w: as a shop on the last day", store.ErrCrowded)
		})
		a := newApp(t, core.Config{Store: st}, created)
		requireProblem(t, a.post("k", `{}`), 503, core.CodeStoreUnavailable)
		require.Empty(t, a.of(core.EventFailed))
		require.Len(t, a.of(core.EventRefused), 1)
	})
}

// Who is refused by a crowd hears how long the line is, and no more than half a minute.
//
// CONTRACT F-1
func TestRetryAfterGrowsWithTheLine(t *testing.T) {
	for after, want := range map[time.Duration]string{0: "2", 3 * time.Second: "5", time.Hour: "30"} {
		st := newFaultStore(memstore.New()).on("claim", func(context.Context) error {
			return &store.CrowdedError{After: after, Why: errAway}
		})
		a := newApp(t, core.Config{Store: st}, created)
		require.Equal(t, want, a.post("k", `{}`).Header().Get("Retry-After"))
	}
}

// A claim whose outcome is not known is given back behind the answer: a store that does not answer would let the client
// wait twice.
//
// CONTRACT F-1
func TestGivingBackIsNotWaitedFor(t *testing.T) {
	inBubble(t, "silent", func(t *testing.T) {
		silent := func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}
		st := newFaultStore(memstore.New()).on("after claim", silent).on("release", silent)
		a := newApp(t, core.Config{Store: st}, created)
		begun := time.Now()
		requireProblem(t, a.post("k-1", `{}`), 503, core.CodeStoreUnavailable)
		require.Equal(t, time.Second, time.Since(begun), "of the bubble's clock")
		time.Sleep(time.Minute)

		st.on("after claim", away).on("release", nil)
		requireProblem(t, a.post("k-2", `{}`), 503, core.CodeStoreUnavailable)
		st.on("after claim", nil)
		synctest.Wait()
		for _, key := range []string{"k-1", "k-2"} {
			require.Equal(t, http.StatusCreated, a.post(key, `{}`).Code, "both are free, and Run does not run")
		}
	})
}
