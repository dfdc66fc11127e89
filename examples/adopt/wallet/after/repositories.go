package main

import (
	"context"
	"errors"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/auth19/idem/gormstore"
)

var (
	errNoWallet = errors.New("there is no such wallet")
	errNoMoney  = errors.New("the balance is too small")
)

// conn returns the attempt's transaction in a guarded route, and the plain database elsewhere.
func conn(ctx context.Context) *gorm.DB {
	if tx, ok := gormstore.TxFrom(ctx); ok {
		return tx
	}
	return db.WithContext(ctx)
}

type walletRepository struct{}

// Create creates an empty wallet, and reports whether there was none.
func (walletRepository) Create(user uint) (created bool, err error) {
	result := db.Clauses(clause.OnConflict{DoNothing: true}).Create(&Wallet{UserID: user})
	return result.RowsAffected == 1, result.Error
}

func (walletRepository) Find(ctx context.Context, user uint) (*Wallet, error) {
	var w Wallet
	err := conn(ctx).Take(&w, user).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return nil, errNoWallet
	}
	return &w, err
}

// Add changes a balance. It never becomes negative.
func (r walletRepository) Add(ctx context.Context, user uint, amount int64) error {
	result := conn(ctx).Model(&Wallet{UserID: user}).Where("balance + ? >= 0", amount).
		Update("balance", gorm.Expr("balance + ?", amount))
	if result.Error != nil || result.RowsAffected == 1 {
		return result.Error
	}
	if _, err := r.Find(ctx, user); err != nil {
		return err
	}
	return errNoMoney
}

type transferRepository struct{}

// Create books a transfer, once for each operation. Only guarded routes call it.
func (transferRepository) Create(ctx context.Context, t *Transfer) (created bool, err error) {
	return gormstore.CreateOnce(gormstore.Tx(ctx), t)
}
