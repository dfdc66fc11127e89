// Package exampledb is the database of the examples of gormstore and of the packages below it.
package exampledb

import (
	"context"
	"os"
	"path/filepath"

	"github.com/libtnb/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/gormstore"
)

// Open makes an app's database, with the pragmas that an SQLite file for money needs, and migrated. done removes it. Both
// panic on an error: an example has nobody to tell.
func Open() (db *gorm.DB, done func()) {
	dir, err := os.MkdirTemp("", "idem")
	must(err)
	db, err = gorm.Open(sqlite.Open("file:"+filepath.Join(dir, "app.db")+
		"?_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=busy_timeout(5000)"),
		&gorm.Config{Logger: logger.Discard})
	must(err)
	must(gormstore.Migrate(context.Background(), db))
	return db, func() {
		pool, err := db.DB()
		must(err)
		must(pool.Close())
		must(os.RemoveAll(dir))
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
