package memstore_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/store"
)

// In a test the store's clock is the test's: a repeat after retention is refused, and never runs again.
func Example() {
	now := time.Now()
	clock := func() time.Time { return now }
	idem, err := core.New(core.Config{
		Store: memstore.New(memstore.WithClock(clock)), Now: clock, Policy: core.Policy{Recovery: store.Park},
	})
	if err != nil {
		panic(err)
	}
	post := func() *core.Reply {
		caller := core.Principal{Issuer: "https://issuer.example", Subject: "customer-1"}
		r := httptest.NewRequest(http.MethodPost, "/v1/payouts", strings.NewReader(`{"amount":"40.00"}`))
		r.Header.Set("Idempotency-Key", "payout-7")
		r, reply := idem.Admit(r, "/v1/payouts", caller)
		if reply != nil {
			return reply
		}
		attempt, reply := idem.Begin(r, "/v1/payouts", caller)
		if attempt == nil {
			return reply
		}
		fmt.Println("paid out")
		attempt.Capture(httptest.NewRecorder()).WriteHeader(http.StatusCreated)
		return attempt.Finish()
	}
	fmt.Println(post().Status)
	now = now.Add(store.DefaultRetention - time.Second)
	fmt.Println(post().Status)
	now = now.Add(time.Second)
	fmt.Println(post().Status)
	// Output:
	// paid out
	// 201
	// 201
	// 409
}
