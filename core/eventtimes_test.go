package core_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
)

// times are the durations of an event.
type times struct {
	kind                               core.EventKind
	claim, waiting, attempt, recording time.Duration
}

func timesOf(events []core.Event) (all []times) {
	for _, e := range events {
		all = append(all, times{e.Kind, e.Claim, e.Waiting, e.Attempt, e.Recording})
	}
	return all
}

// slowStore takes two seconds to claim, and one to record an end.
func slowStore() *faultStore {
	store := newFaultStore(memstore.New())
	for call, takes := range map[string]time.Duration{"claim": 2, "complete": 1, "park": 1, "release": 1} {
		store.on(call, func(context.Context) error { time.Sleep(takes * time.Second); return nil })
	}
	return store
}

const second = time.Second

// Events say how long claim and attempt took, each of them once.
func TestEventsSayHowLong(t *testing.T) {
	works := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(5 * second)
			if code == http.StatusTeapot {
				core.NotApplied(r.Context())
			}
			w.WriteHeader(code)
		}
	}
	claimed := times{kind: core.EventClaimed, claim: 2 * second}
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		want    []times
	}{
		"created": {works(201), []times{claimed, {core.EventCompleted, 0, 0, 6 * second, second},
			{core.EventReplayed, 2 * second, 0, 0, 0}}},
		"freed":   {works(http.StatusTeapot), []times{claimed, {core.EventFreed, 0, 0, 6 * second, second}, claimed, {core.EventFreed, 0, 0, 6 * second, second}}},
		"unknown": {works(502), []times{claimed, {core.EventUnknown, 0, 0, 6 * second, second}, {core.EventRefused, 2 * second, 0, 0, 0}}},
	} {
		inBubble(t, name, func(t *testing.T) {
			a := newApp(t, core.Config{Store: slowStore(), ClaimTimeout: 10 * second}, test.handler)
			a.post("k-1", `{}`)
			a.post("k-1", `{}`)
			require.Equal(t, test.want, timesOf(a.events))
		})
	}
}

// A repeat that waits says how long it waited, and how long its claims took, without each other.
//
// CONTRACT M-2
func TestEventsSayHowLongARepeatWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		a := newApp(t, core.Config{Store: slowStore(), ClaimTimeout: 10 * second,
			Policy: core.Policy{Recovery: core.Park, Wait: 10 * second}}, func(w http.ResponseWriter, r *http.Request) {
			<-release
			w.WriteHeader(http.StatusCreated)
		})
		go a.post("k-1", `{}`)
		synctest.Wait()
		time.Sleep(3 * second)
		begun := time.Now()
		go func() {
			time.Sleep(5 * second)
			close(release)
		}()
		require.Equal(t, "reused", a.post("k-1", `{}`).Header().Get(core.HeaderResult))
		took := time.Since(begun)
		for _, e := range a.events {
			if e.Kind == core.EventReplayed {
				require.Equal(t, took, e.Claim+e.Waiting)
				require.Positive(t, e.Waiting)
				require.Greater(t, e.Claim, 2*second, "the sum of several claims")
				require.Zero(t, e.Claim%(2*second))
			}
		}
		require.Contains(t, a.kinds(), core.EventReplayed)
	})
}

// Whatever a handler and a store do, one event says that the attempt has ended, and it says how long the attempt took.
func TestOneEventEndsAnAttempt(t *testing.T) {
	panics := func(http.ResponseWriter, *http.Request) { panic("a handler panics") }
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		broken  string
		want    core.EventKind
	}{
		"recorded":           {created, "", core.EventCompleted},
		"a failure":          {status(502), "", core.EventUnknown},
		"a panic":            {panics, "", core.EventUnknown},
		"parking fails":      {status(502), "park", core.EventUnknown},
		"cannot be recorded": {created, "complete", core.EventUnconfirmed},
		"less than was announced": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9")
			w.WriteHeader(200)
		}, "", core.EventUnknown},
	} {
		for _, recovery := range []core.Recovery{core.Park, core.Resume} {
			inBubble(t, name+" in "+recovery.String(), func(t *testing.T) {
				store := memstore.New()
				cfg := core.Config{Store: store, Policy: core.Policy{Recovery: recovery}}
				if recovery == core.Park {
					faults := newFaultStore(store).on(test.broken, away)
					cfg.Store = faults
				} else if test.broken != "" {
					t.Skip("the faults are those of Park")
				}
				a := newApp(t, cfg, sealed(test.handler))
				a.postRecovered("k-1", `{}`)
				ends := a.ends()
				for _, e := range a.events {
					require.Equal(t, e.Kind.EndsAttempt() && test.broken != "", e.Attempt > 0, e.Kind)
				}
				require.Len(t, ends, 1)
				if recovery == core.Resume && test.want == core.EventUnknown {
					test.want = core.EventYielded
				}
				require.Equal(t, test.want, ends[0].Kind)
			})
		}
	}
}
