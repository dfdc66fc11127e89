package core_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/core/wire"
)

// Run asks the app's reconciler about every unknown operation. It asks the provider for the key that the handler has
// called it with.
func ExampleReconciler() {
	payouts := map[string]string{} // what the provider knows, by key
	now := time.Now()
	settled := make(chan struct{})
	idem, err := core.New(core.Config{
		Store:  memstore.New(memstore.WithClock(func() time.Time { return now })),
		Routes: core.Routes{"POST /v1/payouts": {Recovery: core.Park}},
		Reconcile: func(_ context.Context, operation core.Record) (*core.Decision, error) {
			payout, ok := payouts[operation.ID.DeriveCall("payout").String()]
			if !ok {
				return nil, nil // cannot tell yet: asked again with the next sweep
			}
			return &core.Decision{
				Applied: true, Answer: &core.Answer{Status: http.StatusCreated, Body: []byte(payout)},
				Who: "reconciler", Why: "the provider knows the key",
			}, nil
		},
		Observer: core.ObserverFunc(func(_ context.Context, e core.Event) {
			if e.Kind == core.EventSettled {
				close(settled)
			}
		}),
	})
	must(err)
	app := guard(idem, "/v1/payouts", func(w http.ResponseWriter, r *http.Request) {
		key, _ := core.DeriveCall(r.Context(), "payout")
		payouts[key.String()] = "po_7"
		w.WriteHeader(http.StatusGatewayTimeout) // paid out, but the answer was lost
	})
	fmt.Println(post(app, "/v1/payouts", "payout-7", `{"amount":"40.00"}`).Code)
	now = now.Add(store.DefaultDeadline)

	ctx, stop := context.WithCancel(context.Background())
	var background sync.WaitGroup
	background.Go(func() { must(idem.Run(ctx)) })
	<-settled
	stop()
	background.Wait()

	w := post(app, "/v1/payouts", "payout-7", `{"amount":"40.00"}`)
	fmt.Println(w.Code, w.Header().Get(wire.HeaderResult), w.Body)
	// Output:
	// 504
	// 201 reused po_7
}
