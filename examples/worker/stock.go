package main

import (
	"errors"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// Stock is the number of pieces of an article in the warehouse.
type Stock struct {
	Article string `gorm:"primaryKey;size:64"`
	Pieces  int64  `gorm:"not null"`
}

// TableName implements GORM's Tabler.
func (Stock) TableName() string { return "warehouse" }

// Every paid order ships one piece of the one article that this shop has.
const (
	article       = "mug"
	piecesAtStart = 1_000_000
)

var errOutOfStock = errors.New("paid, but the warehouse is empty")

// fillWarehouse puts the first pieces into the warehouse, once for all instances and restarts.
func fillWarehouse(db *gorm.DB) error {
	return db.Clauses(clause.OnConflict{DoNothing: true}).Create(&Stock{Article: article, Pieces: piecesAtStart}).Error
}

// ship takes a piece out of the warehouse, in the transaction of its message, and returns how many are left. Doing it twice
// would be wrong. It does not check whether it was done before: the inbox does.
func ship(tx *gorm.DB) (left int64, err error) {
	mug := Stock{Article: article}
	taken := tx.Model(&mug).Clauses(clause.Returning{}).Where("pieces > 0").Update("pieces", gorm.Expr("pieces - 1"))
	if taken.Error == nil && taken.RowsAffected == 0 {
		return 0, errOutOfStock
	}
	return mug.Pieces, taken.Error
}
