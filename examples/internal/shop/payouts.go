package shop

import (
	"cmp"
	"context"
	"errors"
	"net/url"

	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/examples/internal/provider"
	"github.com/auth19/idem/gormstore"
)

// PayoutInput is the body of POST /v1/payouts.
type PayoutInput struct {
	Amount   string `json:"amount"`
	Currency string `json:"currency"`
	Method   string `json:"method"`
}

// Payout is a payout and its answer.
type Payout struct {
	gormstore.Once `json:"-"`
	ID             string `gorm:"primaryKey;size:32" json:"id"`
	Status         string `gorm:"size:16;not null" json:"status"`
	Amount         string `gorm:"not null" json:"amount"`
	Currency       string `gorm:"size:3;not null" json:"currency"`
	Method         string `gorm:"size:16;not null" json:"method"`
}

// Payout pays a seller through the provider, on a Park route. The provider's charge and our rows cannot be in one
// transaction. So an attempt that ends between them is unknown, and an operator settles it.
func (s *Shop) Payout(ctx context.Context, p core.Principal, in PayoutInput) (*Payout, error) {
	_, err := parseAmount("amount", in.Amount)
	if err := cmp.Or(err, checkCurrency(in.Currency), s.checkMethod(in.Method)); err != nil {
		return nil, err
	}
	if err := checkAvailable(ctx, in.Method); err != nil {
		return nil, err
	}
	key, err := core.DeriveCall(ctx, "payout") // the same in every attempt
	if err != nil {
		return nil, err // a payout belongs in a guarded route
	}
	// By these an operator finds the payout, whatever becomes of the attempt. A subject may hold what nobody can type.
	seller := url.PathEscape(p.Subject)
	seller = seller[:min(len(seller), store.MaxReferenceValue)]
	err = errors.Join(core.Reference(ctx, "seller", seller), core.Reference(ctx, "amount", in.Amount))
	if err != nil {
		core.NotApplied(ctx) // nobody was paid yet
		return nil, err
	}
	_, err = s.charge(ctx, nameOf(p), provider.Request{
		Key: key.String(), Amount: in.Amount, Currency: in.Currency, Method: in.Method,
	})
	if err != nil {
		return nil, err
	}
	if err := s.strike(ctx, in.Method); err != nil {
		return nil, err
	}

	payout := &Payout{ID: newID("out"), Status: "paid", Amount: in.Amount, Currency: in.Currency, Method: in.Method}
	err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if _, err := gormstore.CreateOnce(tx, payout); err != nil {
			return err
		}
		_, err := book(tx, kindPayout, in.Amount, nameOf(p))
		return err
	})
	return payout, err
}
