package inbox_test

import (
	"testing"

	"go.uber.org/goleak"
	"gorm.io/gorm"

	"github.com/auth19/idem/internal/exampledb"
)

// The rules of the inbox are tested by the package gormstore, in inbox*_test.go: those tests need its databases.

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// exampleDB is an app's database.
func exampleDB() (db *gorm.DB, done func()) {
	db, remove, err := exampledb.Open()
	must(err)
	return db, func() { must(remove()) }
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
