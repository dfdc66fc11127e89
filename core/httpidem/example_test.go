package httpidem_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/httpidem"
	"github.com/auth19/idem/core/memstore"
)

// A money route on the router of net/http, with groups. The example of Gin books in a database.
func Example() {
	idem, err := core.New(core.Config{Store: memstore.New(), Routes: core.Routes{"POST /v1/payouts": {Recovery: core.Park}}})
	check(err)
	guard := httpidem.Bridge(func(*http.Request) (authctx.Principal, error) {
		return authctx.User("https://shop.example", 17) // in your app: whom your middleware has found
	})
	payOut := func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprint(w, "paid out")
	}

	mux := httpidem.NewRouter() // in place of http.NewServeMux()
	v1 := mux.Group("/v1", guard, httpidem.Idempotent(idem))
	v1.HandleFunc("POST /payouts", payOut)
	check(httpidem.Audit(mux, idem))

	for range 2 {
		r := httptest.NewRequest(http.MethodPost, "/v1/payouts", strings.NewReader(`{"amount":"12.50"}`))
		r.Header.Set("Idempotency-Key", "one-key-per-intent")
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("Idempotency-Result"), w.Body)
	}
	// Output:
	// 201 created paid out
	// 201 reused paid out
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
