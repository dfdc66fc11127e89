package core_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/internal/attemptctx"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/core/wire"
	"github.com/auth19/idem/internal/mustrun"
)

// CONTRACT M-2
func TestRepeatsOfARunningAttempt(t *testing.T) {
	t.Run("repeat while running is in flight", func(t *testing.T) {
		entered, leave := make(chan struct{}), make(chan struct{})
		a := newApp(t, core.Config{}, func(w http.ResponseWriter, r *http.Request) {
			close(entered)
			<-leave
			created(w, r)
		})
		var wg sync.WaitGroup
		wg.Go(func() { a.post("k-1", `{}`) })
		<-entered
		w := a.post("k-1", `{}`)
		requireProblem(t, w, http.StatusConflict, core.CodeInFlight)
		require.Equal(t, "2", w.Header().Get("Retry-After"))
		requireProblem(t, a.post("k-1", `{"other":1}`), http.StatusConflict, core.CodeKeyReused) // command first, then state
		close(leave)
		wg.Wait()
		require.Equal(t, 1, a.ran())
	})
	inBubble(t, "repeats may wait for the running attempt", func(t *testing.T) {
		a := newApp(t, core.Config{Policy: core.Policy{Recovery: core.Park, Wait: 10 * time.Second}, MaxWaiters: 3},
			func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(4 * time.Second)
				created(w, r)
			})
		for round, key := range []string{"k-1", "k-2"} { // those beyond the cap leave no trace
			var wg sync.WaitGroup
			wg.Go(func() { a.post(key, `{}`) })
			synctest.Wait()
			results := make(chan string, 5)
			for range 5 {
				wg.Go(func() { results <- a.post(key, `{}`).Header().Get("Idempotency-Result") })
			}
			wg.Wait()
			close(results)
			count := map[string]int{}
			for result := range results {
				count[result]++
			}
			require.Equal(t, map[string]int{"reused": 3, "": 2}, count, "three waited, two were beyond the cap")
			require.Equal(t, round+1, a.ran())
		}
	})
	inBubble(t, "waiting is bounded", func(t *testing.T) {
		leave := make(chan struct{})
		a := newApp(t, core.Config{Policy: core.Policy{Recovery: core.Park, Wait: 3 * time.Second}},
			func(w http.ResponseWriter, r *http.Request) { <-leave; created(w, r) })
		var wg sync.WaitGroup
		wg.Go(func() { a.post("k-1", `{}`) })
		synctest.Wait()
		begun := time.Now()
		requireProblem(t, a.post("k-1", `{}`), http.StatusConflict, core.CodeInFlight)
		require.InDelta(t, 3, time.Since(begun).Seconds(), 0.5)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // the waiting client hangs up
		defer cancel()
		begun = time.Now()
		requireProblem(t, a.post("k-1", `{}`, withContext(ctx)), http.StatusConflict, core.CodeInFlight)
		require.InDelta(t, 1, time.Since(begun).Seconds(), 0.1)
		close(leave)
		wg.Wait()
	})
}

func withContext(ctx context.Context) func(*http.Request) {
	return func(r *http.Request) { *r = *r.WithContext(ctx) }
}

