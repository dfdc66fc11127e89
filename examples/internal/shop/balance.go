package shop

import (
	"context"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
)

// MovementInput is the body of POST /v1/balance/charge and /v1/balance/credit.
type MovementInput struct {
	Amount string `json:"amount"`
}

// Balance is the answer of all routes of the balance.
type Balance struct {
	Balance string `json:"balance"`
}

// balance is the money of a principal. Without a row it is 0.00.
type balance struct {
	Owner string `gorm:"primaryKey;size:64"`
	Cents int64  `gorm:"not null"`
}

// Charge takes from the caller's balance, on a Rollback route. The balance is never negative, also if
// several commands run at the same time.
func (s *Shop) Charge(ctx context.Context, p core.Principal, in MovementInput) (*Balance, error) {
	return s.move(ctx, p, in, kindCharge)
}

// Credit adds to the caller's balance, on a Rollback route.
func (s *Shop) Credit(ctx context.Context, p core.Principal, in MovementInput) (*Balance, error) {
	return s.move(ctx, p, in, kindCredit)
}

func (s *Shop) move(ctx context.Context, p core.Principal, in MovementInput, kind string) (*Balance, error) {
	cents, err := parseAmount("amount", in.Amount)
	if err != nil {
		return nil, err
	}
	if kind == kindCharge {
		cents = -cents
	}
	tx := gormstore.Tx(ctx)
	booked, err := book(tx, kind, in.Amount, nameOf(p))
	if err != nil {
		return nil, err
	}
	if booked {
		err = addCents(tx, ownerOf(p), cents)
	}
	if err != nil {
		return nil, err
	}
	return balanceOf(tx, p)
}

// addCents adds to a balance, or takes from it if it is high enough.
func addCents(tx *gorm.DB, owner string, cents int64) error {
	if err := tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&balance{Owner: owner}).Error; err != nil {
		return err
	}
	// One statement compares and takes, so two charges at the same time cannot both have the last cent.
	result := tx.Model(&balance{}).Where("owner = ? AND cents + ? >= 0", owner, cents).
		Update("cents", gorm.Expr("cents + ?", cents))
	if result.Error == nil && result.RowsAffected == 0 {
		return ErrInsufficientFunds
	}
	return result.Error
}

// Balance returns the caller's balance.
func (s *Shop) Balance(ctx context.Context, p core.Principal) (*Balance, error) {
	return balanceOf(s.db.WithContext(ctx), p)
}

func balanceOf(db *gorm.DB, p core.Principal) (*Balance, error) {
	var row balance
	err := db.Where("owner = ?", ownerOf(p)).Limit(1).Find(&row).Error // no row: 0.00
	return &Balance{formatCents(row.Cents)}, err
}
