package core_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/store"
)

// CONTRACT F-1
func TestClaimsOfAFlood(t *testing.T) {
	// A request whose claim failed helps to release what a flood has left behind, for as long as it would wait for any other
	// call of the store and no longer.
	inBubble(t, "answer does not wait for the releases of others", func(t *testing.T) {
		st := newFaultStore(memstore.New()).on("after claim", away)
		st.on("release", away)
		a := newApp(t, core.Config{Store: st}, created)
		for i := range 100 {
			requireProblem(t, a.post("k-"+strconv.Itoa(i), `{}`), http.StatusServiceUnavailable, core.CodeStoreUnavailable)
		}
		st.on("release", func(ctx context.Context) error { // the store is back, and slow
			time.Sleep(300 * time.Millisecond)
			return ctx.Err()
		})
		asked := time.Now()
		requireProblem(t, a.post("k-100", `{}`), http.StatusServiceUnavailable, core.CodeStoreUnavailable)
		require.LessOrEqual(t, time.Since(asked), store.DefaultClaimTimeout+300*time.Millisecond)

		st.on("after claim", nil)
		st.on("release", nil)
		a.start()()
		for i := range 101 {
			require.Equal(t, "created", a.post("k-"+strconv.Itoa(i), `{}`).Header().Get("Idempotency-Result"), i)
		}
	})
	t.Run("claim that found no room is not released", func(t *testing.T) {
		st := newFaultStore(memstore.New()).on("claim", func(context.Context) error { return fmt.Errorf("%w: no connection", store.ErrCrowded) })
		st.on("release", func(context.Context) error { panic("there is nothing to release") })
		a := newApp(t, core.Config{Store: st}, created)
		w := a.post("k-1", `{}`)
		requireProblem(t, w, http.StatusServiceUnavailable, core.CodeStoreUnavailable)
		require.Equal(t, "2", w.Header().Get("Retry-After"))
		st.on("claim", nil)
		require.Equal(t, "created", a.post("k-1", `{}`).Header().Get("Idempotency-Result"))
	})
	t.Run("won claim is released where its steps find no room", func(t *testing.T) {
		st := newFaultStore(memstore.New())
		status := http.StatusInternalServerError // yields: the next claim reads the steps
		a := newApp(t, core.Config{Store: st, Policy: core.Policy{Recovery: core.Resume}},
			sealed(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		require.Equal(t, status, a.post("k-1", `{}`).Code)

		st.on("steps", func(context.Context) error { return fmt.Errorf("%w: no connection", store.ErrCrowded) })
		requireProblem(t, a.post("k-1", `{}`), http.StatusServiceUnavailable, core.CodeStoreUnavailable)
		st.on("steps", nil)
		status = http.StatusCreated
		require.Equal(t, "created", a.post("k-1", `{}`).Header().Get("Idempotency-Result"), "nobody waits for a lease")
	})
}
