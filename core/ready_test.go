package core_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/store"
)

// Ready is the store's, behind the hook "ready".
func (s *faultStore) Ready(ctx context.Context) error {
	if err := s.before(ctx, "ready"); err != nil {
		return err
	}
	return s.Operations.Ready(ctx)
}

// probe asks as a balancer does, more than a second after the last time.
func (a *app) probe(strict bool) string {
	a.t.Helper()
	time.Sleep(time.Second)
	w := httptest.NewRecorder()
	core.Readiness{Module: a.module, Strict: strict}.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	require.Equal(a.t, "no-store", w.Header().Get("Cache-Control"))
	return fmt.Sprintf("%d %s", w.Code, w.Body)
}

const isReady = "200 {\"status\":\"ready\",\"missing\":[]}\n"

// An instance gets traffic when its store is ready and Run is alive. Who asks learns words of a fixed list; the observer
// learns the error, once.
//
// CONTRACT F-8
func TestReady(t *testing.T) {
	inBubble(t, "the first time", func(t *testing.T) {
		st := newFaultStore(memstore.New())
		a := newApp(t, core.Config{Store: st}, created)
		require.Equal(t, "503 {\"status\":\"unready\",\"missing\":[\"run\"]}\n", a.probe(false), "nobody has called Run")
		stop := a.start()
		for word, err := range map[string]error{
			"schema": fmt.Errorf("secret: %w", store.ErrSchema), "selftest": fmt.Errorf("secret: %w", store.ErrUnfit),
			"store": errors.New("secret"),
		} {
			st.on("ready", func(context.Context) error { return err })
			told := len(a.of(core.EventFailed))
			for range 3 {
				require.Equal(t, "503 {\"status\":\"unready\",\"missing\":[\""+word+"\"]}\n", a.probe(false))
				require.ErrorIs(t, a.module.Ready(t.Context()), err)
			}
			failed := a.of(core.EventFailed)[told:]
			require.Len(t, failed, 1)
			require.ErrorContains(t, failed[0].Err, "secret")
		}
		st.on("ready", func(context.Context) error { panic("of a driver") })
		require.Contains(t, a.probe(false), `503`)
		st.on("ready", nil)
		require.Equal(t, isReady, a.probe(true))
		require.NoError(t, a.module.Ready(t.Context()))
		stop()
		require.Contains(t, a.probe(false), `503 {"status":"unready","missing":["run"]}`)
	})
	// The 503 of the library serves clients better than a balancer's.
	inBubble(t, "once it was ready", func(t *testing.T) {
		st := newFaultStore(memstore.New())
		a := newApp(t, core.Config{Store: st}, created)
		defer a.start()()
		require.Equal(t, isReady, a.probe(false))
		for _, away := range []func(context.Context) error{
			func(context.Context) error { return errAway },
			func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		} {
			st.on("ready", away)
			require.Equal(t, "200 {\"status\":\"degraded\",\"missing\":[\"store\"]}\n", a.probe(false))
			require.Equal(t, "503 {\"status\":\"unready\",\"missing\":[\"store\"]}\n", a.probe(true))
			unready, ok := errors.AsType[*core.Unready](a.module.Ready(t.Context()))
			require.True(t, ok)
			require.True(t, unready.Degraded)
		}
		st.on("ready", func(context.Context) error { return store.ErrNoWrites }) // another instance may have the primary
		require.Equal(t, "503 {\"status\":\"unready\",\"missing\":[\"store\"]}\n", a.probe(false))
		st.on("ready", nil)
		require.Equal(t, isReady, a.probe(false))
	})
	inBubble(t, "a loop of Run hangs", func(t *testing.T) {
		st, hung, over := newFaultStore(memstore.New()), make(chan struct{}), make(chan struct{})
		a := newApp(t, core.Config{Store: st}, created)
		defer a.start()()
		defer close(over)
		time.Sleep(3 * time.Hour)
		require.Equal(t, isReady, a.probe(false), "each round is in time")
		st.on("sweep", func(context.Context) error { hung <- struct{}{}; <-over; return nil })
		<-hung
		time.Sleep(50 * time.Second)
		require.Equal(t, isReady, a.probe(false), "it may take its time")
		time.Sleep(10 * time.Second)
		require.Equal(t, "503 {\"status\":\"unready\",\"missing\":[\"run\"]}\n", a.probe(false))
		over <- struct{}{}
		st.on("sweep", nil)
		require.Equal(t, isReady, a.probe(false))
	})
	hang := func(ctx context.Context) { <-ctx.Done(); time.Sleep(time.Hour) }
	eachInBubble(t, map[string]core.Config{
		"Reconcile": {Reconcile: func(ctx context.Context, _ core.Record) (*core.Decision, error) { hang(ctx); return nil, errAway }},
		"Resume":    {Resume: resumes(func(ctx context.Context, _ core.Record) (*core.Answer, error) { hang(ctx); return nil, errAway })},
	}, func(t *testing.T, cfg core.Config) { // a provider hangs
		a := failingApp(t, cfg, "k-1", "k-2", "k-3")
		stop := a.start()
		for range 20 {
			require.Equal(t, isReady, a.probe(false))
			time.Sleep(time.Minute)
		}
		stop()
		time.Sleep(2 * time.Hour)
	})
	inBubble(t, "100 probes at once", func(t *testing.T) {
		st := newFaultStore(memstore.New())
		asked := 0
		st.on("ready", func(context.Context) error { asked++; time.Sleep(100 * time.Millisecond); return nil })
		a := newApp(t, core.Config{Store: st}, created)
		defer a.start()()
		for second := range 3 {
			var all sync.WaitGroup
			for range 100 {
				all.Go(func() { require.NoError(t, a.module.Ready(t.Context())) })
			}
			all.Wait()
			require.NoError(t, a.module.Ready(t.Context()))
			require.Equal(t, second+1, asked)
			time.Sleep(time.Second)
		}
		st.on("ready", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, a.module.Ready(ctx), context.DeadlineExceeded, "who asks need not wait as long as the store")
		time.Sleep(time.Minute)
	})
	inBubble(t, "two modules", func(t *testing.T) {
		asked := 0
		hook := func(context.Context) error { asked++; return nil }
		st, other := newFaultStore(memstore.New()), newFaultStore(memstore.New())
		st.on("ready", hook)
		other.on("ready", hook)
		first, second, apart := newApp(t, core.Config{Store: st}, created), newApp(t, core.Config{Store: st}, created),
			newApp(t, core.Config{Store: other}, created)
		defer first.start()()
		defer apart.start()()
		for round := range 3 {
			time.Sleep(time.Second)
			require.NoError(t, first.module.Ready(t.Context()))
			require.ErrorContains(t, second.module.Ready(t.Context()), core.MissingRun, "each has its own Run")
			require.Equal(t, 2*round+1, asked, "one question to a store")
			require.NoError(t, apart.module.Ready(t.Context()))
			require.Equal(t, 2*round+2, asked, "another store is another question")
		}
		require.Len(t, second.of(core.EventFailed), 1)
	})
	inBubble(t, "a store that cannot be compared", func(t *testing.T) {
		a := newApp(t, core.Config{Store: incomparable{newFaultStore(memstore.New()), nil}}, created)
		defer a.start()()
		require.Equal(t, isReady, a.probe(false))
	})
}

// incomparable is no key of a map.
type incomparable struct {
	*faultStore
	_ []int
}
