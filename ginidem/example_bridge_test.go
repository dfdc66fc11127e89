package ginidem_test

import (
	"fmt"
	"log/slog"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/ginidem"
)

// An app with a numeric user id in a token of its own. Its middleware stays, and leaves the id in Gin's context.
func ExampleBridge() {
	theirs := func(c *gin.Context) { // stands for the app's middleware
		if c.GetHeader("Authorization") != "" {
			c.Set("user_id", uint(17))
		}
	}
	idem, err := core.New(core.Config{Store: memstore.New(), Policy: core.Policy{Recovery: core.Park}})
	check(err)
	r := gin.New()

	bridge := ginidem.Bridge(func(c *gin.Context) (authctx.Principal, error) {
		return authctx.User("https://shop.example", c.GetUint("user_id")) // the first never changes; 0 is refused
	}, core.LogObserver(slog.Default())) // says why a request gets 401

	r.Use(theirs, bridge, ginidem.Idempotent(idem))
	r.POST("/payouts", func(c *gin.Context) {
		p, _ := authctx.FromContext(c.Request.Context())
		c.String(http.StatusCreated, "paid out to %s", p.Subject)
	})
	check(ginidem.Audit(r, idem))
	fmt.Println(exampleSend(r, http.MethodPost, "/payouts", "customer", "key-1", `{"amount":"12.50"}`).Body)
	// Output: paid out to 17
}
