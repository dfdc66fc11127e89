package ginidem_test

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/ginidem"
)

// The app's way to render errors, used inside the recording.
func ExampleWithErrorRenderer() {
	render := func(c *gin.Context) {
		c.JSON(http.StatusPaymentRequired, gin.H{"error": c.Errors.Last().Error()})
	}
	idem, err := core.New(core.Config{Store: memstore.New(), Policy: core.Policy{Recovery: core.Park}})
	check(err)
	r := gin.New()
	r.Use(ginidem.JWTGuard(exampleVerifier()), ginidem.Idempotent(idem, ginidem.WithErrorRenderer(render)))
	r.POST("/payouts", func(c *gin.Context) { _ = c.Error(errors.New("insufficient funds")) })
	for range 2 {
		w := exampleSend(r, http.MethodPost, "/payouts", "customer", "key-1", `{"amount":"12.50"}`)
		fmt.Println(w.Code, w.Body, w.Header().Get("Idempotency-Result"))
	}
	// Output:
	// 402 {"error":"insufficient funds"} created
	// 402 {"error":"insufficient funds"} reused
}
