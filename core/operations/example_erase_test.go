package operations_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/operations"
)

// An operator erases what is kept of a customer who has left. A repeat is refused: it does not run again, and gets nothing of
// the answer. What is not completed is named, so that somebody can settle it and erase again.
func ExampleOperations_Erase() {
	idem, err := core.New(core.Config{
		Store:  memstore.New(),
		Routes: core.Routes{"POST /v1/payouts": {Recovery: core.Park}},
		Observer: core.ObserverFunc(func(_ context.Context, e core.Event) {
			if e.Kind == core.EventErasing || e.Kind == core.EventErased {
				fmt.Printf("%s: %d records, %d open, by %s: %s\n", e.Kind, e.Count, e.Open, e.Who, e.Why)
			}
		}),
	})
	must(err)
	bank := http.StatusCreated
	app := guard(idem, "/v1/payouts", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(bank)
		_, _ = w.Write([]byte("paid out to Jane Doe"))
	})
	fmt.Println(post(app, "/v1/payouts", "payout-1", `{"amount":"40.00"}`).Code)
	bank = http.StatusGatewayTimeout // nobody knows what became of the second one
	fmt.Println(post(app, "/v1/payouts", "payout-2", `{"amount":"60.00"}`).Code)

	seller := core.Principal{Issuer: "https://issuer.example", Subject: "seller-1"}
	erased, err := operations.New(idem).Erase(context.Background(), operations.Erasure{Principal: seller, Who: "olga@shop.example", Why: "GDPR request 7"})
	must(err)
	fmt.Println(erased.Records, len(erased.Open))

	w := post(app, "/v1/payouts", "payout-1", `{"amount":"40.00"}`)
	fmt.Println(w.Code, strings.Contains(w.Body.String(), `"code":"key_expired"`), strings.Contains(w.Body.String(), "Jane"))
	// Output:
	// 201
	// 504
	// erasing: 0 records, 0 open, by olga@shop.example: GDPR request 7
	// erased: 1 records, 1 open, by olga@shop.example: GDPR request 7
	// 1 1
	// 409 true false
}
