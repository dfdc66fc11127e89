package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/auth19/idem/core/idemtest"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/gormstore/inbox"
	"github.com/auth19/idem/internal/exampledb"
)

// Completion is the money row of an order: of the provider's webhook or of the confirm route, whichever comes first.
type Completion struct {
	gormstore.Once `json:"-"`

	ID      uint
	OrderID string `gorm:"not null;uniqueIndex"` // the business key that both share
}

// complete is called by both. The row belongs to the message, or to the command.
func complete(tx *gorm.DB, order string) (created bool, err error) {
	created, err = gormstore.CreateOnce(tx, &Completion{OrderID: order})
	if errors.Is(err, gormstore.ErrOtherOperation) {
		return false, nil // the other one was first: acknowledge, or answer from the order
	}
	return created, err
}

// A webhook completes an order, and so does the confirm route. The order is completed once, whoever comes first, and
// also if marker and record are lost.
func ExampleInbox_complete() {
	db, done := exampledb.Open()
	defer done()
	must(db.AutoMigrate(&Completion{}))
	box, err := inbox.New(db, inbox.Config{Group: "orders", BrokerRetention: 30 * 24 * time.Hour})
	must(err)
	webhook := func(order string) {
		m := inbox.Message{Source: "provider/live", ID: "evt-" + order, Payload: []byte(order)}
		must(box.Process(context.Background(), m, func(tx *gorm.DB) error {
			created, err := complete(tx, order)
			fmt.Println("webhook:", order, created)
			return err
		}))
	}
	confirm := func(order string) { // a guarded route; in core.Rollback tx is gormstore.Tx(ctx)
		ctx := idemtest.Context(context.Background(), idemtest.Config{Key: "key-" + order})
		created, err := complete(db.WithContext(ctx), order)
		must(err)
		fmt.Println("confirm:", order, created)
	}
	webhook("order-1")
	confirm("order-1")
	confirm("order-2")
	webhook("order-2")
	// Output:
	// webhook: order-1 true
	// confirm: order-1 false
	// confirm: order-2 true
	// webhook: order-2 false
}