// CONTRACT X-1, M-4, R-6, R-9, R-10
func TestParkEndings(t *testing.T) {
	panics := func(http.ResponseWriter, *http.Request) { panic("boom") }
	notApplied := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { core.NotApplied(r.Context()); w.WriteHeader(code) }
	}
	derives := func(next http.HandlerFunc) http.HandlerFunc { // a call outside of core.Call proves nothing of its outcome
		return func(w http.ResponseWriter, r *http.Request) {
			_, err := core.DeriveCall(r.Context(), "charge")
			require.NoError(t, err)
			next(w, r)
		}
	}
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		first   int    // status of the first answer, 0: it panics
		result  string // Idempotency-Result of the first answer
		repeat  string // "replay", "runs" or the code of a problem
	}{
		"2xx":                           {status(200), 200, "created", "replay"},
		"3xx":                           {status(303), 303, "created", "replay"},
		"402":                           {status(402), 402, "created", "replay"},
		"401 without proof":             {status(401), 401, "created", "replay"},
		"403 without proof":             {status(403), 403, "created", "replay"},
		"429 without proof":             {status(429), 429, "created", "replay"},
		"400 without proof":             {status(400), 400, "created", "replay"},
		"500":                           {status(500), 500, "unknown", "outcome_unknown"},
		"503":                           {status(503), 503, "unknown", "outcome_unknown"},
		"panic":                         {panics, 0, "unknown", "outcome_unknown"},
		"503 not applied":               {notApplied(503), 503, "", "runs"},
		"402 not applied":               {notApplied(402), 402, "not_applied", "runs"},
		"402 not applied, after a call": {derives(notApplied(402)), 402, "not_applied", "runs"},
		"200 not applied does not hold": {notApplied(200), 200, "created", "replay"},
		"nothing written":               {func(http.ResponseWriter, *http.Request) {}, 200, "created", "replay"},
		"200 failed":                    {failed(status(200)), 200, "unknown", "outcome_unknown"},
		"402 failed":                    {failed(status(402)), 402, "unknown", "outcome_unknown"},
		"200 failed, not applied":       {failed(notApplied(200)), 200, "not_applied", "runs"},
		"relayed 409":                   {relays(409, "in_flight"), 409, "unknown", "outcome_unknown"},
		"relayed 503 as 402":            {relays(402, "store_unavailable"), 402, "unknown", "outcome_unknown"},
		"relayed, as a success":         {relays(200, "commit_unconfirmed"), 409, "unknown", "outcome_unknown"},
		"relayed, but final":            {relays(409, "key_reused"), 409, "created", "replay"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newApp(t, core.Config{}, test.handler)
			first := httptest.NewRecorder()
			func() {
				defer func() { _ = recover() }()
				r := newCommand("k-1", `{}`)
				a.serve(first, r, alice)
			}()
			if test.first != 0 {
				require.Equal(t, test.first, first.Code)
			}
			require.Equal(t, test.result, first.Header().Get("Idempotency-Result"))
			want := []core.EventKind{core.EventClaimed}
			if test.repeat == "replay" && strings.Contains(name, "not applied") {
				want = append(want, core.EventNotAppliedRefused)
			}
			switch test.repeat {
			case "replay":
				want = append(want, core.EventCompleted)
			case "runs":
				want = append(want, core.EventFreed)
			default:
				want = append(want, core.EventUnknown)
			}
			require.Equal(t, want, slices.DeleteFunc(a.kinds(), func(k core.EventKind) bool { return k == core.EventRefused }))
			for _, e := range a.events[1:] {
				require.True(t, test.first == 0 || e.Kind == core.EventRefused || e.Status == first.Code || name == "relayed, as a success", e)
			}
			a.handler = status(http.StatusTeapot)
			second := a.post("k-1", `{}`, func(r *http.Request) { r.Header.Del("Content-Type") })
			switch test.repeat {
			case "replay":
				require.Equal(t, test.first, second.Code)
				require.Equal(t, "reused", second.Header().Get("Idempotency-Result"))
			case "runs":
				require.Equal(t, http.StatusTeapot, second.Code)
			default:
				requireProblem(t, second, http.StatusConflict, core.Code(test.repeat))
				require.Empty(t, second.Header().Get("Retry-After"))
				require.Contains(t, second.Body.String(), `"safe_new_key":false`)
				require.Contains(t, second.Body.String(), `"operation":"`+core.Scoping{}.RecordID(alice, "k-1").String())
			}
		})
	}
}

