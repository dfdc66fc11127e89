// Package provider simulates a payment provider: an external service with a ledger in its own database, outside of our
// transactions. A charge that is made twice is twice in its ledger.
//
// It works as providers do: every charge has a key. If the key was used within [Window], the answer is the first charge,
// and no second charge is made.
package provider

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// Window is how long the provider remembers a key.
const Window = 24 * time.Hour

// Test methods of the provider.
const (
	MethodDeclined = "pm_declined" // is declined
	MethodLost     = "pm_lost"     // is charged, and the answer is lost; a repeat with the same key gets it
	MethodStuck    = "pm_stuck"    // is charged, and every answer is lost
)

// The ways in which a charge fails.
var (
	// ErrDeclined: the provider refuses, and this is final. Nothing was charged.
	ErrDeclined = errors.New("the provider declined")
	// ErrKeyReused: the key was used before with another amount or currency. Nothing was charged.
	ErrKeyReused = errors.New("the provider knows this key with another charge")
	// ErrAnswerLost: the answer did not arrive. The charge may have been made; here it was.
	ErrAnswerLost = errors.New("the provider's answer was lost")
)

// Request asks for a charge.
type Request struct {
	Key      string // one per charge: the same in every attempt
	Amount   string
	Currency string
	Method   string

	// Metadata that the provider stores for us and shows in its ledger.
	Operation string
	Principal string
}

// Charge is an entry of the provider's ledger.
type Charge struct {
	Seq       int64  `gorm:"primaryKey;autoIncrement"`
	ID        string `gorm:"size:32;not null;uniqueIndex"`
	Amount    string `gorm:"not null"`
	Currency  string `gorm:"not null"`
	Operation string `gorm:"not null"`
	Principal string `gorm:"not null"`
	Key       string `gorm:"not null;default:''"` // under which it was made: to be looked for
	Fresh     bool   `gorm:"-"`                   // it was made by this call, and not by an earlier one with its key
}

// TableName implements GORM's Tabler.
func (Charge) TableName() string { return "provider_charges" }

// usedKey remembers the charge that was made for a key.
type usedKey struct {
	Key      string `gorm:"primaryKey;size:255"`
	ChargeID string `gorm:"size:32;not null"`
	UsedAt   int64  `gorm:"not null"` // seconds since 1970
}

// TableName implements GORM's Tabler.
func (usedKey) TableName() string { return "provider_keys" }

// Models are the tables to migrate.
func Models() []any { return []any{&Charge{}, &usedKey{}} }

// Provider is the provider's service.
type Provider struct {
	db   *gorm.DB
	now  func() time.Time
	lose atomic.Int64
}

// New returns a provider with its ledger in db, which must not be the app's own pool.
func New(db *gorm.DB) *Provider { return &Provider{db: db, now: time.Now} }

// LoseAnswers makes the next n calls of Charge that reach the ledger end in [ErrAnswerLost], after the charge.
func (p *Provider) LoseAnswers(n int) { p.lose.Store(int64(n)) }

// Charge moves money once per key within [Window]. A repeat gets the first charge. After an error other than
// [ErrDeclined] and [ErrKeyReused] it is not known whether money was moved.
func (p *Provider) Charge(ctx context.Context, r Request) (Charge, error) {
	if r.Method == MethodDeclined {
		return Charge{}, ErrDeclined
	}
	charge := Charge{
		ID: "ch_" + strings.ToLower(rand.Text()), Amount: r.Amount, Currency: r.Currency,
		Operation: r.Operation, Principal: r.Principal, Key: r.Key,
	}
	fresh := false
	err := p.db.WithContext(ctx).Transaction(func(tx *gorm.DB) (err error) {
		fresh, err = p.useKey(tx, r.Key, charge.ID)
		if err != nil {
			return err
		}
		if fresh {
			return tx.Create(&charge).Error
		}
		charge, err = chargeOf(tx, r.Key)
		if err == nil && (charge.Amount != r.Amount || charge.Currency != r.Currency) {
			return ErrKeyReused
		}
		return err
	})
	if err != nil {
		return Charge{}, err
	}
	if p.lose.Add(-1) >= 0 || fresh && r.Method == MethodLost || r.Method == MethodStuck {
		return Charge{}, ErrAnswerLost
	}
	charge.Fresh = fresh
	return charge, nil
}

// useKey takes the key for a new charge, unless it was used within the window. One that nobody has used is as one from
// before: the row that is changed says who has it, on every database.
func (p *Provider) useKey(tx *gorm.DB, key, chargeID string) (fresh bool, err error) {
	now := p.now()
	if err := tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&usedKey{Key: key}).Error; err != nil {
		return false, err
	}
	result := tx.Model(&usedKey{}).Where(&usedKey{Key: key}).Where("used_at < ?", now.Add(-Window).Unix()).
		Updates(&usedKey{ChargeID: chargeID, UsedAt: now.Unix()})
	return result.RowsAffected == 1, result.Error
}

// chargeOf returns the charge that was made for a key.
func chargeOf(tx *gorm.DB, key string) (charge Charge, err error) {
	err = tx.Where("id = (?)", tx.Model(&usedKey{}).Select("charge_id").Where(&usedKey{Key: key})).Take(&charge).Error
	if err != nil {
		return Charge{}, fmt.Errorf("the provider has lost a charge: %w", err)
	}
	return charge, nil
}

// Charges lists the ledger, oldest first.
func (p *Provider) Charges(ctx context.Context) ([]Charge, error) {
	var charges []Charge
	err := p.db.WithContext(ctx).Order("seq").Find(&charges).Error
	return charges, err
}
