package shop

import (
	"errors"

	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
)

// RefundInput is the body of POST /v1/payments/:id/refunds.
type RefundInput struct {
	Amount string `json:"amount"`
}

// States of a refund.
const (
	refundReserved = "reserved"
	refundDone     = "refunded"
)

// Refund is a refund and its answer.
type Refund struct {
	gormstore.Once `json:"-"`
	ID             string `gorm:"primaryKey;size:32" json:"id"`
	PaymentID      string `gorm:"size:32;not null;index" json:"payment_id"`
	Status         string `gorm:"size:16;not null" json:"status"`
	Amount         string `gorm:"not null" json:"amount"`
	Currency       string `gorm:"size:3;not null" json:"currency"`
}

// A refund has three steps, each in a transaction of its own: ReserveRefund, the provider's call, BookRefund. Resume
// will run them.

// ReserveRefund is the first step: it takes the amount from what is left of the payment, so that refunds never exceed
// the captured amount, whatever runs at once. A customer refunds its own payments, a seller those of its tenant.
func (s *Shop) ReserveRefund(tx *gorm.DB, p core.Principal, paymentID string, in RefundInput) (*Refund, error) {
	cents, err := parseAmount("amount", in.Amount)
	if err != nil {
		return nil, err
	}
	payment, err := refundable(tx, p, paymentID)
	if err != nil {
		return nil, err
	}
	refund := &Refund{
		ID: newID("ref"), PaymentID: payment.ID, Status: refundReserved, Amount: in.Amount, Currency: payment.Currency,
	}
	created, err := gormstore.CreateOnce(tx, refund)
	if err != nil || !created {
		return refund, err
	}
	taken := tx.Model(&Payment{}).Where("id = ? AND refunded_cents + ? <= cents", payment.ID, cents).
		Update("refunded_cents", gorm.Expr("refunded_cents + ?", cents))
	if taken.Error == nil && taken.RowsAffected == 0 {
		return nil, ErrRefundTooHigh
	}
	return refund, taken.Error
}

// BookRefund is the last step: the provider has paid, the refund is done and in the ledger.
func (s *Shop) BookRefund(tx *gorm.DB, p core.Principal, refund *Refund) error {
	if _, err := book(tx, kindRefund, refund.Amount, p); err != nil {
		return err
	}
	refund.Status = refundDone
	return tx.Model(refund).Update("status", refundDone).Error
}

// refundable finds a payment that the caller may refund. Any other does not exist.
func refundable(db *gorm.DB, p core.Principal, id string) (*Payment, error) {
	if !isID(id) {
		return nil, ErrNotFound
	}
	own := db.Where("owner = ?", ownerOf(p))
	if p.HasAnyRole(RoleSeller) {
		own = own.Or("realm = ?", realmOf(p))
	}
	var payment Payment
	err := db.Where("id = ?", id).Where(own).Take(&payment).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return nil, ErrNotFound
	}
	return &payment, err
}
