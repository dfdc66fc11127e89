package idemclient_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/idemclient"
	"github.com/auth19/idem/core/memstore"
)

// A guarded handler calls a second service. The call is named, and its key is derived from the handler's operation: the
// handler runs twice, because the answer to its call was lost, and the provider charges once.
func ExampleClient_Do_insideAHandler() {
	provider := httptest.NewServer(payments(func(http.ResponseWriter, *http.Request) { fmt.Println("provider: charged") }))
	defer provider.Close()
	client, err := idemclient.New(idemclient.Config{Transport: losing(1), MaxAttempts: 1}) // the handler's caller repeats
	must(err)

	idem, err := core.New(core.Config{Store: memstore.New(), Policy: core.Policy{Recovery: core.Resume}})
	must(err)
	shop := httptest.NewServer(guard(idem, func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("shop: attempt")
		status, err := core.Call(r.Context(), "charge", func(ctx context.Context, _ core.DerivedKey) (int, error) {
			url := provider.URL + "/v1/charges"
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(`{"amount":"12.50"}`))
			if err != nil {
				return 0, err
			}
			res, err := client.Do(ctx, "charge", req) // the step's context, and its name
			if err != nil {
				return 0, err
			}
			return res.StatusCode, res.Body.Close()
		}, core.Dedup(23*time.Hour))
		if err != nil {
			http.Error(w, "try again", http.StatusBadGateway)
			return
		}
		w.WriteHeader(status)
	}))
	defer shop.Close()

	caller, err := idemclient.New(idemclient.Config{FirstPause: time.Millisecond})
	must(err)
	ctx := context.Background()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, shop.URL+"/v1/orders", strings.NewReader(`{"amount":"12.50"}`))
	must(err)
	res, err := caller.Do(ctx, "order-7", r)
	must(err)
	fmt.Println("caller:", res.StatusCode)
	// Output:
	// shop: attempt
	// provider: charged
	// shop: attempt
	// caller: 201
}
