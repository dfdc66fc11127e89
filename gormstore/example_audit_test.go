package gormstore_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/auth19/idem/gormstore"
)

// Transfer is a money row without a second line.
type Transfer struct {
	ID     uint
	Amount string
}

// The proof at start-up names everything that is wrong with the live database.
func ExampleAudit() {
	db, done := exampleDB()
	defer done()
	must(db.AutoMigrate(&Transfer{}))
	err := gormstore.Audit(context.Background(), db, &Booking{}, &Transfer{})
	for line := range strings.Lines(err.Error()) {
		fmt.Printf("%.106s...\n", strings.TrimSpace(line))
	}

	store, err := gormstore.New(db) // installs the write guard
	must(err)
	defer func() { must(store.Close()) }()
	fmt.Println(gormstore.Audit(context.Background(), db, &Booking{}))
	// Output:
	// idem: gormstore.Audit:...
	// the write guard is not installed on this db: use the db that gormstore.New got, or db.Use(gormstore.WriteG...
	// money table transfers (*gormstore_test.Transfer): it has no UNIQUE index over NOT NULL columns with operat...
	// <nil>
}
