package core_test

import (
	"context"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/store"
)

// outage is a provider that does not answer for a while, behind a step that has committed.
func outage(t *testing.T, st core.Store, away time.Duration) *app {
	t.Helper()
	from := time.Now()
	steps := func(ctx context.Context) error {
		return core.CallDo(ctx, "refund", func(context.Context, core.DerivedKey) error {
			if time.Since(from) < away {
				return errProvider
			}
			return nil
		}, core.Dedup(48*time.Hour))
	}
	return newOpsApp(t, core.Config{Store: st, Policy: core.Policy{Recovery: core.Resume},
		Resume: resumes(func(ctx context.Context, _ core.Record) (*core.Answer, error) {
			return &core.Answer{Status: http.StatusCreated}, steps(ctx)
		})}, flow(func(ctx context.Context) (int, error) { return http.StatusCreated, steps(ctx) }).ServeHTTP)
}

// A pause that grows stands between attempts, so that no number of repeats uses an operation up. Whoever comes inside it is told
// when to come again.
//
// CONTRACT X-10, M-2, M-7
func TestPauseBetweenAttempts(t *testing.T) {
	inBubble(t, "a thousand repeats in a second", func(t *testing.T) {
		a := outage(t, memstore.New(), time.Hour)
		for _, after := range []string{"2", "2", "5"} { // the third attempt's is the first pause
			w := a.post("k-1", `{}`)
			require.Equal(t, http.StatusInternalServerError, w.Code)
			require.Equal(t, after, w.Header().Get("Retry-After"))
		}
		for i := range 1000 {
			w := a.post("k-1", `{}`)
			requireProblem(t, w, http.StatusConflict, core.CodeInFlight)
			require.Contains(t, w.Body.String(), "the operation waits for its next one")
			if i == 999 {
				require.Equal(t, "5", w.Header().Get("Retry-After"), "the rest of it, rounded up")
			}
			time.Sleep(time.Millisecond)
		}
		require.Equal(t, 3, a.ran())
		require.Contains(t, a.operation(alice, idOf("k-1")).Body.String(), `"state":"running"`)
		time.Sleep(store.DefaultPause)
		require.Equal(t, "10", a.post("k-1", `{}`).Header().Get("Retry-After"))
		require.Equal(t, 4, a.ran())
	})
	inBubble(t, "an outage of six hours parks nothing", func(t *testing.T) {
		a := outage(t, memstore.New(), 6*time.Hour)
		stop := a.start()
		defer stop()
		w := a.post("k-1", `{}`)
		for begun := time.Now(); w.Code != http.StatusCreated; w = a.post("k-1", `{}`) {
			after, err := strconv.Atoi(w.Header().Get("Retry-After"))
			require.NoError(t, err, "%d %s", w.Code, w.Body)
			time.Sleep(time.Duration(after) * time.Second)
			require.Less(t, time.Since(begun), 6*time.Hour+2*store.MaxPause)
		}
		require.Empty(t, a.of(core.EventUnknown))
	})
	inBubble(t, "the time alone parks, whoever repeats", func(t *testing.T) {
		st := memstore.New()
		a := outage(t, st, 48*time.Hour)
		stop := a.start()
		for len(a.of(core.EventUnknown)) == 0 {
			a.post("k-1", `{}`)
			time.Sleep(30 * time.Second)
		}
		stop()
		rec := find(t, st, "k-1")
		require.InDelta(t, core.DefaultResumeFor, rec.Now.Sub(rec.CreatedAt), float64(store.MaxPause))
		require.Less(t, rec.Attempts, store.DefaultMaxAttempts)
	})
	inBubble(t, "Run asks for nothing inside it", func(t *testing.T) {
		st := newFaultStore(memstore.New())
		a := outage(t, st, 24*time.Hour)
		for range 12 {
			a.post("k-1", `{}`)
			time.Sleep(store.MaxPause)
		}
		a.post("k-1", `{}`)
		time.Sleep(store.DefaultDeadline)
		require.True(t, find(t, st, "k-1").HalfDone())
		asked := st.count("claim")
		a.runFor(store.MaxPause / 2)
		require.Zero(t, *asked)
		a.runFor(store.MaxPause)
		require.Equal(t, 1, *asked)
	})
	inBubble(t, "it is counted from the end of the lease of an attempt that died", func(t *testing.T) {
		st := newFaultStore(memstore.New())
		a := outage(t, st, time.Hour)
		a.post("k-1", `{}`)
		a.post("k-1", `{}`)
		st.on("renew", away) // nobody ends the lease of the third attempt
		a.post("k-1", `{}`)
		st.on("renew", nil)
		ends := find(t, st, "k-1").LeaseUntil
		time.Sleep(time.Until(ends.Add(time.Second)))
		w := a.post("k-1", `{}`)
		requireProblem(t, w, http.StatusConflict, core.CodeInFlight)
		require.Equal(t, "4", w.Header().Get("Retry-After"))
		time.Sleep(4 * time.Second)
		require.Equal(t, http.StatusInternalServerError, a.post("k-1", `{}`).Code)
	})
}
