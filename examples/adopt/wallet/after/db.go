package main

import (
	"github.com/libtnb/sqlite"
	"gorm.io/gorm"

	"github.com/auth19/idem/gormstore"
)

// db is used by all repositories.
var db *gorm.DB

type Wallet struct {
	UserID  uint  `gorm:"primaryKey;autoIncrement:false" json:"user_id"`
	Balance int64 `json:"balance"` // cents
}

type Transfer struct {
	gormstore.Once `json:"-"`

	ID     uint  `json:"id"`
	From   uint  `json:"from"`
	To     uint  `json:"to"`
	Amount int64 `json:"amount"`
}

// connect opens the database, and creates its tables.
func connect(file string) (err error) {
	db, err = gorm.Open(sqlite.Open("file:" + file +
		"?_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=busy_timeout(5000)"))
	if err != nil {
		return err
	}
	return db.AutoMigrate(&Wallet{}, &Transfer{})
}
