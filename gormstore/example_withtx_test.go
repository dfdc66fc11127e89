package gormstore_test

import (
	"context"
	"fmt"

	"github.com/auth19/idem/core/idemtest"
	"github.com/auth19/idem/gormstore"
)

// bookTwelveFifty is the code under test: part of a handler on a Rollback route.
func bookTwelveFifty(ctx context.Context) error {
	_, err := gormstore.CreateOnce(gormstore.Tx(ctx), &Booking{Amount: "12.50"})
	return err
}

// A unit test of what a handler calls: no HTTP, no store, and a transaction that the test rolls back.
func ExampleWithTx() {
	db, done := exampleDB()
	defer done()
	tx := db.Begin()
	defer tx.Rollback()

	ctx := idemtest.Context(context.Background(), idemtest.Config{})
	ctx = gormstore.WithTx(ctx, tx)
	must(bookTwelveFifty(ctx))

	var rows int64
	must(tx.Model(&Booking{}).Count(&rows).Error)
	fmt.Println("rows:", rows)
	// Output: rows: 1
}
