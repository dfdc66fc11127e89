package shop

import (
	"cmp"
	"slices"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// stock is the number of pieces of a sku that are left.
type stock struct {
	SKU    string `gorm:"primaryKey;size:255"`
	Pieces int64  `gorm:"not null"`
}

const (
	piecesAtStart = 1_000_000
	soldOut       = "sold-out" // the sku that starts with none
)

// reserve takes the pieces of all items, or returns ErrOutOfStock.
func reserve(tx *gorm.DB, items []Item) error {
	for _, item := range inOrder(items) {
		start := stock{SKU: item.SKU, Pieces: piecesAtStart}
		if item.SKU == soldOut {
			start.Pieces = 0
		}
		if err := tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&start).Error; err != nil {
			return err
		}
		// One statement compares and takes, so two orders at the same time cannot both have the last piece.
		result := tx.Model(&stock{}).Where("sku = ? AND pieces >= ?", item.SKU, item.Qty).
			Update("pieces", gorm.Expr("pieces - ?", item.Qty))
		if result.Error != nil {
			return result.Error
		}
		if result.RowsAffected == 0 {
			return ErrOutOfStock
		}
	}
	return nil
}

// giveBack returns the pieces of a cancelled order.
func giveBack(tx *gorm.DB, items []Item) error {
	for _, item := range inOrder(items) {
		err := tx.Model(&stock{}).Where("sku = ?", item.SKU).Update("pieces", gorm.Expr("pieces + ?", item.Qty)).Error
		if err != nil {
			return err
		}
	}
	return nil
}

// inOrder sorts items by sku: transactions that lock rows in the same order cannot deadlock.
func inOrder(items []Item) []Item {
	return slices.SortedFunc(slices.Values(items), func(a, b Item) int { return cmp.Compare(a.SKU, b.SKU) })
}
