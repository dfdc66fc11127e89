package core_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/store"
)

// failingApp has an unknown operation for each key, or a lost one where Config.Resume is set.
func failingApp(t *testing.T, cfg core.Config, keys ...string) *app {
	t.Helper()
	cfg.Routes = core.Routes{"POST /v1/payments": {Recovery: core.Park}}
	if cfg.Resume != nil {
		cfg.Routes = core.Routes{"POST /v1/payments": {Recovery: core.Resume}}
	}
	a := newApp(t, cfg, sealed(status(http.StatusBadGateway)))
	for _, key := range keys {
		a.post(key, `{}`)
	}
	time.Sleep(store.DefaultDeadline)
	return a
}

// CONTRACT X-13
func TestPanicsInRun(t *testing.T) {
	eachInBubble(t, map[string]core.Config{
		"Reconcile": {Reconcile: func(context.Context, core.Record) (*core.Decision, error) { panic("boom") }},
		"Resume":    {Resume: resumes(func(context.Context, core.Record) (*core.Answer, error) { panic("boom") })},
	}, func(t *testing.T, cfg core.Config) {
		a := failingApp(t, cfg, "k-1", "k-2")
		stop := a.start()
		stop()
		failed := a.of(core.EventFailed)
		require.Len(t, failed, 2, "the one does not keep the other waiting")
		for _, e := range failed {
			require.ErrorContains(t, e.Err, "panic: boom")
		}
	})
	inBubble(t, "the store", func(t *testing.T) {
		store := newFaultStore(memstore.New()).on("sweep", func(context.Context) error { panic("of a driver") })
		a := newApp(t, core.Config{Store: store}, created)
		a.runFor(5 * core.DefaultSweepEvery)
		require.GreaterOrEqual(t, len(a.of(core.EventFailed)), 4, "it sweeps again and again")
	})
}

// An app's function hangs in one operation, and heeds no context: that operation waits for it, and nothing else does.
//
// CONTRACT X-13
func TestHangsInRun(t *testing.T) {
	for _, name := range []string{"Reconcile", "Resume"} {
		inBubble(t, name, func(t *testing.T) {
			hung, wake := core.Scoping{}.RecordID(alice, "k-1"), make(chan struct{})
			var at list[core.ID]
			work := func(r core.Record) error {
				if at.add(r.ID); r.ID == hung {
					<-wake
				}
				return errors.New("not yet")
			}
			cfg := core.Config{Reconcile: func(_ context.Context, r core.Record) (*core.Decision, error) { return nil, work(r) }}
			if name == "Resume" {
				cfg = core.Config{Resume: resumes(func(_ context.Context, r core.Record) (*core.Answer, error) { return nil, work(r) })}
			}
			a := failingApp(t, cfg, "k-1", "k-2")
			stop := a.start()
			time.Sleep(10 * time.Minute)
			times := countOf(&at)
			require.Equal(t, 1, times[hung], "it is left alone")
			require.Greater(t, times[core.Scoping{}.RecordID(alice, "k-2")], 1)
			var hangs int
			for _, e := range a.of(core.EventFailed) {
				if e.Err != nil && strings.Contains(e.Err.Error(), "has not returned") {
					require.ErrorContains(t, e.Err, hung.String())
					hangs++
				}
			}
			require.Equal(t, 1, hangs)

			begun := time.Now()
			stop()
			require.LessOrEqual(t, time.Since(begun), 2*store.DefaultDeadline, "Run does not wait for it")
			close(wake)
			synctest.Wait()
			a.runFor(time.Hour)
			times = countOf(&at)
			require.Greater(t, times[hung], 1, "it has returned, and is asked again")
		})
	}
}

// CONTRACT X-13
func TestDeadlinesInRun(t *testing.T) {
	inBubble(t, "reconcile has a deadline", func(t *testing.T) {
		var causes list[error]
		a := failingApp(t, core.Config{Reconcile: func(ctx context.Context, _ core.Record) (*core.Decision, error) {
			<-ctx.Done()
			causes.add(context.Cause(ctx))
			return &core.Decision{Who: "reconciler", Why: "too late"}, nil
		}}, "k-1")
		a.runFor(store.DefaultDeadline + time.Second)
		require.ErrorIs(t, causes.all()[0], context.DeadlineExceeded)
		require.Empty(t, a.of(core.EventSettled))
	})
	inBubble(t, "duties of Run do not wait for each other", func(t *testing.T) {
		var asked list[core.ID]
		store := newFaultStore(memstore.New())
		a := failingApp(t, core.Config{Store: store, Reconcile: func(_ context.Context, r core.Record) (*core.Decision, error) {
			asked.add(r.ID)
			return nil, nil
		}}, "k-1")
		store.on("sweep", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		stop := a.start()
		time.Sleep(5 * time.Minute)
		require.Greater(t, len(asked.all()), 3, "one long sweep")
		stop()
	})
}

// CONTRACT X-13
func TestPanicsOfTheAppInARequest(t *testing.T) {
	boom := func() { panic("boom") }
	t.Run("Observer", func(t *testing.T) {
		module := newModule(t, core.Config{
			Store: memstore.New(), Policy: core.Policy{Recovery: core.Park},
			Observer: core.ObserverFunc(func(context.Context, core.Event) { boom() }),
		})
		a := &app{t: t, module: module, handler: created, pattern: pattern}
		require.Equal(t, "created", a.post("k-1", `{}`).Header().Get("Idempotency-Result"))
		require.Equal(t, "reused", a.post("k-1", `{}`).Header().Get("Idempotency-Result"))
	})
	t.Run("Review", func(t *testing.T) {
		a := newApp(t, core.Config{Routes: core.Routes{"POST /v1/payments": {
			Recovery: core.Park, Review: func(context.Context, core.Principal, core.Record) error { boom(); return nil },
		}}}, created)
		a.post("k-1", `{}`)
		requireProblem(t, a.post("k-1", `{}`), http.StatusForbidden, core.CodeForbidden)
	})
	t.Run("RenderProblem", func(t *testing.T) {
		a := newApp(t, core.Config{Policy: core.Policy{Recovery: core.Park},
			RenderProblem: func(*http.Request, *core.Problem) *core.Reply { boom(); return nil }}, status(http.StatusBadGateway))
		a.post("k-1", `{}`)
		w := a.post("k-1", `{}`)
		requireProblem(t, w, http.StatusConflict, core.CodeOutcomeUnknown)
		require.Equal(t, "unknown", w.Header().Get("Idempotency-Result"))
	})
}
