package core_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/store"
)

// drifting is a store's clock that can be wrong.
type drifting struct{ off atomic.Int64 }

func (d *drifting) now() time.Time { return time.Now().Add(time.Duration(d.off.Load())) }

func (d *drifting) by(off time.Duration) { d.off.Store(int64(off)) }

// The database's clock jumps by 40 days for some seconds: what is recorded is replayed, tombstones stay, and nothing is
// paid again, neither then nor afterwards.
//
// CONTRACT T-5, M-3, M-5
func TestClockThatJumps(t *testing.T) {
	eachInBubble(t, map[string]time.Duration{"ahead": 40 * 24 * time.Hour, "behind": -40 * 24 * time.Hour}, func(t *testing.T, jump time.Duration) {
		clock := &drifting{}
		st := memstore.New(memstore.WithClock(clock.now))
		a := newOpsApp(t, core.Config{Store: st, SweepEvery: time.Second}, created)
		require.Equal(t, http.StatusCreated, a.post("buried", `{}`).Code)
		time.Sleep(store.DefaultRetention)
		_, err := st.Sweep(t.Context(), 10, store.Window{})
		require.NoError(t, err)
		require.Equal(t, http.StatusCreated, a.post("answered", `{}`).Code)
		a.handler = status(http.StatusBadGateway)
		require.Equal(t, http.StatusBadGateway, a.post("parked", `{}`).Code)
		time.Sleep(store.DefaultDeadline)
		a.handler = created

		clock.by(jump)
		stop := a.start()
		time.Sleep(10 * time.Second)
		w := a.post("answered", `{}`)
		requireCreated(t, w, "reused")
		require.Equal(t, "completed", members(t, a.operation(alice, idOf("answered")))["state"])
		requireProblem(t, a.post("parked", `{}`), http.StatusConflict, core.CodeOutcomeUnknown)
		requireProblem(t, a.serveSettle(operator, idOf("parked"), `{"outcome":"not_applied","reason":"r"}`),
			http.StatusServiceUnavailable, core.CodeStoreUnavailable)
		w = a.post("buried", `{}`)
		if jump > 0 {
			requireProblem(t, w, http.StatusConflict, core.CodeKeyExpired)
		} else {
			require.Equal(t, http.StatusConflict, w.Code)
		}
		for range 2 { // its lease would be as wrong as the clock
			requireProblem(t, a.post("new", `{}`), http.StatusServiceUnavailable, core.CodeStoreUnavailable)
			synctest.Wait() // the claim is taken back
		}
		told := a.of(core.EventClockSkew)
		require.Len(t, told, 1, "once a minute")
		require.ErrorIs(t, told[0].Err, core.ErrClock)
		require.Empty(t, a.of(core.EventSwept))

		clock.by(0)
		time.Sleep(time.Minute)
		stop()
		before := a.ran()
		require.Equal(t, "reused", a.post("answered", `{}`).Header().Get("Idempotency-Result"))
		requireProblem(t, a.post("buried", `{}`), http.StatusConflict, core.CodeKeyExpired)
		require.Equal(t, before, a.ran())
		require.Equal(t, "created", a.post("new", `{}`).Header().Get("Idempotency-Result"))
	})
}

// CONTRACT T-5, X-3, T-1
func TestClocksThatAreWrong(t *testing.T) {
	// A Resume operation is not begun by a clock that is ahead: its provider step would look new for as long as the jump.
	inBubble(t, "no steps by a clock that is ahead", func(t *testing.T) {
		clock := &drifting{}
		p := &charger{}
		a := newFlowApp(t, memstore.New(memstore.WithClock(clock.now)), func(ctx context.Context) (int, error) {
			return charge(ctx, p, core.Dedup(time.Hour))
		})
		clock.by(40 * 24 * time.Hour)
		for range 3 { // of a key that is new, and of one that was given back
			requireProblem(t, a.post("k-1", `{}`), http.StatusServiceUnavailable, core.CodeStoreUnavailable)
		}
		require.Zero(t, p.calls())
		require.Zero(t, a.ran())
		clock.by(0)
		require.Equal(t, http.StatusCreated, a.post("k-1", `{}`).Code)
		p.requireOneCharge(t, 1)
	})
	// Its time is over by every clock, and still the claim does not take it: nobody works on it, and a repeat may help.
	inBubble(t, "no key that has become free by a clock that is ahead", func(t *testing.T) {
		clock := &drifting{}
		a := newApp(t, core.Config{Store: memstore.New(memstore.WithClock(clock.now))}, created)
		require.Equal(t, http.StatusCreated, a.post("k-1", `{}`).Code)
		time.Sleep(store.DefaultRetention + store.DefaultTombstone)
		clock.by(2 * time.Hour)
		requireProblem(t, a.post("k-1", `{}`), http.StatusServiceUnavailable, core.CodeStoreUnavailable)
		require.Equal(t, 1, a.ran())
		clock.by(0)
		requireCreated(t, a.post("k-1", `{}`), "created")
	})
	// Whether a key has a record is judged as for the replay: at the cap it is answered, and not refused as a new one.
	inBubble(t, "an answer that only a clock that is ahead forgets is replayed at the cap", func(t *testing.T) {
		clock, cfg := &drifting{}, withMaxOpen(1)
		cfg.Store = memstore.New(memstore.WithClock(clock.now))
		a := newApp(t, cfg, created)
		require.Equal(t, http.StatusCreated, a.post("done", `{}`).Code)
		a.handler = status(http.StatusBadGateway)
		a.post("unknown", `{}`)
		clock.by(40 * 24 * time.Hour)
		requireCreated(t, a.post("done", `{}`), "reused")
		requireProblem(t, a.post("new", `{}`), http.StatusTooManyRequests, core.CodeTooManyOpen)
	})
	inBubble(t, "within the bound it is the store's clock alone that decides", func(t *testing.T) {
		clock := &drifting{}
		a := newApp(t, core.Config{Store: memstore.New(memstore.WithClock(clock.now)), MaxClockSkew: 2 * time.Hour}, created)
		a.post("k-1", `{}`)
		time.Sleep(store.DefaultRetention - time.Hour)
		clock.by(time.Hour)
		requireProblem(t, a.post("k-1", `{}`), http.StatusConflict, core.CodeKeyExpired)
		require.Empty(t, a.of(core.EventClockSkew))
		clock.by(3 * time.Hour)
		require.Equal(t, "reused", a.post("k-1", `{}`).Header().Get("Idempotency-Result"))
		require.Len(t, a.of(core.EventClockSkew), 1)
	})
	inBubble(t, "what completes after the clock has gone back is kept as long as if it had not", func(t *testing.T) {
		clock := &drifting{}
		a := newApp(t, core.Config{Store: memstore.New(memstore.WithClock(clock.now))}, func(w http.ResponseWriter, r *http.Request) {
			clock.by(-40 * 24 * time.Hour)
			created(w, r)
		})
		require.Equal(t, http.StatusCreated, a.post("k-1", `{}`).Code)
		clock.by(0)
		require.Equal(t, "reused", a.post("k-1", `{}`).Header().Get("Idempotency-Result"))
		require.Equal(t, 1, a.ran())
	})
}
