package main

import (
	"fmt"
	"time"

	"gorm.io/gorm"
)

// Mail is a line of the mail log: a mail that another program must send. The row is written exactly once. The mail itself
// cannot be sent exactly once, because a mail server cannot join a transaction.
type Mail struct {
	ID        int64 `gorm:"primaryKey;autoIncrement"`
	CreatedAt time.Time
	PaymentID string `gorm:"size:32;not null;index"`
	Text      string `gorm:"not null"`
}

// TableName implements GORM's Tabler.
func (Mail) TableName() string { return "mail_log" }

// confirm writes the mail that confirms a payment, in the transaction of its message.
func confirm(tx *gorm.DB, e PaymentCaptured) error {
	return tx.Create(&Mail{
		PaymentID: e.PaymentID,
		Text:      fmt.Sprintf("Thank you: %s %s for order %s. It is on its way.", e.Amount, e.Currency, e.OrderID),
	}).Error
}
