package core_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
)

const order = `{"amount":1}`

func rekeyPolicy(r core.Rekey) core.Policy { return core.Policy{Recovery: core.Park, Rekey: r} }

func requireResult(t *testing.T, result string, w *httptest.ResponseRecorder) {
	t.Helper()
	require.Equal(t, http.StatusCreated, w.Code, w.Body)
	require.Equal(t, result, w.Header().Get(core.HeaderResult))
}

// CONTRACT M-3, M-1, R-6, F-1
func TestRekey(t *testing.T) {
	t.Run("rekey off", func(t *testing.T) {
		store := newFaultyWatcher(memstore.New())
		store.on("sight", func(context.Context) error { panic("nobody asked for it") })
		a := newApp(t, core.Config{Store: store}, created)
		requireResult(t, core.ResultCreated, a.post("key-1", order))
		requireResult(t, core.ResultCreated, a.post("key-2", order))
		require.Equal(t, 2, a.ran())
	})
	inBubble(t, "rekey report", func(t *testing.T) {
		a := newApp(t, core.Config{Policy: rekeyPolicy(core.RekeyReport)}, created)
		requireResult(t, core.ResultCreated, a.post("key-1", order))
		a.requireTold(t, "claimed", "completed")
		time.Sleep(time.Second)
		requireResult(t, core.ResultCreated, a.post("key-2", order))
		e := a.requireTold(t, "suspected_duplicate", "claimed", "completed")[0]
		require.Equal(t, core.Scoping{}.RecordID(alice, "key-2"), e.Operation)
		require.Equal(t, core.Scoping{}.RecordID(alice, "key-1"), e.Earlier)
		requireResult(t, core.ResultReused, a.post("key-2", order))
		requireResult(t, core.ResultReused, a.post("key-1", order))
		a.requireTold(t, "replayed", "replayed")
		requireResult(t, core.ResultCreated, a.postAs(core.Principal{Issuer: alice.Issuer, Subject: "bob"}, "key-1", order))
		a.requireTold(t, "claimed", "completed")
	})
	inBubble(t, "rekey refuse", func(t *testing.T) {
		a := newApp(t, core.Config{Policy: rekeyPolicy(core.RekeyRefuse)}, created)
		requireResult(t, core.ResultCreated, a.post("key-1", order))
		for range 2 { // a repeat of what was refused is refused again
			time.Sleep(time.Minute)
			w := a.post("key-2", order)
			requireProblem(t, w, http.StatusConflict, core.CodeSuspectedDuplicate)
			require.Contains(t, w.Body.String(), `"operation":"`+core.Scoping{}.RecordID(alice, "key-1").String()+`"`)
			require.Empty(t, w.Header().Get("Retry-After"))
			require.Equal(t, "key-2", w.Header().Get("Idempotency-Key"))
		}
		require.Equal(t, 1, a.ran())
		requireResult(t, core.ResultReused, a.post("key-1", order))
		requireProblem(t, a.post("key-1", `{"amount":2}`), http.StatusConflict, core.CodeKeyReused)
		requireResult(t, core.ResultCreated, a.post("key-3", `{"amount":2}`)) // another command

		// Nobody is refused for longer than the window, however often he comes.
		time.Sleep(core.DefaultRekeyWindow - 2*time.Minute)
		requireResult(t, core.ResultCreated, a.post("key-4", order))
		time.Sleep(time.Second)
		requireProblem(t, a.post("key-2", order), http.StatusConflict, core.CodeSuspectedDuplicate)
		requireResult(t, core.ResultReused, a.post("key-4", order))
	})
	t.Run("a key that is free again is no other key: the command that came to nothing may be repeated with it", func(t *testing.T) {
		a := newApp(t, core.Config{Policy: rekeyPolicy(core.RekeyRefuse)}, func(w http.ResponseWriter, r *http.Request) {
			core.NotApplied(r.Context())
			w.WriteHeader(http.StatusServiceUnavailable)
		})
		require.Equal(t, http.StatusServiceUnavailable, a.post("key-1", order).Code)
		a.handler = created
		requireResult(t, core.ResultCreated, a.post("key-1", order))
	})
	inBubble(t, "what ran before refusing was switched on is replayed", func(t *testing.T) {
		store := memstore.New()
		reports := newApp(t, core.Config{Store: store, Policy: rekeyPolicy(core.RekeyReport)}, created)
		refuses := newApp(t, core.Config{Store: store, Policy: rekeyPolicy(core.RekeyRefuse)}, created)
		requireResult(t, core.ResultCreated, reports.post("key-1", order))
		time.Sleep(time.Second)
		requireResult(t, core.ResultCreated, reports.post("key-2", order))
		requireResult(t, core.ResultReused, refuses.post("key-2", order))
		require.Equal(t, []core.EventKind{core.EventReplayed}, refuses.kinds())
	})
	t.Run("rekey without store", func(t *testing.T) {
		away := errors.New("away")
		for policy, broken := range map[core.Rekey]bool{core.RekeyReport: false, core.RekeyRefuse: true} {
			store := newFaultyWatcher(memstore.New())
			store.on("sight", func(context.Context) error { return away })
			a := newApp(t, core.Config{Store: store, Policy: rekeyPolicy(policy)}, created)
			w := a.post("key-1", order)
			require.ErrorIs(t, a.told()[0].Err, away)
			if broken {
				requireProblem(t, w, http.StatusServiceUnavailable, core.CodeStoreUnavailable)
				require.Equal(t, "2", w.Header().Get("Retry-After"))
				require.Zero(t, a.ran())
			} else {
				requireResult(t, core.ResultCreated, w)
			}
		}
	})
	t.Run("rekey configuration", func(t *testing.T) {
		_, err := core.New(core.Config{Store: newFaultStore(memstore.New()), Policy: rekeyPolicy(core.RekeyReport)})
		require.ErrorContains(t, err, "Policy: Rekey: needs a store that remembers commands")
		_, err = core.New(core.Config{Store: memstore.New(), Policy: rekeyPolicy(core.RekeyRefuse + 1)})
		require.ErrorContains(t, err, "Policy: Rekey: 3 is neither core.RekeyReport nor core.RekeyRefuse")

		idem, err := core.New(core.Config{Store: memstore.New(), Policy: core.Policy{Rekey: core.RekeyReport, RekeyWindow: time.Hour},
			Routes: core.Routes{"POST /pay": {Recovery: core.Park}, "POST /quiet": {Recovery: core.Park, RekeyWindow: time.Minute}}})
		require.NoError(t, err)
		require.Equal(t, time.Hour, idem.Declared()[0].Policy.RekeyWindow)
		require.Equal(t, time.Minute, idem.Declared()[1].Policy.RekeyWindow)
		require.Equal(t, core.RekeyReport, idem.Declared()[1].Policy.Rekey)
	})
}
