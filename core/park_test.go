package core_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/store"
)

// What the client will see of such an error cannot be known, and so nothing about it can be taken for a proof.
//
// CONTRACT, M-4
func TestParkOfAnUnrenderedError(t *testing.T) {
	each(t, map[string]http.HandlerFunc{
		"alone": unrendered,
		"with a body that is not the answer": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "/1")
			_, _ = w.Write([]byte("half"))
			unrendered(w, r)
		},
		"not applied": func(w http.ResponseWriter, r *http.Request) {
			core.NotApplied(r.Context())
			unrendered(w, r)
		},
	}, func(t *testing.T, handler http.HandlerFunc) {
		a := newApp(t, core.Config{}, handler)
		first := a.post("k-1", `{}`)
		require.Equal(t, http.StatusInternalServerError, first.Code, "at least no success is told")
		require.Empty(t, first.Body.String())
		require.Equal(t, http.Header{"Idempotency-Key": {"k-1"}, "Idempotency-Result": {"unknown"}}, first.Header())
		require.Equal(t, http.StatusInternalServerError, a.of(core.EventUnknown)[0].Status)
		requireProblem(t, a.post("k-1", `{}`), http.StatusConflict, core.CodeOutcomeUnknown)
	})
}

// CONTRACT X-1, C-2
func TestParkOfAPanic(t *testing.T) {
	var seen context.Context
	a := newApp(t, core.Config{}, func(w http.ResponseWriter, r *http.Request) {
		seen = r.Context()
		core.NotApplied(r.Context())
		created(w, r)
		panic("boom")
	})
	w, panicked := a.serveOnce("k-1")
	require.Equal(t, "boom", panicked, "it goes on")
	require.Equal(t, http.Header{"Idempotency-Key": {"k-1"}, "Idempotency-Result": {"unknown"}}, w.Header(),
		"what the recovery middleware will send")
	require.Empty(t, w.Body.String())
	require.ErrorIs(t, seen.Err(), context.Canceled, "what the handler has left behind ends")
	require.Equal(t, []core.EventKind{core.EventClaimed, core.EventNotAppliedRefused, core.EventUnknown}, a.kinds())
}

// CONTRACT M-4, X-1, R-2, F-1
func TestEndsWhileTheStoreIsAway(t *testing.T) {
	inBubble(t, "the lease running out says the same, later", func(t *testing.T) {
		st := newFaultStore(memstore.New()).on("park", away)
		a := newApp(t, core.Config{Store: st}, status(502))
		w := a.post("k-1", `{}`)
		require.Equal(t, 502, w.Code)
		require.Equal(t, "unknown", w.Header().Get("Idempotency-Result"))
		require.Equal(t, []core.EventKind{core.EventClaimed, core.EventFailed, core.EventUnknown}, a.kinds())
		require.ErrorIs(t, a.of(core.EventFailed)[0].Err, errAway)
		requireProblem(t, a.post("k-1", `{}`), http.StatusConflict, core.CodeInFlight)
		time.Sleep(store.DefaultLease)
		requireProblem(t, a.post("k-1", `{}`), http.StatusConflict, core.CodeOutcomeUnknown)
	})
	inBubble(t, "release while the store is away", func(t *testing.T) {
		store := newFaultStore(memstore.New()).on("release", away)
		a := newApp(t, core.Config{Store: store}, notApplied(status(http.StatusPaymentRequired)))
		requireProblem(t, a.post("k-1", `{}`), http.StatusServiceUnavailable, core.CodeCommitUnconfirmed)
		require.Equal(t, []core.EventKind{core.EventClaimed, core.EventUnconfirmed, core.EventRefused}, a.kinds())
		require.ErrorIs(t, a.of(core.EventUnconfirmed)[0].Err, errAway)
	})
	// A handler that has ended needs no lease: while its answer is being recorded nothing is renewed, and nothing is lost.
	inBubble(t, "no renewal after the handler", func(t *testing.T) {
		store := newFaultStore(memstore.New())
		var renewals, tries list[time.Time]
		store.on("renew", func(context.Context) error { renewals.add(time.Now()); return errAway })
		begun := time.Now()
		store.on("complete", func(context.Context) error {
			if tries.add(time.Now()); time.Since(begun) < 8*time.Second {
				return errAway
			}
			return nil
		})
		a := newApp(t, core.Config{Store: store, Policy: core.Policy{Recovery: core.Park, Lease: 3 * time.Second}}, created)
		require.Equal(t, "created", a.post("k-1", `{}`).Header().Get("Idempotency-Result"))
		require.Empty(t, renewals.all())
		require.NotContains(t, a.kinds(), core.EventLeaseLost)
		require.Greater(t, len(tries.all()), 8, "it is tried every second at least")
		require.Less(t, len(tries.all()), 20, "and does not run in circles")
	})
}