// CONTRACT
func TestHandlerContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type valueKey struct{}
		parent, hangUp := context.WithCancel(context.WithValue(t.Context(), valueKey{}, "kept"))
		a := newApp(t, core.Config{Policy: core.Policy{Recovery: core.Park, Deadline: 20 * time.Second}},
			func(w http.ResponseWriter, r *http.Request) {
				hangUp()
				synctest.Wait()
				require.NoError(t, r.Context().Err(), "the client's cancellation is dropped")
				require.Equal(t, "kept", r.Context().Value(valueKey{}))
				deadline, ok := r.Context().Deadline()
				require.True(t, ok)
				require.Equal(t, 20*time.Second, time.Until(deadline))
				<-r.Context().Done()
				require.ErrorIs(t, context.Cause(r.Context()), context.DeadlineExceeded)
				created(w, r)
			})
		a.post("k-1", `{}`, withContext(parent))
		require.Equal(t, "reused", a.post("k-1", `{}`).Header().Get("Idempotency-Result"),
			"an owner that ends after its deadline may still complete (X-2)")

		earlier, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		later, cancelLater := context.WithTimeout(t.Context(), time.Hour)
		defer cancelLater()
		for key, test := range map[string]struct {
			request context.Context
			want    time.Duration
		}{"earlier": {earlier, 5 * time.Second}, "later": {later, 20 * time.Second}} {
			looked := mustrun.New(t)
			a.handler = func(_ http.ResponseWriter, r *http.Request) {
				deadline, _ := r.Context().Deadline()
				require.Equal(t, test.want, time.Until(deadline), "of two deadlines the earlier one holds")
				looked()
			}
			a.post(key, `{}`, withContext(test.request))
		}
	})
}

// A claim that failed has not been made, or is taken back: nothing stands in the way of the repeat.
//
// CONTRACT F-1, R-2
func TestClaimThatFails(t *testing.T) {
	crowded := func(context.Context) error { return fmt.Errorf("%w: no connection", store.ErrCrowded) }
	for name, test := range map[string]struct {
		call string
		hook func(context.Context) error
	}{
		"the store is away":  {"claim", away},
		"there is no room":   {"claim", crowded},
		"its answer is lost": {"after claim", away},
	} {
		inBubble(t, name, func(t *testing.T) {
			st := newFaultStore(memstore.New()).on(test.call, test.hook)
			if name == "there is no room" {
				st.on("release", func(context.Context) error { panic("there is nothing to release") })
			}
			a := newApp(t, core.Config{Store: st}, created)
			w := a.post("k-1", `{}`)
			requireProblem(t, w, http.StatusServiceUnavailable, core.CodeStoreUnavailable)
			require.Equal(t, "2", w.Header().Get("Retry-After"))
			require.NotContains(t, w.Body.String(), `"operation"`, "there is none")
			require.Zero(t, a.ran())
			st.on(test.call, nil)
			synctest.Wait() // nobody else waits until it is taken back
			requireCreated(t, a.post("k-1", `{}`), "created")
		})
	}
}

// CONTRACT R-2
func TestAnswerLeavesOnlyOnceItIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaultStore(memstore.New()).on("complete", away)
		a := newApp(t, core.Config{Store: store}, created)
		w := a.post("k-1", `{}`)
		requireProblem(t, w, http.StatusServiceUnavailable, core.CodeCommitUnconfirmed)
		require.Equal(t, "unknown", w.Header().Get("Idempotency-Result"))
		require.Equal(t, "2", w.Header().Get("Retry-After"))
		require.Contains(t, w.Body.String(), core.Scoping{}.RecordID(alice, "k-1").String())
		require.Empty(t, w.Header().Get("Location"), "nothing of the answer leaves")
		time.Sleep(time.Minute) // the lease runs out
		requireProblem(t, a.post("k-1", `{}`), http.StatusConflict, core.CodeOutcomeUnknown)
		require.Equal(t, 1, a.ran())
	})
}

// CONTRACT R-2
func TestRecordingIsTriedAgain(t *testing.T) {
	for _, when := range []string{"complete", "after complete"} {
		inBubble(t, when, func(t *testing.T) {
			store := newFaultStore(memstore.New())
			tries := store.failFirst(when, 3)
			requireCreated(t, newApp(t, core.Config{Store: store}, created).post("k-1", `{}`), "created")
			require.Equal(t, 4, *tries)
		})
	}
}

