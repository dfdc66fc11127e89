package shop

import (
	"context"
	"strconv"

	"gorm.io/gorm"

	"github.com/auth19/idem/gormstore"
)

// Kinds of ledger entries. The entries of the provider's ledger are listed as kindProvider.
const (
	kindPayment  = "payment"
	kindRefund   = "refund"
	kindPayout   = "payout"
	kindCharge   = "charge"
	kindCredit   = "credit"
	kindProvider = "provider"
)

// Entry is a booked entry of the ledger: one per operation and kind.
type Entry struct {
	gormstore.Once
	ID        int64  `gorm:"primaryKey;autoIncrement"`
	Kind      string `gorm:"size:16;not null;uniqueIndex:,composite:operation"`
	Amount    string `gorm:"not null"` // as the client wrote it
	Principal string `gorm:"not null"`
}

// TableName implements GORM's Tabler.
func (Entry) TableName() string { return "ledger" }

// book adds an entry to the ledger once. booked is false if the operation has booked it before.
func book(tx *gorm.DB, kind, amount, by string) (booked bool, err error) {
	return gormstore.CreateOnce(tx, &Entry{Kind: kind, Amount: amount, Principal: by})
}

// Line is an entry of our ledger, or of the provider's ledger, as operators see it.
type Line struct {
	ID        string `json:"id"`
	Kind      string `json:"kind"`
	Amount    string `json:"amount"`
	Principal string `json:"principal"`
	Operation string `json:"operation"`
	Key       string `json:"key,omitempty"` // the provider's entries: the key of the call
}

// Ledger lists all entries, oldest first, and then those of the provider. Doubles can be counted here.
func (s *Shop) Ledger(ctx context.Context) ([]Line, error) {
	var entries []Entry
	if err := s.db.WithContext(ctx).Order("id").Find(&entries).Error; err != nil {
		return nil, err
	}
	charges, err := s.provider.Charges(ctx)
	if err != nil {
		return nil, err
	}
	lines := make([]Line, 0, len(entries)+len(charges))
	for _, e := range entries {
		lines = append(lines, Line{strconv.FormatInt(e.ID, 10), e.Kind, e.Amount, e.Principal, e.OperationID, ""})
	}
	for _, c := range charges {
		lines = append(lines, Line{c.ID, kindProvider, c.Amount, c.Principal, c.Operation, c.Key})
	}
	return lines, nil
}
