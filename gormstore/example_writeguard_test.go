package gormstore_test

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
)

// The commonest mistake on a Rollback route: a repository that writes through the database it was made with. It is
// refused before it reaches the database, and the error names the fix.
func ExampleWriteGuard() {
	db, done := exampleDB()
	defer done()
	store, err := gormstore.New(db) // installs the guard on db
	must(err)
	defer func() { must(store.Close()) }()
	idem, err := core.New(core.Config{Store: store, Policy: core.Policy{Recovery: core.Rollback}})
	must(err)

	examplePost(idem, "a", func(w http.ResponseWriter, r *http.Request) {
		err := db.WithContext(r.Context()).Create(&Booking{Amount: "12.50"}).Error
		fmt.Println(errors.Is(err, gormstore.ErrOutsideTransaction))
		w.WriteHeader(http.StatusInternalServerError)
	})
	// Output: true
}
