package core_test

import (
	"fmt"
	"time"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
)

// The table of an app's routes. What is not said has its default.
func ExampleNew() {
	idem, err := core.New(core.Config{
		Store: memstore.New(), // forgets everything with the process: for money use gormstore
		Routes: core.Routes{
			"POST /v1/payouts":  {Recovery: core.Park, Roles: []string{"seller"}, Retention: 24 * time.Hour},
			"POST /v1/refunds":  {Recovery: core.Park, Roles: []string{"seller"}, Wait: 5 * time.Second},
			"PATCH /v1/profile": {Exempt: "moves no money, and setting a name twice is setting it once"},
			"GET /v1/payouts":   {Roles: []string{"seller"}},
		},
		Policy:        core.Policy{Lease: 20 * time.Second}, // for the routes that do not say it
		OperatorRoles: []core.IssuerRole{{Issuer: "https://shop.example", Role: "operator"}},
	})
	must(err)
	for _, d := range idem.Declared() {
		fmt.Printf("%s %s needs a key: %v", d.Method, d.Pattern, d.Guarded())
		if d.Guarded() {
			fmt.Printf(" (%v, retention %v, lease %v, wait %v)",
				d.Policy.Recovery, d.Policy.Retention, d.Policy.Lease, d.Policy.Wait)
		}
		fmt.Println()
	}
	// Output:
	// GET /v1/payouts needs a key: false
	// POST /v1/payouts needs a key: true (Park, retention 24h0m0s, lease 20s, wait 0s)
	// PATCH /v1/profile needs a key: false
	// POST /v1/refunds needs a key: true (Park, retention 72h0m0s, lease 20s, wait 5s)
}
