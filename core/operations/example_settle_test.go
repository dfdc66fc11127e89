package operations_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/core/store"
)

// A payout fails after the provider may have made it. Nobody runs it again: somebody finds out and settles it, and from
// then on repeats get that answer. Over HTTP, the handler [operations.Settle] does the same.
func ExampleOperations_Settle() {
	now := time.Now()
	idem, err := core.New(core.Config{
		Store:  memstore.New(memstore.WithClock(func() time.Time { return now })),
		Routes: core.Routes{"POST /v1/payouts": {Recovery: core.Park}},
	})
	must(err)
	app := guard(idem, "/v1/payouts", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadGateway) // the provider's answer is lost
	})
	post(app, "/v1/payouts", "payout-7", `{"amount":"40.00"}`)

	var problem struct {
		Code      string
		Operation core.ID
	}
	must(json.Unmarshal(post(app, "/v1/payouts", "payout-7", `{"amount":"40.00"}`).Body.Bytes(), &problem))
	fmt.Println(problem.Code)

	applied := core.Decision{
		Applied: true, Answer: &core.Answer{Status: http.StatusCreated, Body: []byte("po_7")},
		Who: "operator-1", Why: "the provider's list shows po_7",
	}
	_, err = operations.New(idem).Settle(context.Background(), problem.Operation, applied)
	fmt.Println(err) // the handler may still be at work

	now = now.Add(store.DefaultDeadline)
	_, err = operations.New(idem).Settle(context.Background(), problem.Operation, applied)
	fmt.Println(err)
	fmt.Println(post(app, "/v1/payouts", "payout-7", `{"amount":"40.00"}`).Body)

	_, err = operations.New(idem).Settle(context.Background(), problem.Operation, applied)
	fmt.Println(err) // a settlement is final

	// Output:
	// outcome_unknown
	// idem: only an unknown operation past lease and deadline can be settled
	// <nil>
	// po_7
	// idem: only an unknown operation past lease and deadline can be settled
}
