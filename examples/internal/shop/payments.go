package shop

import (
	"cmp"
	"context"
	"errors"
	"time"

	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
)

// PaymentInput is the body of POST /v1/payments.
type PaymentInput struct {
	OrderID  string `json:"order_id"` // free text: the order need not exist
	Amount   string `json:"amount"`
	Currency string `json:"currency"`
	Method   string `json:"method"`
}

// Payment is a captured payment and its answer.
type Payment struct {
	gormstore.Once `json:"-"`
	ID             string    `gorm:"primaryKey;size:32" json:"id"`
	Owner          string    `gorm:"size:64;not null;index" json:"-"`
	Realm          string    `gorm:"size:64;not null" json:"-"` // whose sellers may refund it
	CreatedAt      time.Time `json:"-"`
	OrderID        string    `gorm:"not null" json:"order_id"`
	Status         string    `gorm:"size:16;not null" json:"status"`
	Amount         string    `gorm:"not null" json:"amount"` // as the client wrote it
	Cents          int64     `gorm:"not null" json:"-"`
	RefundedCents  int64     `gorm:"not null" json:"-"`
	Currency       string    `gorm:"size:3;not null" json:"currency"`
	Method         string    `gorm:"size:16;not null" json:"method"`
}

// Pay captures a payment inside our own ledger, on a Rollback route. No provider is called.
func (s *Shop) Pay(ctx context.Context, p core.Principal, in PaymentInput) (*Payment, error) {
	cents, err := parseAmount("amount", in.Amount)
	err = cmp.Or(checkText("order_id", in.OrderID), err, checkCurrency(in.Currency), s.checkMethod(in.Method))
	if err != nil {
		return nil, err
	}
	if err := checkAvailable(ctx, in.Method); err != nil {
		return nil, err
	}
	if in.Method == MethodDeclined {
		return nil, ErrDeclined
	}

	tx := gormstore.Tx(ctx)
	payment := &Payment{
		ID: newID("pay"), Owner: ownerOf(p), Realm: realmOf(p), OrderID: in.OrderID, Status: "captured",
		Amount: in.Amount, Cents: cents, Currency: in.Currency, Method: in.Method,
	}
	if _, err := gormstore.CreateOnce(tx, payment); err != nil {
		return nil, err
	}
	if err := endTransaction(tx, in.Method); err != nil {
		return nil, err
	}
	if _, err := book(tx, kindPayment, in.Amount, nameOf(p)); err != nil {
		return nil, err
	}
	if s.Paid != nil {
		if err := s.Paid(ctx, payment); err != nil {
			return nil, err
		}
	}
	return payment, s.strike(ctx, in.Method)
}

// Payment returns a payment of the caller.
func (s *Shop) Payment(ctx context.Context, p core.Principal, id string) (*Payment, error) {
	if !isID(id) {
		return nil, ErrNotFound
	}
	var payment Payment
	err := s.db.WithContext(ctx).Where("id = ? AND owner = ?", id, ownerOf(p)).Take(&payment).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return nil, ErrNotFound
	}
	return &payment, err
}

// Payments lists the payments of the caller, oldest first.
func (s *Shop) Payments(ctx context.Context, p core.Principal) ([]Payment, error) {
	payments := []Payment{}
	err := s.db.WithContext(ctx).Where("owner = ?", ownerOf(p)).Order("created_at, id").Find(&payments).Error
	return payments, err
}