// CONTRACT O-4, O-2
func TestGuardsThatAreMountedWrongly(t *testing.T) {
	t.Run("guarded twice", func(t *testing.T) {
		a := newApp(t, core.Config{}, nil)
		for key, again := range map[string]func(r *http.Request) *core.Reply{
			"k-1": func(r *http.Request) *core.Reply { _, reply := a.module.Admit(r, pattern, alice); return reply },
			"k-2": func(r *http.Request) *core.Reply { _, reply := a.module.Begin(r, pattern, alice); return reply },
		} {
			a.handler = func(w http.ResponseWriter, r *http.Request) { _ = again(r).WriteTo(w) }
			requireProblem(t, a.post(key, `{}`), http.StatusInternalServerError, core.CodeMisconfigured)
		}
	})
	t.Run("interceptor without principal or guard", func(t *testing.T) {
		a := newApp(t, core.Config{}, created)
		r := newCommand("k-1", "")
		_, reply := a.module.Begin(r, pattern, core.Principal{})
		require.Equal(t, http.StatusUnauthorized, reply.Status)
		require.Equal(t, []string{"Bearer"}, reply.Header["Www-Authenticate"])
		_, reply = a.module.Begin(r, pattern, alice)
		require.Equal(t, http.StatusInternalServerError, reply.Status)

		one := core.Principal{Issuer: "i", Tenant: "t", Client: "c", Subject: "s", Roles: alice.Roles}
		for name, other := range map[string]core.Principal{
			"issuer":  {Issuer: "j", Tenant: "t", Client: "c", Subject: "s"},
			"tenant":  {Issuer: "i", Tenant: "u", Client: "c", Subject: "s"},
			"client":  {Issuer: "i", Tenant: "t", Client: "d", Subject: "s"},
			"subject": {Issuer: "i", Tenant: "t", Client: "c", Subject: "mallory"},
		} {
			admitted, reply := a.module.Admit(r, pattern, one)
			require.Nil(t, reply)
			attempt, reply := a.module.Begin(admitted, pattern, other)
			require.Nil(t, attempt, "admitted as one, run as another: %s", name)
			require.Equal(t, http.StatusInternalServerError, reply.Status, name)
		}
	})
}

// What an attempt has called before it was rolled back is not to be seen, so every Rollback attempt may be a second one.
//
// CONTRACT C-5
func TestAttemptsThatMayHaveCalledBefore(t *testing.T) {
	var again []bool
	asks := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			again = append(again, attemptctx.CallsFrom(r.Context()).Again)
			w.WriteHeader(code)
		}
	}
	newRowsApp(t, core.Config{}, asks(http.StatusCreated)).post("k-1", `{}`)
	require.Equal(t, []bool{true}, again)
	again = nil
	a := newFlowApp(t, nil, nil)
	a.handler = asks(http.StatusBadGateway)
	a.post("k-1", `{}`)
	a.post("k-1", `{}`)
	require.Equal(t, []bool{true, true}, again, "nobody sees an attempt that has not committed")
}

// The contexts of a request have no timer until somebody waits for their end: handler and store may ask them for all else.
func TestNoContextHasATimerUntilSomebodyWaits(t *testing.T) {
	asks := func(ctx context.Context) error {
		require.NoError(t, ctx.Err())
		ctx.Value("a key that is not there")
		ctx.Deadline()
		return nil
	}
	waits := func(ctx context.Context) error {
		ctx.Done()
		return nil
	}
	for name, tt := range map[string]struct {
		claim, handler, completion func(ctx context.Context) error
		want                       []string
	}{
		"nobody":         {asks, asks, asks, nil},
		"the claim":      {waits, asks, asks, []string{"claim"}},
		"the handler":    {asks, waits, asks, []string{"handler"}},
		"the completion": {asks, asks, waits, []string{"completion"}},
	} {
		t.Run(name, func(t *testing.T) {
			store := newFaultStore(memstore.New()).on("claim", tt.claim)
			store.on("complete", tt.completion)
			var ctx context.Context
			a := newApp(t, core.Config{Store: store}, func(w http.ResponseWriter, r *http.Request) {
				ctx = r.Context()
				require.NoError(t, tt.handler(ctx))
				_, within := core.Operation(ctx)
				require.True(t, within)
				created(w, r)
			})
			require.Equal(t, wire.ResultCreated, a.post("k-1", `{}`).Header().Get(wire.HeaderResult))
			require.Equal(t, tt.want, core.WaitedFor(ctx))
		})
	}
}
