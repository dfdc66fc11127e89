package shop

import (
	"cmp"
	"context"
	"errors"
	"time"

	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/examples/internal/provider"
	"github.com/auth19/idem/gormstore"
)

// RefundInput is the body of POST /v1/payments/:id/refunds.
type RefundInput struct {
	Amount string `json:"amount"`
	Method string `json:"method"` // a test method; pm_ok if left out
}

// States of a refund.
const (
	refundReserved = "reserved"
	refundTooHigh  = "too_high" // more than was left of the payment
	refundDeclined = "declined" // by the provider
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

	// What [Shop.ResumeRefund] needs of the command.
	Principal string `gorm:"not null" json:"-"`
	Method    string `gorm:"size:16;not null" json:"-"`
}

// refundDedup is how long a refund may be repeated at the provider: its window, less an hour for clocks and delays.
const refundDedup = provider.Window - time.Hour

// Refund pays a payment back through the provider, in part or in full, on a Resume route. What stands before the call
// commits with its start, the rest with the answer: after a failure, a repeat continues behind the call. A customer refunds
// its own payments, a seller those of its tenant.
func (s *Shop) Refund(ctx context.Context, p core.Principal, paymentID string, in RefundInput) (*Refund, error) {
	in.Method = cmp.Or(in.Method, MethodOK)
	cents, err := parseAmount("amount", in.Amount)
	if err := cmp.Or(err, s.checkMethod(in.Method)); err != nil {
		return nil, err
	}
	payment, err := s.refundable(ctx, p, paymentID)
	if err != nil {
		return nil, err
	}
	if err := checkAvailable(ctx, in.Method); err != nil {
		return nil, err
	}

	// By these an operator tells refunds apart. They commit with the start of the call.
	err = errors.Join(core.Reference(ctx, "payment", payment.ID), core.Reference(ctx, "amount", in.Amount))
	if err != nil {
		return nil, err
	}
	return s.refund(ctx, cents, Refund{PaymentID: payment.ID, Status: refundReserved, Amount: in.Amount,
		Currency: payment.Currency, Principal: nameOf(p), Method: in.Method})
}

// ResumeRefund goes on with a refund that is half-done, when its client does not come back. All that it needs is in the row
// that has committed with the start of the provider's call.
func (s *Shop) ResumeRefund(ctx context.Context, operation core.ID) (*Refund, error) {
	var begun Refund
	if err := s.db.WithContext(ctx).Where("operation_id = ?", operation.String()).Take(&begun).Error; err != nil {
		return nil, err
	}
	cents, err := parseAmount("amount", begun.Amount)
	if err != nil {
		return nil, err
	}
	return s.refund(ctx, cents, begun)
}

// refund takes the steps of a refund. A later attempt takes the same.
func (s *Shop) refund(ctx context.Context, cents int64, in Refund) (*Refund, error) {
	// A refusal is the result of its step. An error would leave the step unfinished.
	refund, err := gormstore.Step(ctx, "reserve", func(tx *gorm.DB) (*Refund, error) {
		return reserveRefund(tx, in, cents)
	})
	if err != nil {
		return nil, err
	}
	if refund.Status != refundReserved {
		return refund, refund.refusal()
	}

	fresh := false
	outcome, err := core.Call(ctx, "provider", func(ctx context.Context, key core.DerivedKey) (outcome string, err error) {
		outcome, fresh, err = s.refundAtProvider(ctx, key, in)
		return outcome, err
	}, core.Dedup(refundDedup))
	if err == nil && fresh { // a repeat is spared
		err = s.strike(ctx, in.Method)
	}
	if err != nil {
		return nil, err
	}

	if outcome == refundDeclined {
		err := gormstore.StepDo(ctx, "give back", func(tx *gorm.DB) error { return giveBackRefund(tx, refund, cents) })
		return nil, cmp.Or(err, ErrDeclined)
	}
	return gormstore.Step(ctx, "book", func(tx *gorm.DB) (*Refund, error) {
		return bookRefund(tx, in.Principal, refund)
	})
}

// refusal returns why a refund was not made; nil if the second line has found that it was made.
func (r *Refund) refusal() error {
	switch r.Status {
	case refundTooHigh:
		return ErrRefundTooHigh
	case refundDeclined:
		return ErrDeclined
	}
	return nil
}

// refundable finds a payment that the caller may refund. Other payments are not found.
func (s *Shop) refundable(ctx context.Context, p core.Principal, id string) (*Payment, error) {
	if !isID(id) {
		return nil, ErrNotFound
	}
	db := s.db.WithContext(ctx)
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

// reserveRefund takes the amount from the rest of the payment. So refunds never exceed the captured amount, also if several
// run at the same time. If the second line finds the operation's refund, that refund is the result.
func reserveRefund(tx *gorm.DB, in Refund, cents int64) (*Refund, error) {
	refund := &in
	refund.ID = newID("ref")
	created, err := gormstore.CreateOnce(tx, refund)
	if err != nil || !created {
		return refund, err
	}
	taken := tx.Model(&Payment{}).Where("id = ? AND refunded_cents + ? <= cents", refund.PaymentID, cents).
		Update("refunded_cents", gorm.Expr("refunded_cents + ?", cents))
	if taken.Error == nil && taken.RowsAffected == 0 {
		return refund, refund.become(tx, refundTooHigh)
	}
	return refund, taken.Error
}

// refundAtProvider calls the provider, and returns the new state of the refund, and whether the provider has made it now.
func (s *Shop) refundAtProvider(ctx context.Context, key core.DerivedKey, in Refund) (
	outcome string, fresh bool, err error,
) {
	fresh, err = s.charge(ctx, in.Principal, provider.Request{
		Key: key.String(), Amount: in.Amount, Currency: in.Currency, Method: in.Method,
	})
	if errors.Is(err, ErrDeclined) {
		return refundDeclined, false, nil
	}
	return refundDone, fresh, err
}

// giveBackRefund returns what reserveRefund has taken.
func giveBackRefund(tx *gorm.DB, refund *Refund, cents int64) error {
	err := tx.Model(&Payment{}).Where("id = ?", refund.PaymentID).
		Update("refunded_cents", gorm.Expr("refunded_cents - ?", cents)).Error
	if err != nil {
		return err
	}
	return refund.become(tx, refundDeclined)
}

// bookRefund enters a refund that the provider has made into the ledger.
func bookRefund(tx *gorm.DB, by string, refund *Refund) (*Refund, error) {
	if _, err := book(tx, kindRefund, refund.Amount, by); err != nil {
		return nil, err
	}
	return refund, refund.become(tx, refundDone)
}

// become sets the state of a refund.
func (r *Refund) become(tx *gorm.DB, status string) error {
	r.Status = status
	return tx.Model(&Refund{}).Where("id = ?", r.ID).Update("status", status).Error
}
