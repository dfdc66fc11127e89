package echoidem_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/labstack/echo/v4"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/echoidem"
)

// An app with a numeric user id in a token of its own. Its middleware stays, and leaves the id in Echo's context.
func ExampleBridge() {
	theirs := func(next echo.HandlerFunc) echo.HandlerFunc { // stands for the app's middleware
		return func(c echo.Context) error {
			if c.Request().Header.Get("Authorization") != "" {
				c.Set("user_id", uint(17))
			}
			return next(c)
		}
	}
	idem, err := core.New(core.Config{Store: memstore.New(), Policy: core.Policy{Recovery: core.Park}})
	check(err)
	e := echo.New()
	echoidem.TrackRoutes(e)

	bridge := echoidem.Bridge(func(c echo.Context) (authctx.Principal, error) {
		id, _ := c.Get("user_id").(uint)
		return authctx.User("https://shop.example", id) // the first never changes; 0 is refused
	}, core.LogObserver(slog.Default())) // says why a request gets 401

	e.Use(theirs, bridge, echoidem.Idempotent(idem))
	e.POST("/payouts", func(c echo.Context) error {
		p, _ := authctx.FromContext(c.Request().Context())
		return c.String(http.StatusCreated, "paid out to "+p.Subject)
	})
	check(echoidem.Audit(e, idem))
	fmt.Println(exampleSend(e, http.MethodPost, "/payouts", "customer", "key-1", `{"amount":"12.50"}`).Body)
	// Output: paid out to 17
}

// An app whose JWT middleware verifies tokens with "iss" and "sub". What it leaves in Echo's context becomes the
// principal; with echo-jwt, the token under "user".
func ExampleBridge_claims() {
	claims := authctx.Claims{Issuers: []string{"https://issuer.example"}}
	check(claims.Check())
	theirs := func(next echo.HandlerFunc) echo.HandlerFunc { // stands for the app's middleware
		return func(c echo.Context) error {
			c.Set("user", &jwt.Token{Valid: true, Claims: jwt.MapClaims{
				"iss": "https://issuer.example", "sub": "customer-1", "exp": float64(time.Now().Add(time.Hour).Unix())}})
			return next(c)
		}
	}

	idem, err := core.New(core.Config{Store: memstore.New(), Policy: core.Policy{Recovery: core.Park}})
	check(err)
	e := echo.New()
	echoidem.TrackRoutes(e)
	e.Use(theirs, echoidem.Bridge(func(c echo.Context) (authctx.Principal, error) {
		token, _ := c.Get("user").(*jwt.Token)
		return claims.FromToken(token) // refuses nil, and what was not verified
	}), echoidem.Idempotent(idem))
	e.POST("/payouts", func(c echo.Context) error {
		p, _ := authctx.FromContext(c.Request().Context())
		return c.String(http.StatusCreated, "paid out to "+p.Subject)
	})
	check(echoidem.Audit(e, idem))
	fmt.Println(exampleSend(e, http.MethodPost, "/payouts", "customer", "key-1", `{"amount":"12.50"}`).Body)
	// Output: paid out to customer-1
}