// CONTRACT R-2
func TestConfirmationIsBounded(t *testing.T) {
	eachInBubble(t, map[string]func(ctx context.Context) error{
		"store away":  away,
		"store hangs": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	}, func(t *testing.T, hook func(ctx context.Context) error) {
		store := newFaultStore(memstore.New()).on("complete", hook)
		a := newApp(t, core.Config{Store: store}, created)
		begun := time.Now()
		requireProblem(t, a.post("k-1", `{}`), http.StatusServiceUnavailable, core.CodeCommitUnconfirmed)
		require.InDelta(t, 10, time.Since(begun).Seconds(), 1.01)
	})
}

// A store that has answered is not asked again: its client would wait for ten seconds, and the answer would be the same.
//
// CONTRACT
func TestAnAnswerOfTheStoreIsFinal(t *testing.T) {
	for name, test := range map[string]struct {
		answer error
		again  bool
	}{
		"taken over":             {core.ErrStale, false},
		"the record is gone":     {core.ErrNotFound, false},
		"ended by its handler":   {store.ErrEnded, false},
		"wrapped":                {fmt.Errorf("complete: %w", core.ErrStale), false},
		"the store is not there": {errAway, true},
	} {
		inBubble(t, name, func(t *testing.T) {
			store, asked := newFaultStore(memstore.New()), 0
			store.on("complete", func(context.Context) error { asked++; return test.answer })
			newApp(t, core.Config{Store: store}, created).post("k-1", `{}`)
			require.Equal(t, test.again, asked > 1, "asked %d times", asked)
		})
	}
}

// relays answers with the problem of another service.
func relays(code int, problem core.Code) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		reply := core.NewProblem(problem, "from another service").Reply()
		reply.Status = code
		_ = reply.WriteTo(w)
	}
}

// failed declares that the attempt has failed, whatever next answers.
func failed(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { core.Failed(r.Context()); next(w, r) }
}

// Another service that is not ready says nothing about the command. Its problem is known by media type, type and code.
//
// CONTRACT R-9
func TestRelayedProblems(t *testing.T) {
	problem := func(kind, code string) string { return `{"type":"` + kind + `","status":409,"code":"` + code + `"}` }
	for name, test := range map[string]struct {
		media, body string
		recorded    bool
	}{
		"in_flight":          {"application/problem+json", problem("tag:auth19.dev,2026:idem/in_flight", "in_flight"), false},
		"outcome_unknown":    {"application/problem+json", problem("tag:auth19.dev,2026:idem/outcome_unknown", "outcome_unknown"), false},
		"store_unavailable":  {"application/problem+json", problem("tag:auth19.dev,2026:idem/store_unavailable", "store_unavailable"), false},
		"commit_unconfirmed": {"application/problem+json", problem("tag:auth19.dev,2026:idem/commit_unconfirmed", "commit_unconfirmed"), false},
		"rolled_back":        {"application/problem+json", problem("tag:auth19.dev,2026:idem/rolled_back", "rolled_back"), false},
		"with a charset":     {"application/problem+json; charset=utf-8", problem("tag:auth19.dev,2026:idem/in_flight", "in_flight"), false},
		"an own base":        {"application/problem+json", problem("https://shop.example/problems#in_flight", "in_flight"), false},
		"another code":       {"application/problem+json", problem("tag:auth19.dev,2026:idem/key_reused", "key_reused"), true},
		"the type alone":     {"application/problem+json", `{"type":"tag:auth19.dev,2026:idem/in_flight"}`, true},
		"the code alone":     {"application/problem+json", `{"code":"in_flight"}`, true},
		"a type of an app":   {"application/problem+json", problem("https://shop.example/problems/busy", "in_flight"), true},
		"a base alone":       {"application/problem+json", problem("https://shop.example/problems/", "in_flight"), true},
		"plain JSON":         {"application/json", problem("tag:auth19.dev,2026:idem/in_flight", "in_flight"), true},
		"no JSON":            {"application/problem+json", `in_flight`, true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, recovery := range []core.Recovery{core.Park, core.Resume} {
				for _, streaming := range []bool{false, true} {
					a := newApp(t, core.Config{Routes: core.Routes{"POST " + pattern: {Recovery: recovery, Streaming: streaming}}},
						func(w http.ResponseWriter, _ *http.Request) {
							w.Header().Set("Content-Type", test.media)
							w.WriteHeader(http.StatusConflict)
							_, _ = io.WriteString(w, test.body)
							_ = http.NewResponseController(w).Flush()
						})
					first, _ := a.serveOnce("k-1")
					require.Equal(t, http.StatusConflict, first.Code)
					require.Equal(t, test.body, first.Body.String(), "it passes through")
					require.Equal(t, test.recorded, a.of(core.EventCompleted) != nil)
				}
			}
		})
	}
}

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
