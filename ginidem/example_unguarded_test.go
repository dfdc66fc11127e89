package ginidem_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/ginidem"
	"github.com/auth19/idem/gormstore"
)

// One route first: the other ones stay as they are. They are declared as not guarded yet, and stay in sight.
func Example_oneRouteFirst() {
	ctx := context.Background()
	db, verifier, done := exampleApp(ctx)
	defer done()
	check(db.AutoMigrate(&Voucher{}))
	store, err := gormstore.New(db)
	check(err)
	r := gin.New()

	idem, err := core.New(core.Config{Store: store, Routes: core.Routes{
		"POST /v1/vouchers": {Recovery: core.Rollback},
		"POST /v1/carts":    {Unguarded: "goes in with release 12"},
	}})
	check(err)
	v1 := r.Group("/v1", ginidem.JWTGuard(verifier)) // or your own middleware, and Bridge behind it
	v1.POST("/vouchers", ginidem.Idempotent(idem), func(c *gin.Context) {
		v := Voucher{Amount: "20.00"}
		if err := gormstore.Tx(c.Request.Context()).Create(&v).Error; err != nil {
			c.AbortWithStatus(http.StatusInternalServerError)
			return
		}
		c.JSON(http.StatusCreated, v)
	})
	v1.POST("/carts", func(c *gin.Context) { c.Status(http.StatusCreated) })
	check(ginidem.Audit(r, idem))
	for _, line := range idem.Table() {
		fmt.Println(line)
	}

	for _, path := range []string{"/v1/vouchers", "/v1/vouchers", "/v1/carts"} {
		w := exampleSend(r, http.MethodPost, path, "customer", "key-1", `{}`)
		fmt.Println(w.Code, path, w.Body)
	}
	check(store.Close())

	// Output:
	// POST /v1/carts: not guarded yet: goes in with release 12
	// POST /v1/vouchers: Rollback
	// 201 /v1/vouchers {"ID":1,"Amount":"20.00"}
	// 201 /v1/vouchers {"ID":1,"Amount":"20.00"}
	// 201 /v1/carts
}
