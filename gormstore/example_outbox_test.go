package gormstore_test

import (
	"context"
	"fmt"
	"net/http"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/wire"
	"github.com/auth19/idem/gormstore"
)

// OutboxEvent is a row of an outbox of the app's own.
type OutboxEvent struct {
	ID      string `gorm:"primaryKey"` // the same in every attempt: consumers tell a second delivery by it
	Payload string `gorm:"not null"`
}

// bookWithEvent writes a booking, and the event that tells of it.
func bookWithEvent(ctx context.Context) error {
	id, err := core.DeriveEvent(ctx, "booking.made")
	if err != nil {
		return err
	}
	tx := gormstore.Tx(ctx)
	if _, err := gormstore.CreateOnce(tx, &Booking{Amount: "12.50"}); err != nil {
		return err
	}
	return tx.Create(&OutboxEvent{ID: id.String(), Payload: `{"amount":"12.50"}`}).Error
}

// publishOutbox publishes what is in the outbox, each event at least once. Every instance may call it, in a loop of its own.
func publishOutbox(db *gorm.DB, publish func(OutboxEvent) error) error {
	return db.Transaction(func(tx *gorm.DB) error {
		var events []OutboxEvent
		skip := clause.Locking{Strength: "UPDATE", Options: "SKIP LOCKED"} // of other instances; SQLite has no such locks
		if err := tx.Clauses(skip).Order("id").Limit(100).Find(&events).Error; err != nil || len(events) == 0 {
			return err
		}
		for _, event := range events {
			if err := publish(event); err != nil {
				return err // all of them come again
			}
		}
		return tx.Delete(&events).Error
	})
}

// An app with an outbox table of its own writes the event in the attempt's transaction, under a derived id.
func Example_outbox() {
	db, done := exampleDB()
	defer done()
	must(db.AutoMigrate(&OutboxEvent{}))
	store, err := gormstore.New(db)
	must(err)
	defer func() { must(store.Close()) }()
	idem, err := core.New(core.Config{Store: store, Policy: core.Policy{Recovery: core.Rollback}})
	must(err)

	for _, status := range []int{http.StatusInternalServerError, http.StatusCreated, http.StatusCreated} {
		w := examplePost(idem, "a", func(w http.ResponseWriter, r *http.Request) {
			must(bookWithEvent(r.Context()))
			w.WriteHeader(status) // a 500 undoes booking and event
		})
		fmt.Printf("%d %q\n", w.Code, w.Header().Get(wire.HeaderResult))
	}
	for range 2 {
		must(publishOutbox(db, func(event OutboxEvent) error {
			fmt.Println("published:", event.Payload)
			return nil
		}))
	}
	// Output:
	// 500 ""
	// 201 "created"
	// 201 "reused"
	// published: {"amount":"12.50"}
}
