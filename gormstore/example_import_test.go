package gormstore_test

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/core/wire"
	"github.com/auth19/idem/gormstore"
)

// OldKey is a row of the app's own idempotency table.
type OldKey struct {
	Key       string `gorm:"primaryKey"`
	Customer  string
	Status    int // 0 while the request runs
	Body      []byte
	CreatedAt time.Time
}

// importOldKeys takes the rows over. Repeat it until the result is Done.
func importOldKeys(ctx context.Context, db *gorm.DB, idem *core.Module) (store.Imported, error) {
	return operations.New(idem).Import(ctx, func(yield func(operations.Past, error) bool) {
		rows, err := db.WithContext(ctx).Model(&OldKey{}).Rows()
		if err != nil {
			yield(operations.Past{}, err)
			return
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var old OldKey
			if err := db.ScanRows(rows, &old); err != nil {
				yield(operations.Past{}, err)
				return
			}
			past := operations.Past{
				Principal: core.Principal{Issuer: "https://issuer.example", Subject: old.Customer}, // as in the tokens
				Key:       old.Key, Method: http.MethodPost, Route: "/v1/bookings", CreatedAt: old.CreatedAt,
			}
			if old.Status >= 200 && old.Status < 500 { // else it is unknown, and must be settled
				past.Answer = &core.Answer{Status: old.Status, Body: old.Body}
			}
			if !yield(past, nil) {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(operations.Past{}, err)
		}
	})
}

// The keys of an app's own table are taken over. A repeat of a command that ran before gets its answer.
func ExampleNew_import() {
	db, done := exampleDB()
	defer done()
	must(db.AutoMigrate(&OldKey{}))
	must(db.Create([]OldKey{
		{Key: "paid", Customer: "customer-1", Status: http.StatusCreated, Body: []byte("paid before"), CreatedAt: time.Now()},
		{Key: "cut-off", Customer: "customer-1", CreatedAt: time.Now()},
	}).Error)
	store, err := gormstore.New(db)
	must(err)
	defer func() { must(store.Close()) }()
	idem, err := core.New(core.Config{Store: store, Policy: core.Policy{Recovery: core.Rollback}})
	must(err)

	for range 2 {
		imported, err := importOldKeys(context.Background(), db, idem)
		must(err)
		fmt.Println("added:", imported.Added, "done:", imported.Done())
	}
	for _, key := range []string{"paid", "cut-off"} {
		w := examplePost(idem, key, func(http.ResponseWriter, *http.Request) { fmt.Println("it ran a second time") })
		fmt.Println(key, w.Code, w.Header().Get(wire.HeaderResult))
	}
	// Output:
	// added: 2 done: false
	// added: 0 done: true
	// paid 201 reused
	// cut-off 409 unknown
}
