package gormstore_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
)

// Wallet is a row of an app in layers: handler, service, repository.
type Wallet struct {
	ID      string
	Balance int64
}

// walletRepository is shared by guarded and unguarded routes.
type walletRepository struct{ db *gorm.DB }

// conn returns the attempt's transaction in a guarded route, and the plain database elsewhere.
func (r *walletRepository) conn(ctx context.Context) *gorm.DB {
	if tx, ok := gormstore.TxFrom(ctx); ok {
		return tx
	}
	return r.db.WithContext(ctx)
}

// AddContext is the method that money routes call.
func (r *walletRepository) AddContext(ctx context.Context, id string, amount int64) error {
	return r.conn(ctx).Model(&Wallet{ID: id}).Update("balance", gorm.Expr("balance + ?", amount)).Error
}

// Add is the method of before. The callers that are not changed yet keep it; none of them is behind a guard.
//
// Deprecated: use AddContext.
func (r *walletRepository) Add(id string, amount int64) error {
	return r.AddContext(context.Background(), id, amount)
}

// walletService has got the context, and only passes it on.
type walletService struct{ wallets *walletRepository }

func (s *walletService) Deposit(ctx context.Context, id string, amount int64) error {
	if amount <= 0 {
		return errors.New("the amount must be positive")
	}
	return s.wallets.AddContext(ctx, id, amount)
}

// A repository that guarded and unguarded routes share. In the guarded route its write is undone with the attempt.
func ExampleTxFrom() {
	db, done := exampleDB()
	defer done()
	must(db.AutoMigrate(&Wallet{}))
	must(db.Create(&Wallet{ID: "w-1"}).Error)
	store, err := gormstore.New(db)
	must(err)
	defer func() { must(store.Close()) }()
	idem, err := core.New(core.Config{Store: store, Policy: core.Policy{Recovery: core.Rollback}})
	must(err)
	service := &walletService{wallets: &walletRepository{db: db}}

	for _, status := range []int{http.StatusInternalServerError, http.StatusCreated} {
		w := examplePost(idem, "deposit-1", func(w http.ResponseWriter, r *http.Request) {
			must(service.Deposit(r.Context(), "w-1", 500)) // in Gin c.Request.Context(), in Echo c.Request().Context()
			w.WriteHeader(status)
		})
		fmt.Println("guarded:", w.Code, balance(db))
	}
	must(service.wallets.Add("w-1", 1)) // a job, without a guard
	fmt.Println("unguarded:", balance(db))
	// Output:
	// guarded: 500 0
	// guarded: 201 500
	// unguarded: 501
}

func balance(db *gorm.DB) int64 {
	var w Wallet
	must(db.First(&w, "id = ?", "w-1").Error)
	return w.Balance
}
