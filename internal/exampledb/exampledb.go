// Package exampledb is the database of the examples of gormstore and of the packages below it.
package exampledb

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/libtnb/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/gormstore"
)

// Open makes an app's database, with the pragmas that an SQLite file for money needs, and migrated. done removes it.
func Open() (db *gorm.DB, done func() error, err error) {
	dir, err := os.MkdirTemp("", "idem")
	if err != nil {
		return nil, nil, err
	}
	db, err = gorm.Open(sqlite.Open("file:"+filepath.Join(dir, "app.db")+
		"?_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=busy_timeout(5000)"),
		&gorm.Config{Logger: logger.Discard})
	if err == nil {
		err = gormstore.Migrate(context.Background(), db)
	}
	return db, func() error {
		pool, err := db.DB()
		if err == nil {
			err = pool.Close()
		}
		return errors.Join(err, os.RemoveAll(dir))
	}, err
}
