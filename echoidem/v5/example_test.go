package echoidem_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/labstack/echo/v5"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/echoidem/v5"
)

// A money route on Echo v5. The examples of Echo v4 are the same but for the type of the context.
func Example() {
	idem, err := core.New(core.Config{Store: memstore.New(), Routes: core.Routes{"POST /v1/payouts": {Recovery: core.Park}}})
	check(err)
	e := echo.New()
	echoidem.TrackRoutes(e) // for the audit, before the first route
	guard := echoidem.Bridge(func(*echo.Context) (authctx.Principal, error) {
		return authctx.User("https://shop.example", 17) // in your app: whom your middleware has found
	})
	v1 := e.Group("/v1", guard, echoidem.Idempotent(idem)) // or echoidem.JWTGuard(verifier) in front
	v1.POST("/payouts", func(c *echo.Context) error { return c.String(http.StatusCreated, "paid out") })
	check(echoidem.Audit(e, idem))

	for range 2 {
		r := httptest.NewRequest(http.MethodPost, "/v1/payouts", strings.NewReader(`{"amount":"12.50"}`))
		r.Header.Set("Idempotency-Key", "one-key-per-intent")
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
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
