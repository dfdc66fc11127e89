package ginidem_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/ginidem"
)

var errNoMoney = errors.New("no money on the account")

// respond is the app's only way to answer: 200, and a code in the body.
func respond(c *gin.Context, data any, err error) {
	switch {
	case err == nil:
		c.JSON(http.StatusOK, gin.H{"code": 0, "data": data})
	case errors.Is(err, errNoMoney): // a result: recorded, and repeats get it again
		c.JSON(http.StatusOK, gin.H{"code": 40201})
	default: // a failure: not recorded
		core.Failed(c.Request.Context())
		c.JSON(http.StatusOK, gin.H{"code": 50001})
	}
}

// An API that answers every failure with 200 says which of its answers are failures.
func Example_failuresWithStatus200() {
	idem, err := core.New(core.Config{Store: memstore.New(), Policy: core.Policy{Recovery: core.Resume}})
	check(err)
	down := true
	r := gin.New()
	r.Use(ginidem.JWTGuard(exampleVerifier()), ginidem.Idempotent(idem))
	r.POST("/payouts", func(c *gin.Context) {
		receipt, err := core.Call(c.Request.Context(), "pay", func(context.Context, core.DerivedKey) (string, error) {
			if down {
				return "", errors.New("the bank does not answer")
			}
			return "receipt-1", nil
		}, core.Dedup(23*time.Hour))
		respond(c, receipt, err)
	})
	for range 3 {
		w := exampleSend(r, http.MethodPost, "/payouts", "customer", "key-1", `{"amount":"12.50"}`)
		fmt.Println(w.Code, w.Body, w.Header().Get("Idempotency-Result"))
		down = false
	}
	// Output:
	// 200 {"code":50001} unknown
	// 200 {"code":0,"data":"receipt-1"} created
	// 200 {"code":0,"data":"receipt-1"} reused
}
