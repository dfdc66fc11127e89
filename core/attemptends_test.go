package core_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/store"
)

// A record keeps how its attempts have ended: the first one and the last 15, by which instance, and no text of the handler's.
//
// CONTRACT X-10
func TestHowAttemptsEnded(t *testing.T) {
	inBubble(t, "Resume", func(t *testing.T) {
		st, claimed := memstore.New(), core.Record{}
		a := newApp(t, core.Config{Store: st, Policy: core.Policy{Recovery: core.Resume, MaxAttempts: 30}}, nil)
		try := func(handler http.HandlerFunc) {
			a.handler = sealed(handler)
			time.Sleep(store.MaxPause + 2*time.Minute)
			a.postRecovered("k-1", `{}`)
			claimed = find(t, st, "k-1")
		}
		began := time.Now()
		try(status(http.StatusBadGateway))
		first := claimed.AttemptEnds()
		require.Len(t, first, 1)
		require.Equal(t, store.AttemptEnd{Fence: 1, At: first[0].At, How: store.EndAnswered, Status: http.StatusBadGateway,
			Instance: a.module.Instance()}, first[0])
		require.WithinDuration(t, began.Add(store.MaxPause+2*time.Minute), first[0].At, time.Second)
		try(func(http.ResponseWriter, *http.Request) { panic("the handler's text") })
		try(func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			w.WriteHeader(http.StatusGatewayTimeout)
		})
		require.True(t, time.Now().Truncate(time.Microsecond).Equal(claimed.AttemptEnds()[2].At), "not when it began")
		a.handler = sealed(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = core.Call(r.Context(), "charge", func(context.Context, core.DerivedKey) (int, error) {
				return 0, http.ErrHandlerTimeout
			}, core.Dedup(24*time.Hour))
		})
		time.Sleep(store.MaxPause + 2*time.Minute)
		requireProblem(t, a.post("k-1", `{}`), http.StatusInternalServerError, core.CodeCallUnfinished)
		time.Sleep(store.MaxPause)
		another := newModule(t, core.Config{Store: st, Policy: core.Policy{Recovery: core.Resume, MaxAttempts: 30}})
		require.NotEqual(t, a.module.Instance(), another.Instance())
		command := newCommand("k-1", `{}`)
		command.Header.Set("Content-Type", "application/json")
		r, reply := another.Admit(command, pattern, alice)
		require.Nil(t, reply)
		dead, reply := another.Begin(r, pattern, alice) // and its process dies
		require.Nil(t, reply)
		require.NotNil(t, dead)
		lease := find(t, st, "k-1").Deadline.Truncate(time.Microsecond) // it renews until then
		try(status(http.StatusBadGateway))
		hows := []store.AttemptHow{}
		for _, e := range claimed.AttemptEnds() {
			hows = append(hows, e.How)
		}
		require.Equal(t, []store.AttemptHow{store.EndAnswered, store.EndPanic, store.EndDeadline, store.EndAnswered, store.EndGone,
			store.EndAnswered}, hows)
		ends := claimed.AttemptEnds()
		require.Equal(t, "answered 200, call_unfinished", ends[3].String())
		require.Equal(t, store.AttemptEnd{Fence: 5, At: ends[4].At, How: store.EndGone, Instance: another.Instance()}, ends[4])
		require.True(t, lease.Equal(ends[4].At))
		require.NotContains(t, string(claimed.Ends), "text")

		for range 14 {
			try(status(http.StatusServiceUnavailable))
		}
		ends = claimed.AttemptEnds()
		require.Len(t, ends, 16, "the first one, and the last 15")
		require.Equal(t, []int64{1, 6, 20}, []int64{ends[0].Fence, ends[1].Fence, ends[15].Fence})
		require.Less(t, len(claimed.Ends), 512)
		try(func(w http.ResponseWriter, r *http.Request) {
			_, err := core.Call(r.Context(), "charge", func(context.Context, core.DerivedKey) (int, error) { return 1, nil },
				core.Dedup(24*time.Hour))
			require.NoError(t, err)
			w.WriteHeader(http.StatusCreated)
		})
		require.Equal(t, store.Completed, claimed.State())
		require.Len(t, claimed.AttemptEnds(), 16, "how it was answered, the record says")
	})
	inBubble(t, "the last one", func(t *testing.T) {
		st := memstore.New()
		a := newApp(t, core.Config{Store: st, Policy: core.Policy{Recovery: core.Resume, MaxAttempts: 2}}, nil)
		a.handler = sealed(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = core.Call(r.Context(), "charge", func(context.Context, core.DerivedKey) (int, error) {
				return 0, http.ErrHandlerTimeout
			}, core.Dedup(24*time.Hour))
		})
		for range 2 {
			a.postRecovered("k-1", `{}`)
			time.Sleep(store.MaxPause)
		}
		ends := find(t, st, "k-1").AttemptEnds()
		require.Len(t, ends, 2)
		require.Equal(t, "answered 200, call_unfinished", ends[1].String(), "also of the attempt that was parked")
	})
	inBubble(t, "one too many", func(t *testing.T) {
		a, st := lostLastApp(t)
		a.post("k-1", `{}`)
		ends := find(t, st, "k-1").AttemptEnds()
		require.Len(t, ends, 2)
		require.Equal(t, []any{"process gone", "not run any more"}, []any{ends[0].String(), ends[1].String()})
	})
	inBubble(t, "Park", func(t *testing.T) {
		st := memstore.New()
		a := newApp(t, core.Config{Store: st}, created)
		a.post("k-1", `{}`)
		rec := find(t, st, "k-1")
		require.Nil(t, rec.Ends, "a first attempt that succeeds writes nothing of this")
		a.handler = status(http.StatusInternalServerError)
		a.post("k-2", `{}`)
		rec = find(t, st, "k-2")
		require.Equal(t, store.Unknown, rec.State())
		ends := rec.AttemptEnds()
		require.Len(t, ends, 1)
		require.Equal(t, []any{store.EndAnswered, 500}, []any{ends[0].How, ends[0].Status})
		a.handler = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "7")
			_, _ = io.WriteString(w, "less")
		}
		a.post("k-3", `{}`)
		require.Equal(t, "answered 500, answer_incomplete", find(t, st, "k-3").AttemptEnds()[0].String())
	})
}

// What a newer release has written is left alone, and what is cut off is no end.
func TestAttemptEndsOfAnotherForm(t *testing.T) {
	rec := store.Record{Ticket: store.Ticket{Fence: 3}, Attempts: 3}
	e := store.AttemptEnd{Fence: 3, At: time.UnixMicro(7), How: store.EndAnswered, Code: "steps_changed", Status: 500,
		Instance: store.Instance{1, 2, 3, 4}}
	rec.Ends = rec.WithEnd(e)
	require.Equal(t, []store.AttemptEnd{e}, rec.AttemptEnds())
	require.Equal(t, "answered 500, steps_changed", e.String())
	for n := range rec.Ends {
		cut := rec
		cut.Ends = rec.Ends[:n]
		require.Empty(t, cut.AttemptEnds())
	}
	rec.Ends = []byte{9, 1, 2}
	require.Empty(t, rec.AttemptEnds())
	require.Equal(t, rec.Ends, rec.WithEnd(e))
}
