package ginidem_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/ginidem"
)

// A payout whose outcome nobody knows: an operator finds it, asks the provider, and settles it. The seller's next
// repeat gets the settled answer.
func ExampleOperations() {
	now := time.Now()
	idem, err := core.New(core.Config{
		Store:         memstore.New(memstore.WithClock(func() time.Time { return now })),
		OperatorRoles: []core.IssuerRole{{Issuer: "https://issuer.example", Role: "operator"}},
		Routes: core.Routes{
			"POST /v1/payouts":               {Recovery: core.Park, Roles: []string{"seller"}},
			"GET /v1/operations":             {Roles: []string{"operator"}},
			"POST /v1/operations/:id/settle": {Recovery: core.Park, Roles: []string{"operator"}}, // with gormstore: Rollback
		},
	})
	check(err)
	r := gin.New()
	v1 := r.Group("/v1", ginidem.JWTGuard(exampleVerifier()), ginidem.Idempotent(idem))
	v1.POST("/payouts", func(c *gin.Context) { c.AbortWithStatus(http.StatusBadGateway) }) // the provider's answer is lost
	v1.GET("/operations", ginidem.Operations(idem, operations.List))
	v1.GET("/operations/:id", ginidem.Operations(idem, operations.Show))
	v1.POST("/operations/:id/settle", ginidem.Operations(idem, operations.Settle))
	check(ginidem.Audit(r, idem))

	send := func(method, path, role, key, body string) string {
		w := exampleSend(r, method, path, role, key, body)
		fmt.Printf("%s %d %q\n", method, w.Code, w.Header().Get("Idempotency-Result"))
		return w.Body.String()
	}

	send(http.MethodPost, "/v1/payouts", "seller", "payout-7", `{"amount":"40.00"}`)
	var problem struct{ Code, Operation string }
	check(json.Unmarshal([]byte(send(http.MethodPost, "/v1/payouts", "seller", "payout-7", `{"amount":"40.00"}`)), &problem))
	fmt.Println(problem.Code)

	now = now.Add(store.DefaultDeadline) // before that, the handler may still be at work
	list := send(http.MethodGet, "/v1/operations?state=unknown", "operator", "", "")
	fmt.Println("listed:", strings.Contains(list, problem.Operation))

	send(http.MethodPost, "/v1/operations/"+problem.Operation+"/settle", "operator", "settle-payout-7",
		`{"outcome":"applied","reason":"the provider shows po_7","answer":{"status":201,"body":{"id":"po_7"}}}`)
	fmt.Println(send(http.MethodPost, "/v1/payouts", "seller", "payout-7", `{"amount":"40.00"}`))

	// Output:
	// POST 502 "unknown"
	// POST 409 "unknown"
	// outcome_unknown
	// GET 200 ""
	// listed: true
	// POST 200 "created"
	// POST 201 "reused"
	// {"id":"po_7"}
}
