package main

import (
	"errors"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

var (
	errNoWallet = errors.New("there is no such wallet")
	errNoMoney  = errors.New("the balance is too small")
)

type walletRepository struct{}

// Create creates an empty wallet, and reports whether there was none.
func (walletRepository) Create(user uint) (created bool, err error) {
	result := db.Clauses(clause.OnConflict{DoNothing: true}).Create(&Wallet{UserID: user})
	return result.RowsAffected == 1, result.Error
}

func (walletRepository) Find(user uint) (*Wallet, error) {
	var w Wallet
	err := db.Take(&w, user).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return nil, errNoWallet
	}
	return &w, err
}

// Add changes a balance. It never becomes negative.
func (r walletRepository) Add(user uint, amount int64) error {
	result := db.Model(&Wallet{UserID: user}).Where("balance + ? >= 0", amount).
		Update("balance", gorm.Expr("balance + ?", amount))
	if result.Error != nil || result.RowsAffected == 1 {
		return result.Error
	}
	if _, err := r.Find(user); err != nil {
		return err
	}
	return errNoMoney
}

type transferRepository struct{}

func (transferRepository) Create(t *Transfer) error { return db.Create(t).Error }
