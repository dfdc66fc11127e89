package inbox_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/libtnb/sqlite"
	"go.uber.org/goleak"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/gormstore"
)

// The rules of the inbox are tested by the package gormstore, in inbox*_test.go: those tests need its databases.

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// exampleDB is an app's database, with the pragmas that an SQLite file for money needs, and migrated.
func exampleDB() (db *gorm.DB, done func()) {
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
