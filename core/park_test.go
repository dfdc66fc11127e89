package core_test

import (
	"context"
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
	for name, handler := range map[string]http.HandlerFunc{
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
	} {
		t.Run(name, func(t *testing.T) {
			a := newApp(t, core.Config{}, handler)
			first := a.post("k-1", `{}`)
			require.Equal(t, http.StatusInternalServerError, first.Code, "at least no success is told")
			require.Empty(t, first.Body.String())
			require.Equal(t, http.Header{"Idempotency-Key": {"k-1"}, "Idempotency-Result": {"unknown"}}, first.Header())
			require.Equal(t, http.StatusInternalServerError, a.of(core.EventUnknown)[0].Status)
			requireProblem(t, a.post("k-1", `{}`), http.StatusConflict, core.CodeOutcomeUnknown)
		})
	}
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

// CONTRACT
func TestEventsOfParkEndings(t *testing.T) {
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		want    []core.EventKind // after claimed, each with the status of the answer
	}{
		"recorded":          {status(402), []core.EventKind{core.EventCompleted}},
		"freed":             {notApplied(status(402)), []core.EventKind{core.EventFreed}},
		"unknown":           {status(502), []core.EventKind{core.EventUnknown}},
		"done, undeclared":  {status(201), []core.EventKind{core.EventCompleted}},
		"done, but so said": {notApplied(status(303)), []core.EventKind{core.EventNotAppliedRefused, core.EventCompleted}},
	} {
		t.Run(name, func(t *testing.T) {
			a := newApp(t, core.Config{}, test.handler)
			w := a.post("k-1", `{}`)
			require.Equal(t, append([]core.EventKind{core.EventClaimed}, test.want...), a.kinds())
			for _, e := range a.events[1:] {
				require.Equal(t, w.Code, e.Status)
			}
		})
	}
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
	for name, hook := range map[string]func(ctx context.Context) error{
		"store away":  away,
		"store hangs": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		inBubble(t, name, func(t *testing.T) {
			store := newFaultStore(memstore.New()).on("complete", hook)
			a := newApp(t, core.Config{Store: store}, created)
			begun := time.Now()
			requireProblem(t, a.post("k-1", `{}`), http.StatusServiceUnavailable, core.CodeCommitUnconfirmed)
			require.InDelta(t, 10, time.Since(begun).Seconds(), 1.01)
		})
	}
}
