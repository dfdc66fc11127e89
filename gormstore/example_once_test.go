package gormstore_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/auth19/idem/core/idemtest"
	"github.com/auth19/idem/gormstore"
)

// CreateOnce holds where no record does: purged long ago, or lost in a failover. On a Park route, as here, the rows go
// over the app's own db.
func ExampleCreateOnce() {
	db, done := exampleDB()
	defer done()

	book := func(attempt idemtest.Config) {
		ctx := idemtest.Context(context.Background(), attempt) // what a handler gets
		row := Booking{Amount: "12.50"}
		created, err := gormstore.CreateOnce(db.WithContext(ctx), &row)
		if errors.Is(err, gormstore.ErrOtherOperation) {
			fmt.Println("answer 409: the key has come back with another command")
			return
		}
		must(err)
		fmt.Println("created:", created, "id:", row.ID)
	}
	book(idemtest.Config{Key: "k"})
	book(idemtest.Config{Key: "k"})
	book(idemtest.Config{Key: "k", Command: "another amount"})
	// Output:
	// created: true id: 1
	// created: false id: 1
	// answer 409: the key has come back with another command
}
