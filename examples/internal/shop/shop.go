// Package shop is the business of both example apps: orders, payments, refunds, payouts and a balance, over one ledger.
//
// It knows no web framework. What runs in a Rollback route writes through [gormstore.Tx] and nothing else. What runs in
// the Resume route writes and calls the provider in steps. What runs in the Park route calls the provider with a
// derived key and then writes through the plain database.
package shop

import (
	"context"
	"time"

	"gorm.io/gorm"

	"github.com/auth19/idem/examples/internal/provider"
)

// Provider moves money outside of our database: the simulator, or another service. It answers a repeat with the key of a
// charge by that charge.
type Provider interface {
	// Charge moves money once. Any error but [provider.ErrDeclined] and [provider.ErrKeyReused] leaves open whether it did.
	Charge(ctx context.Context, r provider.Request) (provider.Charge, error)
	// Charges lists the provider's ledger, oldest first, as far as it shows it.
	Charges(ctx context.Context) ([]provider.Charge, error)
}

// Shop does the business.
type Shop struct {
	// Paid is called with each captured payment. ctx has the payment's transaction ([gormstore.Tx]): what is written
	// through it is there if and only if the payment is, and an error undoes the payment. Default nil: nobody is told. To
	// be set before the first request.
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

// MoneyModels are the tables whose rows an operation may make only once, for [gormstore.Audit].
func MoneyModels() []any { return []any{&Order{}, &Payment{}, &Refund{}, &Payout{}, &Entry{}} }
