package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/auth19/idem/gormstore/inbox"
	"github.com/auth19/idem/internal/exampledb"
)

// Stock is a row that a consumer changes.
type Stock struct {
	SKU    string `gorm:"primaryKey"`
	Pieces int
}

// A broker delivers a payment event twice, and a third message comes under the same id. Stock is taken once.
func ExampleInbox() {
	db, done := exampledb.Open()
	defer done()
	must(db.AutoMigrate(&Stock{}))
	must(db.Create(&Stock{SKU: "tea", Pieces: 10}).Error)

	box, err := inbox.New(db, inbox.Config{
		Group:           "stock",
		BrokerRetention: 7 * 24 * time.Hour, // how long the broker may deliver a message again
	})
	must(err)
	takeOne := func(tx *gorm.DB) error {
		return tx.Model(&Stock{SKU: "tea"}).Update("pieces", gorm.Expr("pieces - 1")).Error
	}
	for _, payload := range []string{`{"sku":"tea"}`, `{"sku":"tea"}`, `{"sku":"coffee"}`} {
		err := box.Process(context.Background(), inbox.Message{
			Source: "payments", ID: "3f8c", Payload: []byte(payload), Published: time.Now(),
		}, takeOne)
		switch {
		case err == nil:
			fmt.Print("acknowledged")
		case errors.Is(err, inbox.ErrReused):
			fmt.Print("to the dead letters")
		default:
			fmt.Print("given back")
		}
		var tea Stock
		must(db.First(&tea, "sku = ?", "tea").Error)
		fmt.Println(", pieces:", tea.Pieces)
	}
	// Output:
	// acknowledged, pieces: 9
	// acknowledged, pieces: 9
	// to the dead letters, pieces: 9
}
