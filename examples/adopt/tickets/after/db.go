package main

import (
	"github.com/libtnb/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/auth19/idem/gormstore"
)

type Show struct {
	ID    string `json:"id"`
	Seats int    `json:"seats"` // that are left
}

type Order struct {
	gormstore.Once `json:"-"`

	ID       uint   `json:"id"`
	Customer string `json:"customer"`
	Show     string `json:"show"`
	Seats    int    `json:"seats"`
}

type Points struct {
	ID       uint
	Customer string
	Points   int
}

type Like struct {
	Customer string `gorm:"primaryKey"`
	Show     string `gorm:"primaryKey"`
}

// open opens the database, creates its tables, and a show.
func open(file string) (*gorm.DB, error) {
	db, err := gorm.Open(sqlite.Open("file:" + file +
		"?_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=busy_timeout(5000)"))
	if err != nil {
		return nil, err
	}
	if err := db.AutoMigrate(&Show{}, &Order{}, &Points{}, &Like{}); err != nil {
		return nil, err
	}
	return db, db.Clauses(clause.OnConflict{DoNothing: true}).Create(&Show{ID: "opera", Seats: 100}).Error
}
