// Package shop is the business of both example apps: orders, payments, refunds, payouts and a balance, with one ledger.
//
// It imports no web framework. Functions for Rollback routes write only through [gormstore.Tx]. The function for the Resume
// route writes and calls the provider in steps. The function for the Park route calls the provider with a derived key, and
// then writes through the plain database.
package shop

import (
	"context"
	"time"

	"gorm.io/gorm"

	"github.com/auth19/idem/examples/internal/provider"
)

// Provider moves money outside of our database: the simulator, or another service. To a repeat with the key of a charge it
// answers with that charge.
type Provider interface {
	// Charge moves money once. After an error other than [provider.ErrDeclined] and [provider.ErrKeyReused] it is not known
	// whether it did.
	Charge(ctx context.Context, r provider.Request) (provider.Charge, error)
	// Charges lists the provider's ledger, oldest first, if the provider shows it.
	Charges(ctx context.Context) ([]provider.Charge, error)
}

// Shop carries out the commands.
type Shop struct {
	// Paid is called with each captured payment. ctx has the payment's transaction ([gormstore.Tx]): rows that are written
	// through it exist if and only if the payment exists. An error rolls the payment back. Default nil: not called. Set it
	// before the first request.
	Paid func(ctx context.Context, p *Payment) error

	db       *gorm.DB
	provider Provider
	unsafe   bool
	slow     time.Duration
}

// New returns a shop with its rows in db. unsafe allows the test methods that hang or end the process.
func New(db *gorm.DB, p Provider, unsafe bool) *Shop {
	return &Shop{db: db, provider: p, unsafe: unsafe, slow: 2 * time.Second}
}

// Models are the tables to migrate.
func Models() []any { return append(MoneyModels(), &stock{}, &balance{}, &profile{}) }

// MoneyModels are the tables whose rows an operation may create only once, for [gormstore.Audit].
func MoneyModels() []any { return []any{&Order{}, &Payment{}, &Refund{}, &Payout{}, &Entry{}} }
