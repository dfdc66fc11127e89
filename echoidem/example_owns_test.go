package echoidem_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/echoidem"
	"github.com/auth19/idem/gormstore"
)

// One route first: the module owns one group of an app. The other routes stay as they are, and the audit lists them.
func Example_oneRouteFirst() {
	ctx := context.Background()
	db, verifier, done := exampleApp(ctx)
	defer done()
	check(db.AutoMigrate(&Voucher{}))
	store, err := gormstore.New(db)
	check(err)
	e := echo.New()

	idem, err := core.New(core.Config{Store: store, Owns: []string{"/v1/vouchers"}, Routes: core.Routes{
		"POST /v1/vouchers": {Recovery: core.Rollback},
	}})
	check(err)
	echoidem.TrackRoutes(e)                           // for the audit, before the first route
	v1 := e.Group("/v1", echoidem.JWTGuard(verifier)) // or your own middleware, and Bridge behind it
	v1.POST("/vouchers", func(c echo.Context) error {
		v := Voucher{Amount: "20.00"}
		if err := gormstore.Tx(c.Request().Context()).Create(&v).Error; err != nil {
			return err
		}
		return c.JSON(http.StatusCreated, v)
	}, echoidem.Idempotent(idem))
	v1.POST("/carts", func(c echo.Context) error { return c.NoContent(http.StatusCreated) }) // not guarded yet
	check(echoidem.Audit(e, idem))
	for _, line := range idem.Undeclared() {
		fmt.Println("not guarded yet:", line)
	}

	for _, path := range []string{"/v1/vouchers", "/v1/vouchers", "/v1/carts"} {
		w := exampleSend(e, http.MethodPost, path, "customer", "key-1", `{}`)
		fmt.Println(w.Code, path, strings.TrimSpace(w.Body.String()))
	}
	check(store.Close())

	// Output:
	// not guarded yet: "POST /v1/carts": {Exempt: "TODO"},
	// 201 /v1/vouchers {"ID":1,"Amount":"20.00"}
	// 201 /v1/vouchers {"ID":1,"Amount":"20.00"}
	// 201 /v1/carts
}
