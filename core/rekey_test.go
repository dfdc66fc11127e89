package core_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
)

const order = `{"amount":1}`

func rekeyPolicy(r core.Rekey) core.Policy { return core.Policy{Recovery: core.Park, Rekey: r} }

// CONTRACT M-3, M-1, R-6, F-1
func TestRekey(t *testing.T) {
	t.Run("rekey off", func(t *testing.T) {
		store := newFaultyWatcher(memstore.New())
		store.on("sight", func(context.Context) error { panic("nobody asked for it") })
		a := newApp(t, core.Config{Store: store}, created)
		requireCreated(t, a.post("key-1", order), core.ResultCreated)
		requireCreated(t, a.post("key-2", order), core.ResultCreated)
		require.Equal(t, 2, a.ran())
	})
	inBubble(t, "rekey report", func(t *testing.T) {
		a := newApp(t, core.Config{Policy: rekeyPolicy(core.RekeyReport)}, created)
		requireCreated(t, a.post("key-1", order), core.ResultCreated)
		a.requireTold(t, "claimed", "completed")
		time.Sleep(time.Second)
		requireCreated(t, a.post("key-2", order), core.ResultCreated)
		e := a.requireTold(t, "suspected_duplicate", "claimed", "completed")[0]
		require.Equal(t, core.Scoping{}.RecordID(alice, "key-2"), e.Operation)
		require.Equal(t, core.Scoping{}.RecordID(alice, "key-1"), e.Earlier)
		requireCreated(t, a.post("key-2", order), core.ResultReused)
		requireCreated(t, a.post("key-1", order), core.ResultReused)
		a.requireTold(t, "replayed", "replayed")
		requireCreated(t, a.postAs(core.Principal{Issuer: alice.Issuer, Subject: "bob"}, "key-1", order), core.ResultCreated)
		a.requireTold(t, "claimed", "completed")
	})
	inBubble(t, "rekey refuse", func(t *testing.T) {
		a := newApp(t, core.Config{Policy: rekeyPolicy(core.RekeyRefuse)}, created)
		requireCreated(t, a.post("key-1", order), core.ResultCreated)
		for range 2 { // a repeat of what was refused is refused again
			time.Sleep(time.Minute)
			w := a.post("key-2", order)
			requireProblem(t, w, http.StatusConflict, core.CodeSuspectedDuplicate)
			require.Contains(t, w.Body.String(), `"operation":"`+core.Scoping{}.RecordID(alice, "key-1").String()+`"`)
			require.Empty(t, w.Header().Get("Retry-After"))
			require.Equal(t, "key-2", w.Header().Get("Idempotency-Key"))
		}
		require.Equal(t, 1, a.ran())
		requireCreated(t, a.post("key-1", order), core.ResultReused)
		requireProblem(t, a.post("key-1", `{"amount":2}`), http.StatusConflict, core.CodeKeyReused)
		requireCreated(t, a.post("key-3", `{"amount":2}`), core.ResultCreated) // another command

		// Nobody is refused for longer than the window, however often he comes.
		time.Sleep(core.DefaultRekeyWindow - 2*time.Minute)
		requireCreated(t, a.post("key-4", order), core.ResultCreated)
		time.Sleep(time.Second)
		requireProblem(t, a.post("key-2", order), http.StatusConflict, core.CodeSuspectedDuplicate)
		requireCreated(t, a.post("key-4", order), core.ResultReused)
	})
	t.Run("a key that is free again is no other key: the command that came to nothing may be repeated with it", func(t *testing.T) {
		a := newApp(t, core.Config{Policy: rekeyPolicy(core.RekeyRefuse)}, notApplied(status(http.StatusServiceUnavailable)))
		require.Equal(t, http.StatusServiceUnavailable, a.post("key-1", order).Code)
		a.handler = created
		requireCreated(t, a.post("key-1", order), core.ResultCreated)
	})
	inBubble(t, "what ran before refusing was switched on is replayed", func(t *testing.T) {
		store := memstore.New()
		reports := newApp(t, core.Config{Store: store, Policy: rekeyPolicy(core.RekeyReport)}, created)
		refuses := newApp(t, core.Config{Store: store, Policy: rekeyPolicy(core.RekeyRefuse)}, created)
		requireCreated(t, reports.post("key-1", order), core.ResultCreated)
		time.Sleep(time.Second)
		requireCreated(t, reports.post("key-2", order), core.ResultCreated)
		requireCreated(t, refuses.post("key-2", order), core.ResultReused)
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
				requireCreated(t, w, core.ResultCreated)
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
